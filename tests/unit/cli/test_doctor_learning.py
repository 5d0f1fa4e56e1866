"""What `mirage doctor` says of learning: whether something looks each night, or what it takes."""

from typing import Any

import pytest

from mirage.cli.doctor import learning_checks
from mirage.cli.doctor.finding import Severity
from mirage.config.settings import Settings


def check(schedule: str, *, user: bool = False) -> tuple[Severity, str]:
    settings: Any = {"learn": {"schedule": schedule}}
    return learning_checks.check_learning(Settings.model_validate(settings), user=user)


def test_what_is_missing_is_named_with_what_brings_it() -> None:
    assert learning_checks.list_missing(["json", "no_such_module"]) == ["no_such_module"]
    told = learning_checks.describe_missing(["sklearn", "xgboost"], "/opt/mirage/venv")
    assert "the environment has no sklearn, xgboost." in told
    assert "run `/opt/mirage/venv/bin/pip install 'mirage-provisioner[trees]'`" in told
    packaged = learning_checks.describe_missing(["sklearn"], "/usr/lib/mirage")
    assert "run `apt install ./mirage-learn_VERSION_amd64.deb`" in packaged


def test_the_modules_are_those_that_the_extra_brings() -> None:
    """Where the extra is installed, as here, none is missing."""
    pytest.importorskip("sklearn", reason="this environment has no trees")
    assert learning_checks.list_missing(learning_checks.TREE_MODULES) == []
    verdict, told = check("service")
    assert (verdict, "the service looks each night" in told) == (Severity.GOOD, True)


def test_learning_that_is_off_is_no_fault() -> None:
    verdict, told = check("off")
    assert (verdict, "learns nothing by itself" in told) == (Severity.GOOD, True)


def test_no_timer_of_the_system_serves_a_users_own_service() -> None:
    pytest.importorskip("sklearn", reason="this environment has no trees")
    verdict, told = check("timer", user=True)
    assert verdict is Severity.WARNING
    assert 'set learn.schedule = "service"' in told


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("active", Severity.GOOD),
        ("inactive", Severity.WARNING),
        ("failed", Severity.WARNING),
        ("", Severity.WARNING),
    ],
)
def test_a_timer_that_does_not_run_is_said(state: str, verdict: Severity) -> None:
    found = learning_checks.judge_timer(state)
    assert found[0] is verdict
    assert ("systemctl enable --now mirage-learn.timer" in found[1]) == (state != "active")
