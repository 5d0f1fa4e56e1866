"""`mirage learn` as a process: from the accounting of some weeks to a verdict, and what ends it."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mirage.database.learning import challenges, learning_runs
from mirage.database.learning.learning_lock import hold_learning_lock
from mirage.database.learning.learning_runs import LearningRun, RunState
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.lab.learning.candidates import explain_dearer
from mirage.policies.models.artefact import CARD, read_card
from tests.support.learning.site_log import CLUSTER, LONG_S, build_site_jobs, write_sacct
from tests.support.mirage_process import MIRAGE, Answer, environment, run

CONFIG = """\
[cluster]
name = "lab"
file = "C.toml"

[service]
state_dir = "state"

[provision]
models_dir = "models"
"""
DAYS = 36
"""Of which four whole weeks can be replayed, beside the first six days and the last hours."""
TRAINED = ("--family", "xgboost", "--family", "forest")
LEARN = ("learn", "--json", "--jobs", "2", *TRAINED)


def mirage(folder: Path, *words: str) -> Answer:
    return run(*words, "--config", "mirage.toml", cwd=folder)


def make_site(folder: Path, log: str | None = None, *, cluster: str = CLUSTER) -> Path:
    """A service's folder, with the accounting `log` in its database."""
    folder.mkdir(exist_ok=True)
    (folder / "models").mkdir()
    (folder / "C.toml").write_text(cluster)
    (folder / "mirage.toml").write_text(CONFIG)
    assert mirage(folder, "db", "upgrade").code == 0
    if log is not None:
        ingest(folder, log)
    return folder


def ingest(folder: Path, log: str) -> None:
    (folder / "log.txt").write_text(log)
    taken = mirage(folder, "ingest", "log.txt", "--cluster", "lab")
    assert taken.code == 0, taken.err


def told(answer: Answer) -> dict[str, Any]:
    assert answer.code == 0, answer.err
    document: dict[str, Any] = json.loads(answer.out)
    return document


def open_store(folder: Path) -> closing[Store]:
    return closing(Store(f"sqlite:///{folder}/state/mirage.db"))


def list_runs(folder: Path) -> list[LearningRun]:
    with open_store(folder) as store, store.read() as tx:
        (cluster_id,) = clusters.list_cluster_names(tx)
        return learning_runs.read_runs(tx, cluster_id, most=99)


def hash_tables(folder: Path) -> dict[str, str]:
    """The finished tables, by name, with the hash of their bytes."""
    files = sorted((folder / "state" / "learn" / "tables").glob("*/*/*.npz"))
    return {
        f"{file.parent.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
        for file in files
    }


def list_halves(folder: Path) -> list[Path]:
    """What a run leaves half made."""
    under = (folder / "state" / "learn", folder / "models")
    return [path for root in under for path in root.rglob(".*") if path.exists()]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "log.txt"
    return write_sacct(path, build_site_jobs(DAYS)).read_text()


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory, log: str) -> tuple[Path, dict[str, Any]]:
    """A site that has learned, and what the command printed."""
    folder = make_site(tmp_path_factory.mktemp("learned"), log)
    return folder, told(wait_for_end(start(folder, *LEARN)))


def test_a_history_is_learned_from_and_judged_beside_the_rules(
    learned: tuple[Path, dict[str, Any]],
) -> None:
    folder, document = learned
    assert document["state"] == "done"
    assert document["reason"] == "no model"
    figures = document["figures"]
    made = [name for name in figures if name.startswith("models/candidate-")]
    assert {"quantile", "twin", "reactive", "auto", "oracle"} < set(figures)
    assert sorted(name.split("/")[1] for name in made) == [
        "candidate-forest",
        "candidate-xgboost",
    ]
    assert figures["oracle"]["cost_h"] <= min(figure["cost_h"] for figure in figures.values())
    assert [shape["time_limit_s"] for shape in document["shapes"]] == [LONG_S, LONG_S]
    assert "most used long jobs" in document["shapes"][0]["why"]
    assert all(waits["jobs"] > 100 for waits in document["waits"].values())
    (kept,) = list_runs(folder)
    assert kept.state is RunState.DONE
    assert kept.document["figures"] == figures


def test_each_candidate_has_a_card_and_learned_from_older_weeks_alone(
    learned: tuple[Path, dict[str, Any]],
) -> None:
    folder, document = learned
    cards = sorted((folder / "state/learn/candidates").glob(f"*/*/{CARD}"))
    assert [card.parent.parent.name for card in cards] == ["forest", "xgboost"]
    for card in cards:
        for table in read_card(card.parent)["trained_on"]:
            assert table["until"] <= document["judged_since"]


def test_the_best_candidate_stands_only_if_it_beats_the_rules(
    learned: tuple[Path, dict[str, Any]],
) -> None:
    folder, document = learned
    figures = document["figures"]
    best = min(v["cost_h"] for k, v in figures.items() if k.startswith("models/candidate-"))
    rule = min(figures[name]["cost_h"] for name in ("quantile", "twin"))
    with closing(Store(f"sqlite:///{folder}/state/mirage.db")) as store, store.read() as tx:
        standing = challenges.find_standing_challenge(tx, 1)
    if document["proposed"] is not None:
        assert best < rule
        assert standing is not None
        assert standing.model == document["proposed"]
        assert explain_dearer(folder / document["proposed"]) is None
        card = read_card(folder / document["proposed"])
        assert max(t["until"] for t in card["trained_on"]) == document["judged_until"]
    else:
        assert standing is None
        assert "Nothing is proposed" in document["sentence"]


def test_nothing_is_left_half_made_and_no_copy_of_the_jobs_is_kept(
    learned: tuple[Path, dict[str, Any]],
) -> None:
    folder, _ = learned
    assert list_halves(folder) == []
    assert list(folder.rglob("*.parquet")) == []
    assert not (folder / "state/learn/run").exists()


def test_the_same_night_there_is_nothing_to_learn(learned: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = learned
    before = hash_tables(folder)
    document = told(mirage(folder, "learn", "--json"))
    assert document["state"] == "nothing-to-do"
    assert "There is nothing to learn today" in document["sentence"]
    assert hash_tables(folder) == before


def test_the_table_for_people_has_every_policy(learned: tuple[Path, dict[str, Any]]) -> None:
    from rich.console import Console  # noqa: PLC0415 - of the command alone

    from mirage.cli.ui.learning_text import print_document  # noqa: PLC0415 - as above

    _, document = learned
    console = Console(record=True, width=200)
    print_document(document, console)
    text = console.export_text()
    assert document["sentence"] in text
    assert all(name in text for name in document["figures"])


def test_a_dry_run_says_what_a_run_does_and_changes_nothing(
    learned: tuple[Path, dict[str, Any]], tmp_path: Path, log: str
) -> None:
    folder = make_site(tmp_path / "site", log)
    document = told(mirage(folder, *LEARN, "--dry-run"))
    assert (document["state"], document["is_due"]) == ("dry-run", True)
    plan, done = document["plan"], learned[1]["plan"]
    assert plan["tables_to_make"] == 2 * plan["weeks"]
    of_both = ("weeks", "handovers", "tables_to_make", "families", "tables_s", "training_s")
    assert {name: plan[name] for name in of_both} == {name: done[name] for name in of_both}
    assert plan["spent_s"] > 0, "the history was read"
    assert not (folder / "state" / "learn").exists()
    assert list_runs(folder) == []


def test_a_later_run_makes_the_new_weeks_alone(
    learned: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, document = learned
    longer = write_sacct(tmp_path / "log.txt", build_site_jobs(DAYS + 7)).read_text()
    site = tmp_path / "site"
    subprocess.run(["cp", "-a", folder, site], check=True)
    ingest(site, longer)
    plan = told(mirage(site, "learn", "--dry-run", "--now", "--json"))["plan"]
    assert plan["weeks"] == document["plan"]["weeks"] + 1
    assert plan["tables_to_make"] == 2


@pytest.mark.parametrize(
    ("days", "without", "said"),
    [
        (1, (), "too little history to learn from: 1 days"),
        (21, (), "too little history to learn from: 21 days"),
        (DAYS, (range(12, 22),), "No job is stored of 2023-12-02 to 2023-12-11"),
    ],
)
def test_too_little_history_is_a_sentence_and_no_fault(
    tmp_path: Path, days: int, without: tuple[range, ...], said: str
) -> None:
    log = write_sacct(tmp_path / "log.txt", build_site_jobs(days), without=without).read_text()
    folder = make_site(tmp_path / "site", log)
    document = told(mirage(folder, "learn", "--json"))
    assert document["state"] == "nothing-to-do"
    assert said in document["sentence"]
    assert not (folder / "state/learn/run").exists()
    assert hash_tables(folder) == {}
    assert [run.state for run in list_runs(folder)] == [RunState.NOTHING_TO_DO]


def test_without_accounting_nothing_is_learned_and_it_says_why(tmp_path: Path) -> None:
    jobs = build_site_jobs(DAYS)
    log = write_sacct(tmp_path / "log.txt", jobs, accounted=False).read_text()
    document = told(mirage(make_site(tmp_path / "site", log), "learn", "--json"))
    assert document["state"] == "nothing-to-do"
    assert "have no end, since accounting was not read" in document["sentence"]


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        (CLUSTER.replace("nodes = 8", "nodes = 1"), "jobs ask for more nodes than it has"),
        ("", "no cluster file is set"),
    ],
)
def test_a_cluster_file_that_does_not_fit_is_one_sentence(
    tmp_path: Path, log: str, cluster: str, said: str
) -> None:
    folder = make_site(tmp_path / "site", log, cluster=cluster)
    if not cluster:
        (folder / "mirage.toml").write_text(CONFIG.replace('file = "C.toml"\n', ""))
    answer = mirage(folder, "learn", "--json")
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.strip().splitlines()
    assert said in line
    assert hash_tables(folder) == {}


def test_a_replay_that_does_not_follow_the_log_proposes_nothing(tmp_path: Path) -> None:
    """Each job waited ten hours, and the cluster has room for all at once."""
    rows = ["JobIDRaw|User|Partition|State|Submit|Eligible|Start|End|TimelimitRaw|NNodes|NCPUS"]
    for number in range(1, DAYS * 12):
        at = 1_700_438_400 + number * 7200
        start = at + 36_000
        rows.append(f"{number}|u{number % 5}||COMPLETED|{at}|{at}|{start}|{start + 7200}|120|1|4")
    folder = make_site(tmp_path / "site", "\n".join([*rows, ""]))
    document = told(mirage(folder, "learn", "--json"))
    assert document["state"] == "nothing-to-do"
    assert "The replay does not follow the history" in document["sentence"]
    assert "waited 10.00 h on average" in document["sentence"]


def test_one_run_goes_on_at_a_time(tmp_path: Path, log: str) -> None:
    """Also if the runs work in folders of their own."""
    folder = make_site(tmp_path / "site", log)
    with open_store(folder) as store, hold_learning_lock(store):
        answer = mirage(folder, "learn", "--folder", str(tmp_path / "other"))
    assert answer.code == 1
    assert f"another run of learning goes on (mirage learn, process {os.getpid()} on" in answer.err
    assert list_runs(folder) == []


def test_folders_of_another_account_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to somebody else")
    folder = make_site(tmp_path / "site")
    shutil.chown(folder / "state", "nobody")
    answer = mirage(folder, "learn")
    assert answer.code == 2
    assert "state belongs to nobody, not to root" in answer.err
    assert not (folder / "state" / "learn").exists()


def test_a_folder_in_which_others_may_write_is_not_learned_in(tmp_path: Path) -> None:
    folder = make_site(tmp_path / "site")
    named = tmp_path / "named"
    named.mkdir()
    named.chmod(0o777)
    answer = mirage(folder, "learn", "--folder", str(named))
    assert answer.code == 2
    assert f"learn.folder: others may write in {named}: run `chmod go-w {named}`" in answer.err
    assert list(named.iterdir()) == []


def wait_for_end(process: subprocess.Popen[str]) -> Answer:
    """A whole run takes as long as it takes; other commands of these tests end soon."""
    out, err = process.communicate()
    return Answer(process.returncode, out, err)


def wait_for(process: subprocess.Popen[str], folder: Path, pattern: str) -> None:
    """Wait until a file of that pattern is there, or the process has ended."""
    while process.poll() is None and not list((folder / "state/learn").glob(pattern)):
        time.sleep(0.005)


def start(folder: Path, *words: str, environ: Mapping[str, str] | None = None) -> Any:
    return subprocess.Popen(
        [*MIRAGE, *words, "--config", "mirage.toml"],
        env=environment(**(environ or {})),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


STAGES = (
    "run/begun.json",
    "run/history.parquet",
    "run/waits.json",
    "tables/*/*/.*/block-*",
    "tables/*/*/*.twin.npz",
    "run/past/*.npz",
    "run/models/candidate-xgboost/*",
    "run/models/candidate-forest/*",
    "candidates/*/*",
)
"""What the run has just made when it is killed, in the order in which it makes them."""


@pytest.mark.slow
def test_killed_again_and_again_it_comes_to_the_same_end(
    learned: tuple[Path, dict[str, Any]], tmp_path: Path, log: str
) -> None:
    folder = make_site(tmp_path / "site", log)
    for pattern in STAGES:
        process = start(folder, *LEARN)
        wait_for(process, folder, pattern)
        process.kill()
        process.communicate()
    document = told(wait_for_end(start(folder, *LEARN)))
    states = [run.state for run in list_runs(folder)]
    assert RunState.RUNNING not in states
    assert hash_tables(folder) == hash_tables(learned[0])
    done = next(run for run in list_runs(folder) if run.state is RunState.DONE)
    assert done.document["figures"] == learned[1]["figures"], document
    assert list_halves(folder) == []
    with closing(Store(f"sqlite:///{folder}/state/mirage.db")) as store, store.read() as tx:
        assert len(challenges.read_challenges(tx, 1, most=9)) <= 1


def test_sigterm_ends_it_cleanly_and_the_next_run_goes_on(tmp_path: Path, log: str) -> None:
    folder = make_site(tmp_path / "site", log)
    process = start(folder, *LEARN)
    wait_for(process, folder, "tables/*/*/.*/block-*")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 143, err
    assert "Traceback" not in err
    assert [run.state for run in list_runs(folder)] == [RunState.INTERRUPTED]
    kept = json.loads((folder / "state/learn/run/plan.json").read_text())
    longer = write_sacct(tmp_path / "log.txt", build_site_jobs(DAYS + 7)).read_text()
    ingest(folder, longer)
    document = told(mirage(folder, *LEARN, "--dry-run"))
    assert "was interrupted" in document["reason"]
    assert document["plan"]["weeks"] == len(kept["weeks"]), "the run goes on with its weeks"


def test_a_disk_that_is_full_is_a_sentence_and_renames_no_stage(tmp_path: Path, log: str) -> None:
    folder, disk = make_site(tmp_path / "site", log), tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=80k,mode=700", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("a full disk is a small tmpfs here: mounting one needs root")
    try:
        answer = mirage(folder, "learn", "--folder", str(disk))
        left = [*disk.rglob("*.part"), *(disk / "tables").glob("*/*/*.npz")]
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    assert answer.code == 2, answer
    assert "No space left on device" in answer.err.strip().splitlines()[-1]
    assert left == []
    (failed,) = list_runs(folder)
    assert failed.state is RunState.FAILED
    assert "No space left on device" in failed.document["error"]


def test_a_budget_that_is_too_short_says_how_much_would_do(tmp_path: Path, log: str) -> None:
    answer = mirage(make_site(tmp_path / "site", log), "learn", "--budget", "1s")
    assert answer.code == 2
    assert "too short to learn from 14 days: about" in answer.err


def test_the_other_commands_read_the_stored_history(
    learned: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, _ = learned
    stored = told(mirage(folder, "simulate", "--from-database", "--json"))
    of_log = told(run("simulate", "log.txt", "--cluster", "C.toml", "--json", cwd=folder))
    assert stored["wait_h"] == of_log["wait_h"]
    pair = ("--nodes", "1", "--time-limit", "1:00:00", "--every", "7d")
    out = str(tmp_path / "E.npz")
    made = told(mirage(folder, "episodes", "--from-database", *pair, "--out", out, "--json"))
    assert made["episodes"] > 0
    both = mirage(folder, "simulate", "log.txt", "--from-database")
    assert both.code == 2
    assert "give a TRACE, or --from-database" in both.err
