"""`mirage token`: made and shown once, listed without the secret, ended by word."""

import json
from pathlib import Path

import pytest

from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.errors import NotIdentified
from mirage.web.identity import tokens
from tests.support.mirage_process import run


def identify(tmp_path: Path, text: str) -> str:
    store = Store(f"sqlite:///{tmp_path}/state/mirage.db")
    with store.begin() as tx:
        here = clusters.ensure_cluster(tx, "lab")
        caller = tokens.authenticate_token(tx, text, cluster_id=here, now=0)
    store.close()
    return f"{caller.user} {caller.role} {caller.read_only}"


def test_a_token_is_shown_once_and_ended(ready_config: Path, tmp_path: Path) -> None:
    made = run("token", "create", "grafana", "--expires", "12h", "--config", ready_config)
    assert made.code == 0
    text = made.out.strip()
    assert identify(tmp_path, text) == "token grafana viewer True"
    for shown in (
        run("token", "list", "--config", ready_config),
        run("token", "list", "--json", "--config", ready_config),
    ):
        assert "grafana" in shown.out
        assert text[-43:] not in shown.out
        assert "digest" not in shown.out
    token_id = text.split("_")[1]
    for _ in range(2):
        ended = run("token", "revoke", token_id, "--config", ready_config)
        assert (ended.code, ended.out) == (0, f"token {token_id} is revoked\n")
    assert "revoked" in run("token", "list", "--config", ready_config).out
    with pytest.raises(NotIdentified, match="was revoked"):
        identify(tmp_path, text)


def test_a_token_of_a_user(ready_config: Path, tmp_path: Path) -> None:
    words = (
        "--role",
        "user",
        "--user",
        "root",
        "--cluster",
        "lab",
        "--json",
        "--config",
        ready_config,
    )
    made = json.loads(run("token", "create", "laptop", *words).out)
    assert identify(tmp_path, made["token"]) == "root user False"
    assert (made["user"], made["uid"], made["role"]) == ("root", 0, "user")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x", "--role", "user"), "belongs to a user: give --user"),
        (("x", "--user", "nosuchuser"), "this host knows no user 'nosuchuser'"),
        (
            ("x", "--cluster", "elsewhere"),
            "no cluster 'elsewhere' in this database; name one of these: lab",
        ),
        (("x", "--expires", "soon"), "is not a number of hours or days"),
        (("x", "--expires", "9999d"), "at most 366 days"),
    ],
)
def test_what_makes_no_token(ready_config: Path, words: tuple[str, ...], said: str) -> None:
    answer = run("token", "create", *words, "--config", ready_config)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert answer.err.count("\n") == 1


def test_a_token_that_is_not_there(ready_config: Path) -> None:
    answer = run("token", "revoke", "00", "--config", ready_config)
    assert (answer.code, answer.err.count("\n")) == (4, 1)
