"""`mirage report shadow` on the stored history: the same numbers as from the same jobs' log."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirage.database.operations import clusters, reports
from mirage.database.schema.engine import Store
from tests.integration.cli.test_episodes import CLUSTER
from tests.integration.cli.test_report import PAIR, jobs
from tests.support.mirage_process import Answer, run

COLUMNS = "JobIDRaw|User|Account|Partition|State|Submit|Start|End|TimelimitRaw|NNodes|NCPUS"
CONFIG = """\
[cluster]
name = "lab"
file = "C.toml"
[service]
state_dir = "state"
"""


def sacct_text() -> str:
    """The jobs as `sacct -P` writes them: with limits in minutes."""
    rows = [COLUMNS]
    for job in jobs():
        minutes = max(1, job.time_limit_s // 60)
        end = job.submit + max(1, min(job.run_s, minutes * 60))
        rows.append(
            f"{job.job_id}|{job.user}|lab||COMPLETED|{job.submit}|{job.submit}|{end}|{minutes}|"
            f"{job.nodes}|{job.nodes}"
        )
    return "\n".join(rows) + "\n"


@pytest.fixture(scope="module")
def service_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service's folder: a database without a job, and a log beside it."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "C.toml").write_text(CLUSTER)
    (folder / "mirage.toml").write_text(CONFIG)
    (folder / "log.txt").write_text(sacct_text())
    assert mirage(folder, "db", "upgrade").code == 0
    return folder


def mirage(folder: Path, *words: str) -> Answer:
    return run(*words, "--config", "mirage.toml", cwd=folder)


def report(folder: Path, *words: str) -> dict[str, Any]:
    answer = mirage(folder, "report", "shadow", *PAIR, "--jobs", "1", "--json", *words)
    assert answer.code == 0, answer.err
    read: dict[str, Any] = json.loads(answer.out)
    return read


def stored(folder: Path) -> Any:
    with closing(Store(f"sqlite:///{folder}/state/mirage.db")) as store, store.read() as tx:
        (cluster_id,) = clusters.list_cluster_names(tx)
        found = reports.find_last_report(tx, cluster_id, reports.SHADOW)
    return None if found is None else found.document


def test_from_no_job_to_the_same_report_as_from_the_log(service_folder: Path) -> None:
    early = mirage(service_folder, "report", "shadow")
    assert (early.code, early.out) == (2, "")
    assert "no job of cluster lab is stored yet" in early.err

    taken = mirage(service_folder, "ingest", "log.txt", "--cluster", "lab")
    assert taken.code == 0, taken.err
    week = report(service_folder, "--since", "7d", "--every", "2d", "--no-store")
    assert week["recommendation"]["verdict"] == "too-little-data"
    assert stored(service_folder) is None, "it was asked not to be kept"

    ours = report(service_folder)
    from_log = report(service_folder, "--from-sacct", "log.txt", "--cluster", "C.toml")
    assert stored(service_folder) == ours
    assert (ours.pop("trace"), from_log.pop("trace")) == ("the history of lab", "log.txt")
    assert ours.pop("released_while_away") == 0, "which a log does not tell"
    assert ours == from_log
    assert ours["groups"][0]["policies"]["auto"]["all"]["episodes"] >= 20


def test_without_a_cluster_file_it_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "mirage.toml").write_text('[cluster]\nname = "lab"\n')
    answer = mirage(tmp_path, "report", "shadow")
    assert (answer.code, answer.out) == (2, "")
    assert "no cluster file is set" in answer.err
    assert "--from-sacct FILE --cluster C.toml" in answer.err
