"""Commands for whoever runs the service: db, mode, and the configuration as they use it."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from mirage.database.schema.tables import SCHEMA, VERSION_TABLE
from tests.support.api.fixtures import client, context, stage, store
from tests.support.api.running import Client
from tests.support.mirage_process import QuietSlurm, run, serving
from tests.support.training.committed import save

__all__ = ["client", "context", "stage", "store"]


def test_upgrading_twice_is_upgrading_once(config: Path, tmp_path: Path) -> None:
    for _ in range(2):
        answer = run("db", "upgrade", "--config", config)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out == "the database has this program's schema\n"
    with closing(sqlite3.connect(tmp_path / "state" / "mirage.db")) as database:
        found = list(database.execute(f"SELECT * FROM {VERSION_TABLE}"))  # noqa: S608
    assert found == [(SCHEMA,)]


def test_modes_of_the_cluster_and_of_partitions(config: Path) -> None:
    def mode(*words: str) -> str:
        answer = run("mode", *words, "--config", config)
        assert (answer.code, answer.err) == (0, "")
        return answer.out

    run("db", "upgrade", "--config", config)
    assert mode() == "cluster lab: shadow\n"
    assert mode("act", "--partition", "gpu") == "cluster lab: shadow\ngpu: act\n"
    assert mode("observe", "--partition", "debug", "--json") == (
        '{"*": "shadow", "debug": "observe", "gpu": "act"}\n'
    )
    assert json.loads(mode("act", "--json"))["*"] == "act"
    # The kill switch takes every partition with it, and leaves what acts on nothing.
    assert json.loads(mode("shadow", "--json")) == {
        "*": "shadow",
        "gpu": "shadow",
        "debug": "observe",
    }


def test_a_partition_that_no_node_is_in_is_told(config: Path, tmp_path: Path) -> None:
    run("db", "upgrade", "--config", config)
    # Before the service has looked at the nodes, nobody can tell.
    assert run("mode", "act", "--partition", "gpus", "--config", config).err == ""
    with serving(config, QuietSlurm(tmp_path / "slurm")) as service:
        service.wait_until_ready()
    answer = run("mode", "act", "--partition", "gpus", "--config", config)
    assert answer.code == 0
    assert "found no partition gpus, but" in answer.err
    assert "but debug, gpu, long" in answer.err
    assert run("mode", "act", "--partition", "gpu", "--config", config).err == ""
    unset = run("mode", "--unset", "--partition", "gpus", "--config", config)
    assert (unset.out, unset.err) == ("cluster lab: shadow\ngpu: act\n", "")
    assert run("mode", "--unset", "--config", config).code == 2


def test_nothing_acts_from_the_moment_on_that_the_file_is_there(
    config: Path, tmp_path: Path
) -> None:
    run("db", "upgrade", "--config", config)
    (tmp_path / "state" / "shadow").touch()
    answer = run("mode", "act", "--config", config)
    assert answer.code == 1
    assert "the kill switch is pulled by file" in answer.err
    assert run("mode", "--config", config).out == "cluster lab: shadow\n"


def with_policy(config: Path, name: str, models: Path) -> None:
    text = config.read_text()
    config.write_text(f'{text}[provision]\npolicy = "{name}"\nmodels_dir = "{models}"\n')


def test_who_cannot_read_the_database_is_told_the_modes_by_the_service(
    client: Client, config: Path
) -> None:
    looked = run("mode", "--config", config, MIRAGE_URL=client.url)
    assert (looked.code, looked.out) == (0, "cluster lab: shadow\n")
    acted = run("mode", "act", "--config", config, MIRAGE_URL=client.url)
    assert acted.code == 4, "to set it the database is needed"
    away = run("mode", "--config", config, MIRAGE_URL="http://127.0.0.1:9")
    assert (away.code, "the state directory" in away.err) == (4, True)


def test_a_model_that_cannot_be_used_is_refused_before_the_service_starts(
    config: Path, tmp_path: Path
) -> None:
    folder = save(tmp_path / "models" / "made" / "1", features_fingerprint="0" * 64)
    with_policy(config, "models/made/1", tmp_path / "models")
    told = f"{folder} was trained on other features than this program's: train the model again\n"
    checked = run("config", "check", "--config", config)
    assert checked.code == 2
    assert checked.err.endswith(f"provision.policy = 'models/made/1': {told}")
    served = run("serve", "--config", config, PATH=QuietSlurm(tmp_path / "slurm").path)
    assert (served.code, served.err) == (2, f"mirage: {told}")
    found = json.loads(run("doctor", "--config", config, "--json").out)["findings"]
    assert {f["what"]: f["verdict"] for f in found}["policy"] == "fault"


def test_a_model_without_a_cluster_file_is_warned_of(config: Path, tmp_path: Path) -> None:
    save(tmp_path / "models" / "made" / "1")
    with_policy(config, "models/made/1", tmp_path / "models")
    answer = run("config", "check", "--config", config)
    assert (answer.code, answer.out) == (0, f"the configuration is right: {config}\n")
    assert "set cluster.file" in answer.err


def test_the_doctor_says_which_model_serves(config: Path, tmp_path: Path) -> None:
    save(tmp_path / "models" / "made" / "1")
    with_policy(config, "models/made/1", tmp_path / "models")
    run("db", "upgrade", "--config", config)
    slurm = QuietSlurm(tmp_path / "slurm")
    answer = run("doctor", "--config", config, "--json", PATH=slurm.path)
    found = {f["what"]: (f["verdict"], f["told"]) for f in json.loads(answer.out)["findings"]}
    assert answer.code == 0
    assert found["database"][0] == found["Slurm"][0] == "good"
    assert found["policy"][1].startswith("models/made/1 decides: xgboost, trained on ")
    assert found["cluster file"][0] == "warning"


def test_the_doctor_names_every_fault(config: Path, tmp_path: Path) -> None:
    # Wide enough for any folder of tests: a sentence is looked for in one line.
    answer = run("doctor", "--config", config, PATH=str(tmp_path), COLUMNS="600")
    assert answer.code == 1
    for word in (
        "mirage db upgrade",
        "no squeue",
        "auto decides, and chooses among",
        "and no twin",
    ):
        assert word in answer.out
