"""The whole cluster: started, switched to other settings, stopped, and its controller by itself."""

from __future__ import annotations

import fcntl
import logging
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import accounting
import clients
import clock
import configuration
import daemons
import host
from settings import LOCK, LOG, STATE, Settings, TestbedError

_log = logging.getLogger("testbed")
_UP_STATES = ("idle", "mixed", "allocated", "completing")


@contextmanager
def exclusively() -> Iterator[None]:
    """Keep two commands from starting and stopping the same daemons at once."""
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def up(settings: Settings, *, keep: bool = False, fresh: bool = False) -> bool:
    """Bring up a cluster with these settings; False when it was there already.

    Unless `keep`, a cluster that starts or changes its settings starts without jobs and history;
    with `fresh` also one that runs with these settings.
    """
    host.install(host.missing_packages())
    running = Settings.saved()
    same = running == settings and not fresh
    if same and _complete(settings):
        return False
    if running is not None and not same:
        _stop_slurm(kill=not keep)
        clock.stop()
    anew = not same and not keep
    host.prepare(settings)
    configuration.write(settings)
    if settings.auth == "munge":
        _start_munged()
    else:
        daemons.stop(["munged"])
    accounting.start_database()
    if anew:
        daemons.kill_job_steps()
        accounting.wipe_history()
        _wipe_state(settings)
    settings.save()
    clock.start(settings.speed)
    accounting.start_slurmdbd()
    start_controller()
    _start_nodes(settings)
    return True


def _complete(settings: Settings) -> bool:
    names = {"mariadbd", "slurmdbd", "slurmctld", *_node_daemons(settings)}
    if settings.speed > 1:
        names.add(clock.DAEMON)
    return all(daemons.pid_of(name) is not None for name in names) and _ready(settings)


def _node_daemons(settings: Settings) -> list[str]:
    return [f"slurmd-{node}" for node in settings.node_names()]


def _start_munged() -> None:
    if not _munge_works():  # the host's own will do, and is not ours to stop
        daemons.start("munged", ["munged", "--foreground", "--num-threads=10"], user="munge")
        daemons.wait_for("munged", _munge_works, daemon="munged")
        # Whoever asks it waits 2 s of the cluster's clock, a moment of ours: on a busy host it
        # goes first, where root may say so.
        chrt = ["chrt", "--rr", "--all-tasks", "--pid", "1", str(daemons.pid_of("munged"))]
        subprocess.run(chrt, capture_output=True, check=False)


def _munge_works() -> bool:
    process = subprocess.run(["munge", "-n"], capture_output=True, check=False)
    return process.returncode == 0


def _wipe_state(settings: Settings) -> None:
    for path in (STATE / "ctld", STATE / "spool"):
        shutil.rmtree(path, ignore_errors=True)
    for path in LOG.glob("slurm*"):
        path.unlink()
    host.prepare(settings)


def start_controller() -> None:
    """Start twice if needed: 24.11.5 divides by zero at a start after slurmdbd was away."""
    try:
        _start_controller()
    except TestbedError as error:
        _log.warning("slurmctld is started a second time: %s", error)
        _start_controller()


def _start_controller() -> None:
    daemons.start("slurmctld", ["slurmctld", "-D"], user="slurm", env=clock.environment())
    daemons.wait_for("slurmctld", controller_answers, daemon="slurmctld")


def start_slurmdbd() -> None:
    accounting.start_slurmdbd()


def controller_answers() -> bool:
    return clients.run(["scontrol", "ping"]).returncode == 0


def _start_nodes(settings: Settings) -> None:
    for node in settings.node_names():
        argv = ["slurmd", "-D", "-N", node]
        daemons.start(f"slurmd-{node}", argv, env=clock.environment())
    daemons.wait_for("the nodes", lambda: _ready(settings), daemon="slurmd-gpu01")


def node_states() -> dict[str, str]:
    listing = clients.run(["sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %T"]).stdout
    return dict(line.split(maxsplit=1) for line in listing.splitlines())


def _ready(settings: Settings) -> bool:
    states = node_states()
    return len(states) == settings.nodes and all(
        state.rstrip("*+~#!%$@^-") in _UP_STATES and not state.endswith("*")
        for state in states.values()
    )


def down(*, purge: bool = False) -> None:
    _stop_slurm(kill=purge)
    for name in ("mariadbd", "munged"):
        daemons.stop([name])
    clock.stop()
    Settings.forget()
    if purge:
        configuration.remove()
        host.remove_everything()


def _stop_slurm(*, kill: bool) -> None:
    """Stop jobs, nodes, controller and slurmdbd; with `kill` at once, for state nobody wants."""
    if not kill and daemons.pid_of("slurmctld") is not None:
        _end_jobs()
    nodes = [name for name in daemons.recorded() if name.startswith("slurmd-")]
    daemons.stop(nodes, kill=kill)
    daemons.kill_job_steps()
    daemons.stop(["slurmctld"], kill=kill)
    daemons.stop(["slurmdbd"], kill=kill)


def cancel_all() -> None:
    for state in ("PENDING", "SUSPENDED", "RUNNING"):  # a list of states cancels nothing in 22.05
        clients.run(["scancel", "--quiet", f"--state={state}"])


def _end_jobs() -> None:
    cancel_all()
    with suppress(TestbedError):  # what does not end in time is killed with its node
        daemons.wait_for("the jobs' end", _no_jobs_active, timeout_s=5)


def _no_jobs_active() -> bool:
    return not clients.run(["squeue", "-h", "-t", "R,CG,S", "-o", "%i"]).stdout.strip()


def seconds_since(begin: float) -> str:
    return f"{time.monotonic() - begin:.1f} s"
