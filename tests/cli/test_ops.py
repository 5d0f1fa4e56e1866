"""Commands for whoever runs the service: db, config, mode."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mirage.cli import config_text
from mirage.store.tables import SCHEMA, VERSION_TABLE
from tests.mirage_process import configured, run


@pytest.fixture
def config(tmp_path: Path) -> str:
    return str(configured(tmp_path))


def test_upgrading_twice_is_upgrading_once(config: str, tmp_path: Path) -> None:
    for _ in range(2):
        answer = run("db", "upgrade", "--config", config)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out == "the database has this program's schema\n"
    with closing(sqlite3.connect(tmp_path / "state" / "mirage.db")) as database:
        found = list(database.execute(f"SELECT * FROM {VERSION_TABLE}"))  # noqa: S608
    assert found == [(SCHEMA,)]


def test_config_check_and_show(config: str) -> None:
    answer = run("config", "check", "--config", config)
    assert (answer.code, answer.out, answer.err) == (0, "the configuration is right\n", "")
    shown = json.loads(run("config", "show", MIRAGE_CONFIG=config).out)
    assert (shown["cluster"]["name"], shown["polling"]["queue_s"]) == ("lab", 60)


def test_config_reference() -> None:
    assert run("config", "reference").out == config_text.reference()


def test_modes_of_the_cluster_and_of_partitions(config: str) -> None:
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
