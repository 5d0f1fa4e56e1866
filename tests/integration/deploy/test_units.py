"""The units as systemd itself reads them: no warning, and shut in as tightly as they can be."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import needed
from tests.support.mirage_process import MIRAGE, configured, environment
from tests.support.paths import CHECKOUT

UNITS = CHECKOUT / "deploy" / "systemd"
MOST_EXPOSED = {
    "mirage.service": 1.5,
    "mirage-backup.service": 1.0,
    "mirage-learn.service": 1.5,
}
"""Of systemd-analyze's 10; below 2 it calls a service well shut in."""


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units, whose program is there."""
    if shutil.which("systemd-analyze") is None:
        needed.absent("systemd-analyze is not installed")
    program = tmp_path / "mirage"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for unit in (*UNITS.glob("*.service"), *UNITS.glob("*.timer")):
        text = unit.read_text().replace("/usr/bin/mirage", str(program))
        (tmp_path / unit.name).write_text(text)
    return tmp_path


def analyze(*words: str) -> str:
    done = subprocess.run(
        ["systemd-analyze", *words], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "name",
    [
        *("mirage.service", "mirage-backup.service", "mirage-backup.timer"),
        *("mirage-report.service", "mirage-report.timer"),
        *("mirage-learn.service", "mirage-learn.timer"),
    ],
)
def test_systemd_finds_nothing_to_say(units: Path, name: str) -> None:
    told = analyze("verify", "--man=no", str(units / name))
    assert str(units) not in told
    assert name not in told


def test_the_users_unit_reads_as_well(units: Path) -> None:
    unit = units / "user.service"
    text = (UNITS / "user" / "mirage.service").read_text()
    unit.write_text(text.replace("/usr/bin/mirage", str(units / "mirage")))
    assert "user.service" not in analyze("verify", "--man=no", str(unit))


@pytest.mark.parametrize(("schedule", "code"), [("timer", 0), ("service", 1), ("off", 1)])
def test_the_timer_does_nothing_where_another_schedule_is_set(
    tmp_path: Path, schedule: str, code: int
) -> None:
    text = (UNITS / "mirage-learn.service").read_text()
    (line,) = re.findall(r"(?m)^ExecCondition=(.*)$", text)
    config = configured(tmp_path)
    config.write_text(f'{config.read_text()}[learn]\nschedule = "{schedule}"\n')
    line = line.replace("/etc/mirage/mirage.toml", str(config))
    words = shlex.split(line.replace("/usr/bin/mirage", " ".join(MIRAGE)))
    assert subprocess.run(words, env=environment(), check=False).returncode == code


@pytest.mark.parametrize("name", MOST_EXPOSED)
def test_a_service_is_shut_in(units: Path, name: str) -> None:
    told = analyze("security", "--offline=true", "--no-pager", str(units / name))
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", told)
    assert found is not None, told
    assert float(found[1]) <= MOST_EXPOSED[name]
