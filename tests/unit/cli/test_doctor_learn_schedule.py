"""What `mirage doctor` says of learning: whether something looks each night, or what it takes."""

import pytest

from mirage.cli.doctor import learn_schedule_checks
from mirage.cli.doctor.finding import Severity
from mirage.config.settings import Settings


def test_what_is_missing_is_named_with_what_brings_it() -> None:
    assert learn_schedule_checks.list_missing(["json", "no_such_module"]) == ["no_such_module"]
    told = learn_schedule_checks.describe_missing(["sklearn", "xgboost"], "/opt/mirage/venv")
    assert "the environment has no sklearn, xgboost." in told
    assert "run `/opt/mirage/venv/bin/pip install 'mirage-provisioner[trees]'`" in told
    packaged = learn_schedule_checks.describe_missing(["sklearn"], "/usr/lib/mirage")
    assert "install the package mirage-learn of the same build as mirage" in packaged


def test_learning_that_is_off_is_no_fault() -> None:
    settings = Settings.model_validate({"learn": {"schedule": "off"}})
    verdict, told = learn_schedule_checks.check_schedule(settings, user=False)
    assert (verdict, "learns nothing by itself" in told) == (Severity.GOOD, True)


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
    found = learn_schedule_checks.judge_timer(state)
    assert found[0] is verdict
    assert ("systemctl enable --now mirage-learn.timer" in found[1]) == (state != "active")
