"""Slurm's configuration files for given settings."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from string import Template

from settings import CLUSTER, CONF, LOG, MARKER, RUN, STATE, TEMPLATES, Settings, TestbedError

# Timers for a cluster in real time, where tests have seconds.
_SHORT_TIMERS = {
    "SchedulerParameters": (
        "sched_interval=2,sched_min_interval=10000,default_queue_depth=1000,"
        "bf_interval=2,bf_resolution=1,bf_window=2880,bf_max_job_test=1000,bf_continue,bf_max_time=10"
    ),
    "MinJobAge": "300",
    "KillWait": "2",
    "PriorityCalcPeriod": "1",
    "SlurmctldTimeout": "30",
    "SlurmdTimeout": "60",
}
# Timers as a site has them, for a cluster in fast time.
_SITE_TIMERS = {
    "SchedulerParameters": (
        "sched_interval=60,default_queue_depth=1000,max_sched_time=60,"
        "bf_interval=30,bf_resolution=60,bf_window=2880,bf_max_job_test=1000,bf_continue,bf_max_time=600"
    ),
    "MinJobAge": "300",
    "KillWait": "30",
    "PriorityCalcPeriod": "5",
    # What --export=NONE takes from a job: without it the job would live in real time.
    "TaskProlog": f"{STATE}/task-prolog",
}
# Patience with the network, in real seconds: the daemons count it in the cluster's.
_NETWORK_TIMEOUTS_S = {
    "SlurmctldTimeout": 60,
    "SlurmdTimeout": 60,
    "MessageTimeout": 10,
    "TCPTimeout": 2,
    "BatchStartTimeout": 20,
    "UnkillableStepTimeout": 60,
    "EioTimeout": 10,
}
# A requeued job is held back for as long as a credential lives, and as short as that may be.
_JOB_CREDENTIAL_S = 10
_MAX_TIMEOUT_S = 65000  # Slurm keeps these in 16 bits

# One minute of waiting is 100 points of age in the age regime (7 days to the full weight) and 1 in
# the fairshare regime, where the whole range of fair share is worth 100 days of age.
_PRIORITY = {
    "age": {"PriorityWeightAge": "1008000", "PriorityWeightFairshare": "0"},
    "fairshare": {"PriorityWeightAge": "10080", "PriorityWeightFairshare": "1000000"},
}

_TASK_PROLOG = """#!/bin/sh
# Slurm puts each "export NAME=VALUE" printed here into the task's environment.
sed 's/^/export /' {env_file}
"""


def write(settings: Settings) -> None:
    """Write the files that differ from what is there; refuse to touch another cluster's."""
    values = _values(settings)
    slurm_conf = _with_lines(_render("slurm.conf", values), _lines(settings))
    _put(CONF / "slurm.conf", slurm_conf)
    _put(CONF / "gres.conf", _render("gres.conf", values))
    _put(CONF / "cgroup.conf", _render("cgroup.conf", values))
    _put(CONF / "slurmdbd.conf", _render("slurmdbd.conf", values), secret=True)
    _put(STATE / "my.cnf", _render("my.cnf", values))
    prolog = STATE / "task-prolog"
    prolog.write_text(_TASK_PROLOG.format(env_file=RUN / "clock.env"))
    prolog.chmod(0o755)


def _values(settings: Settings) -> dict[str, str]:
    return {
        "marker": MARKER,
        "cluster": CLUSTER,
        "host": socket.gethostname().split(".")[0],
        "state": str(STATE),
        "run": str(RUN),
        "log": str(LOG),
        "auth": settings.auth,
        "nodes": str(settings.nodes),
        "node_range": f"gpu[01-{settings.nodes:02d}]",
        "port_range": f"[17001-{17000 + settings.nodes}]",
        "dbd_timeout": str(min(10 * settings.speed, _MAX_TIMEOUT_S)),
    }


def _lines(settings: Settings) -> dict[str, str]:
    """Return the parameters that make the regime; those of --extra last, so that they win."""
    lines = dict(_SHORT_TIMERS) if settings.speed == 1 else _fast_timers(settings.speed)
    lines |= _PRIORITY[settings.priority]
    if settings.accrue_always:
        lines["PriorityFlags"] = "ACCRUE_ALWAYS"
    if settings.store_flags:
        lines["AccountingStoreFlags"] = "job_comment,job_script"
    for line in settings.extra:
        key, _, value = line.partition("=")
        lines[key] = value
    return lines


def _fast_timers(speed: int) -> dict[str, str]:
    stretched = {
        key: str(min(seconds * speed, _MAX_TIMEOUT_S))
        for key, seconds in _NETWORK_TIMEOUTS_S.items()
    }
    credential = {"AuthInfo": f"cred_expire={_JOB_CREDENTIAL_S * speed}"}
    return _SITE_TIMERS | stretched | credential


def _render(name: str, values: dict[str, str]) -> str:
    return Template((TEMPLATES / name).read_text()).substitute(values)


def _with_lines(text: str, lines: dict[str, str]) -> str:
    """Add `lines`, in the place of lines with the same key; an empty value only removes."""
    keys = {key.lower() for key in lines}
    other_lines = [line for line in text.splitlines() if line.partition("=")[0].lower() not in keys]
    return (
        "\n".join(other_lines + [f"{key}={value}" for key, value in lines.items() if value]) + "\n"
    )


def _put(path: Path, text: str, *, secret: bool = False) -> None:
    before = path.read_text() if path.exists() else None
    if before is not None and MARKER not in before:
        raise TestbedError(f"{path} is not the testbed's: another Slurm lives on this host")
    if before != text:
        path.touch(mode=0o600)
        path.write_text(text)
    path.chmod(0o600 if secret else 0o644)
    if secret:
        shutil.chown(path, "slurm", "slurm")


def remove() -> None:
    for name in ("slurm.conf", "gres.conf", "cgroup.conf", "slurmdbd.conf"):
        path = CONF / name
        if path.exists() and MARKER in path.read_text():
            path.unlink()
