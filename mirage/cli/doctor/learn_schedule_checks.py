"""Checks whether this installation learns from its own history by itself, and what that takes."""

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from mirage.cli.doctor.finding import Severity
from mirage.cli.doctor.host_checks import SYSTEMD
from mirage.config.settings import Settings

TREE_MODULES = ("onnx", "onnxmltools", "skl2onnx", "sklearn", "xgboost")
"""What the extra `trees` brings."""

_TIMER = "mirage-learn.timer"
_PACKAGE_PREFIX = "/usr/lib/mirage"
_OFF = 'If Mirage need not learn here: learn.schedule = "off"'


def check_schedule(settings: Settings, *, user: bool) -> tuple[Severity, str]:
    """Check what looks each night whether there is something to learn; `user`: a user's own
    service, which no timer of the system serves."""
    schedule = settings.learn.schedule
    if schedule == "off":
        return Severity.GOOD, "learn.schedule is off: Mirage learns nothing by itself"
    if missing := list_missing(TREE_MODULES):
        return Severity.WARNING, describe_missing(missing, sys.prefix)
    if schedule == "service":
        return Severity.GOOD, "the service looks each night whether there is something to learn"
    if user or not SYSTEMD.is_dir():
        return Severity.WARNING, (
            f"no timer of systemd looks here whether there is something to learn: set "
            f'learn.schedule = "service". {_OFF}'
        )
    return judge_timer(_ask_systemd())


def list_missing(modules: Sequence[str]) -> list[str]:
    return [name for name in modules if find_spec(name) is None]


def describe_missing(missing: Sequence[str], prefix: str) -> str:
    """Say what brings the modules into the Python environment at `prefix`."""
    remedy = (
        "install the package mirage-learn of the same build as mirage (docs/admin/install.md)"
        if prefix == _PACKAGE_PREFIX
        else f"run `{prefix}/bin/pip install 'mirage-provisioner[trees]'`"
    )
    return (
        f"Mirage learns nothing from this cluster's history: the environment has no "
        f"{', '.join(missing)}. For trees, {remedy}. {_OFF}"
    )


def judge_timer(state: str) -> tuple[Severity, str]:
    """Judge by the ActiveState of mirage-learn.timer."""
    if state == "active":
        return Severity.GOOD, "a timer looks each night whether there is something to learn"
    return Severity.WARNING, (
        f"{_TIMER} is {state or 'unknown'}, so Mirage learns nothing by itself: run "
        f"`systemctl enable --now {_TIMER}`. {_OFF}"
    )


def _ask_systemd() -> str:
    command = ["systemctl", "show", "--property=ActiveState", "--value", _TIMER]
    try:
        result = subprocess.run(  # noqa: S603 - a fixed argument vector
            command, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout.strip()
