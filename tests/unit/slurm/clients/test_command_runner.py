"""Running commands: time-outs, environment, counts."""

import os
import time
from pathlib import Path

import pytest

from mirage.errors import ClusterUnavailable
from mirage.slurm.clients.cli.command_runner import CommandRunner
from tests.support.cluster.commands import FakeCommands
from tests.support.patient import PATIENCE_S


def test_output_and_code_come_back_as_they_were(commands: FakeCommands) -> None:
    commands.answers("squeue", "out é\n", stderr="err\n", code=7)
    answer = CommandRunner().run(["squeue"])
    assert (answer.stdout, answer.stderr, answer.code) == ("out é\n", "err\n", 7)


def test_arguments_reach_the_command_without_a_shell(commands: FakeCommands) -> None:
    commands.answers("squeue")
    arguments = ["$HOME", "a b", "`id`", "x\x1fy", "*"]
    CommandRunner().run(["squeue", *arguments])
    assert commands.calls("squeue") == [arguments]


def test_bytes_that_are_no_text_do_not_stop_an_answer(commands: FakeCommands) -> None:
    commands.runs("squeue", "#!/bin/sh\nprintf 'a\\377b'\n")
    assert CommandRunner().run(["squeue"]).stdout == "a\ufffdb"


def test_the_environment_is_english_epochs_in_utc_and_nobodys_filters(
    commands: FakeCommands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQUEUE_USERS", "root")
    monkeypatch.setenv("SACCT_FORMAT", "JobID")
    monkeypatch.setenv("SLURM_CONF", "/etc/other.conf")
    commands.runs("squeue", "#!/bin/sh\nenv\n")
    seen = set(CommandRunner().run(["squeue"]).stdout.splitlines())
    assert {"LC_ALL=C", "TZ=UTC", "SLURM_TIME_FORMAT=%s", "SLURM_CONF=/etc/other.conf"} <= seen
    assert not {line for line in seen if line.startswith(("SQUEUE_", "SACCT_"))}


def test_a_command_that_is_not_there_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterUnavailable, match="squeue is not on PATH: install Slurm's client"):
        CommandRunner().run(["squeue"])


def test_a_command_is_not_there_though_a_search_of_path_ends_in_permission_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As a folder of PATH does that this account may not enter; root may enter all.
    (tmp_path / "squeue").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterUnavailable, match="squeue is not on PATH"):
        CommandRunner().run(["squeue"])


def test_a_file_that_is_no_program_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    FakeCommands(tmp_path).runs("squeue", "\x7fELF")
    with pytest.raises(ClusterUnavailable, match=r"squeue cannot be run: .*Exec format"):
        CommandRunner().run(["squeue"])


def _gone(pid: int) -> bool:
    try:
        # A zombie has ended; who should collect it may be slow.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_command_that_hangs_is_ended_with_its_children(
    commands: FakeCommands, tmp_path: Path
) -> None:
    pid_file = tmp_path / "child"
    commands.runs("squeue", f"#!/bin/sh\nsleep 6000 &\necho $! >{pid_file}\nwait\n")
    for timeout_s in (0.5, 5.0, 50.0, 500.0):
        with pytest.raises(ClusterUnavailable, match="squeue did not answer within"):
            CommandRunner(timeout_s=timeout_s).run(["squeue"])
        if pid_file.exists() and pid_file.read_text():  # a busy machine may not have begun it
            break
    child = int(pid_file.read_text())
    deadline = time.monotonic() + 60
    while not _gone(child):
        assert time.monotonic() < deadline, "the child is still there"
        time.sleep(0.01)


def test_a_command_that_writes_without_end_is_ended_too(commands: FakeCommands) -> None:
    commands.runs("squeue", "#!/bin/sh\nwhile :; do echo x; sleep 0.01; done\n")
    with pytest.raises(ClusterUnavailable, match="did not answer"):
        CommandRunner(timeout_s=0.3).run(["squeue"])


def test_a_command_cannot_read_the_services_input(commands: FakeCommands) -> None:
    commands.runs("squeue", "#!/bin/sh\ncat\n")
    assert CommandRunner(timeout_s=PATIENCE_S).run(["squeue"]).stdout == ""


def test_calls_and_seconds_are_counted_by_command(commands: FakeCommands) -> None:
    commands.answers("squeue", seconds=0.05)
    commands.answers("sinfo", code=1)
    runner = CommandRunner(timeout_s=PATIENCE_S)
    runner.run(["squeue"])
    runner.run(["squeue"])
    runner.run(["sinfo"])
    with pytest.raises(ClusterUnavailable, match="is not on PATH"):
        runner.run(["absent"])
    usage = runner.get_usage()
    assert (usage["squeue"].calls, usage["squeue"].failures) == (2, 0)
    assert usage["squeue"].seconds >= 0.1
    assert (usage["sinfo"].calls, usage["sinfo"].failures) == (1, 0)
    assert (usage["absent"].calls, usage["absent"].failures) == (1, 1)


def test_the_callers_environment_stays_as_it_was(commands: FakeCommands) -> None:
    before = dict(os.environ)
    commands.answers("squeue")
    CommandRunner().run(["squeue"])
    assert dict(os.environ) == before
