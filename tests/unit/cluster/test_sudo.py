"""The call through sudo: exactly the words of the rule, and what its answers mean."""

import pwd
from pathlib import Path
from typing import Any

import pytest

from mirage.cluster.auth import sudo as subject
from mirage.cluster.cli.command_runner import CommandRunner
from mirage.domain.chain import ChainId
from mirage.domain.job import JobId
from mirage.errors import ClusterRefused, ConfigError, InputError
from mirage.ports import NextLink
from tests.support.cluster.commands import FakeCommands
from tests.support.patient import PATIENCE_S

LINK = Path("/opt/mirage/slurm_plugin/mirage-link")
CHAIN = ChainId("k3v9x2m7q1ztab12")


def submit(**fields: Any) -> bool:
    uid = pwd.getpwnam("nobody").pw_uid
    values: dict[str, Any] = {
        "chain_id": CHAIN,
        "index": 2,
        "uid": uid,
        "user": "nobody",
        "predecessor": JobId(1),
    }
    return subject.submit_next_link(
        CommandRunner(timeout_s=PATIENCE_S), LINK, NextLink(**values | fields)
    )


def test_sudo_is_given_the_words_of_the_rule(commands: FakeCommands) -> None:
    commands.answers("sudo")
    assert submit()
    assert commands.calls("sudo") == [
        ["-n", "-H", "-u", "nobody", "--", str(LINK), "next", CHAIN],
    ]


@pytest.mark.parametrize(
    "user", ["root", "", "-u", "#0", "%wheel", "alice bob", "alice\n", "../x", "ALL", "a" * 33]
)
def test_nobody_strange_is_submitted_for(commands: FakeCommands, user: str) -> None:
    commands.answers("sudo")
    with pytest.raises(InputError):
        submit(user=user)
    assert commands.calls("sudo") == []


@pytest.mark.parametrize(
    "chain_id", ["", "short", "x" * 33, "a b c d e f", "$(id)aaaa", "UPPER123"]
)
def test_what_is_no_chain_is_not_submitted(commands: FakeCommands, chain_id: str) -> None:
    commands.answers("sudo")
    with pytest.raises(InputError):
        submit(chain_id=ChainId(chain_id))
    assert commands.calls("sudo") == []


@pytest.mark.parametrize(
    "said", ["sudo: a password is required", "mirage-link: no chain of yours: /x", ""]
)
def test_a_no_is_a_no(commands: FakeCommands, said: str) -> None:
    commands.answers("sudo", stderr=said, code=1)
    with pytest.raises(ClusterRefused if said else Exception, match=said or "sudo"):
        submit()


def test_a_program_that_others_may_change_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "mirage-link"
    for path in (link, Path("mirage-link"), tmp_path):
        with pytest.raises(ConfigError, match="is not the absolute path of a file"):
            subject.check_program(path)
    link.write_text("#!/bin/sh\n")
    link.chmod(0o777)
    with pytest.raises(ConfigError, match="others than root may change"):
        subject.check_program(link)
    assert "by the rule of deploy/sudoers/mirage" in subject.check_program(Path("/usr/bin/env"))
