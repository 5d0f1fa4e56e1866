"""Log lines: a fixed sentence and fields, on standard error."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import sys, structlog
from mirage import logs
logs.setup_logging({how})
log = structlog.get_logger("x")
log.info("first", job_id=7)
try:
    1 / 0
except ZeroDivisionError:
    log.exception("second")
"""


def lines(how: str) -> list[str]:
    command = [sys.executable, "-c", PROGRAM.format(how=how)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


@pytest.mark.parametrize("log_format", ["json", "auto"])
def test_what_no_person_watches_is_json(log_format: str) -> None:
    first, second = (json.loads(line) for line in lines(repr(log_format)))
    assert first.pop("timestamp").endswith("Z")
    assert first == {"event": "first", "level": "info", "job_id": 7}
    assert second["level"] == "error"
    assert "ZeroDivisionError" in second["exception"]


def test_console_is_for_people() -> None:
    assert "first" in lines("'console'")[0]
    assert not lines("'console'")[0].startswith("{")


def test_warnings_only() -> None:
    (only,) = lines("'json', warnings_only=True")
    assert json.loads(only)["event"] == "second"


HOSTILE = "x\n[error] root did it\r\x1b[2J\x9b31m<b>\u2028"
HOSTILE_PROGRAM = """
import structlog
from mirage import logs
logs.setup_logging({how})
log = structlog.get_logger("x")
log.warning("refused", name={hostile!r}, **{{"path": {hostile!r}}})
try:
    raise ValueError({hostile!r})
except ValueError:
    log.exception("second", error={hostile!r})
"""


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_what_users_write_stays_in_its_line(log_format: str) -> None:
    program = HOSTILE_PROGRAM.format(how=repr(log_format), hostile=HOSTILE)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    lines = done.stderr.split("\n")
    assert not any(line.startswith("[error]") for line in lines), "no line is a user's"
    for ours in ("\x1b[2J", "\x9b", "\r", "\u2028"):
        assert ours not in done.stderr
    assert r"x\n[error] root did it\r\x1b[2J" in lines[0].replace("\\\\", "\\")


def test_a_line_that_cannot_be_written_stops_nobody() -> None:
    program = PROGRAM.format(how="'json'") + "print('went on')"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
        )
    assert done.stdout == "went on\n"
