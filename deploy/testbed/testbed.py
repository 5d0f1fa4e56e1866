"""A real Slurm on this host for Mirage's tests: up, down, and commands in its time."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from typing import NoReturn

import clients
import clock
import cluster
import daemons
import host
import roots
from settings import LOG, Settings, TestbedError


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    # A shell starts what it has in the background without these, and jobs would inherit that.
    for number in (signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except TestbedError as error:
        sys.stderr.write(f"testbed: {error}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="testbed.py", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, command: Callable[[argparse.Namespace], int], text: str) -> _Sub:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        return sub

    up = add("up", _up, "Start the cluster, or switch it to other settings (then without jobs).")
    _add_settings(up)
    add("install", _install, "Install Debian's packages, which else the first 'up' does.")
    root = add("root", _root, "Make a root of another Debian release, if need be; print its path.")
    root.add_argument("release", choices=roots.RELEASES)
    root.add_argument("--fresh", action="store_true", help="make it anew: what Debian has today")
    down = add("down", _down, "Stop what 'up' started.")
    down.add_argument("--purge", action="store_true", help="remove state, configuration and users")
    status = add("status", _status, "Say what runs.")
    status.add_argument("--json", action="store_true")
    env = add("env", _env, "Print what a client of this cluster needs in its environment.")
    env.add_argument("--user", help="the whole environment of this user")
    env.add_argument("--json", action="store_true")
    run = add("run", _run, "Run a command in the cluster's time.")
    run.add_argument("--user", default="root")
    run.add_argument("--cwd", help="instead of the user's home")
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- CMD")
    add("stop-ctld", _stop_ctld, "Stop slurmctld.").add_argument(
        "--kill", action="store_true", help="with SIGKILL, as a crash"
    )
    add("start-ctld", _start_ctld, "Start slurmctld.")
    add("restart-ctld", _restart_ctld, "Stop and start slurmctld.").set_defaults(kill=False)
    add("stop-dbd", _stop_dbd, "Stop slurmdbd.")
    add("start-dbd", _start_dbd, "Start slurmdbd.")
    return parser


_Sub = argparse.ArgumentParser


def _add_settings(up: _Sub) -> None:
    up.add_argument("--speed", type=int, default=1, help="how many times faster than the clock")
    up.add_argument("--priority", choices=("age", "fairshare"), default="age")
    up.add_argument("--accrue-always", action="store_true", help="PriorityFlags=ACCRUE_ALWAYS")
    up.add_argument(
        "--no-store-flags",
        dest="store_flags",
        action="store_false",
        help="no AccountingStoreFlags: accounting keeps no comments and scripts",
    )
    up.add_argument("--nodes", type=int, default=8)
    up.add_argument(
        "--auth",
        choices=("munge", "slurm"),
        default="munge",
        help="what identifies users; slurm: Slurm's own sockets, from 23.11 on, and no munged",
    )
    up.add_argument(
        "--extra", action="append", default=[], metavar="KEY=VALUE", help="a line for slurm.conf"
    )
    up.add_argument("--fresh", action="store_true", help="forget all jobs in any case")
    up.add_argument("--keep", action="store_true", help="keep jobs and history when switching")


def _up(options: argparse.Namespace) -> int:
    settings = Settings(
        speed=options.speed,
        priority=options.priority,
        accrue_always=options.accrue_always,
        store_flags=options.store_flags,
        nodes=options.nodes,
        auth=options.auth,
        extra=tuple(options.extra),
    )
    host.require_root()
    _log_steps()
    begin = time.monotonic()
    with cluster.exclusively():
        changed = cluster.up(settings, keep=options.keep, fresh=options.fresh)
    what = "up" if changed else "up already"
    _say(f"{what} after {cluster.seconds_since(begin)}: {settings.nodes} nodes")
    return 0


def _log_steps() -> None:
    """Leave in a file when each step was done: what to look at when a start was slow."""
    LOG.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        filename=LOG / "testbed.log", level=logging.INFO, format="%(asctime)s %(message)s"
    )


def _install(_options: argparse.Namespace) -> int:
    host.require_root()
    with cluster.exclusively():
        host.install(host.missing_packages())
    return 0


def _root(options: argparse.Namespace) -> int:
    host.require_root()
    _say(str(roots.make(options.release, fresh=options.fresh)))
    return 0


def _down(options: argparse.Namespace) -> int:
    host.require_root()
    begin = time.monotonic()
    with cluster.exclusively():
        cluster.down(purge=options.purge)
    _say(f"down after {cluster.seconds_since(begin)}")
    return 0


def _status(options: argparse.Namespace) -> int:
    settings = Settings.saved()
    alive = {name: pid for name in daemons.recorded() if (pid := daemons.pid_of(name)) is not None}
    facts: dict[str, object] = {
        "settings": None if settings is None else settings.fields(),
        "daemons": alive,
        "clock": clock.origin() | {"now_s": clock.now()},
        "nodes": cluster.node_states() if "slurmctld" in alive else {},
    }
    if options.json:
        _say(json.dumps(facts))
    else:
        for name, fact in facts.items():
            _say(f"{name}: {fact}")
    return 0 if "slurmctld" in alive else 1


def _env(options: argparse.Namespace) -> int:
    needed = clock.environment() if options.user is None else clients.environment_of(options.user)
    if options.json:
        _say(json.dumps(needed))
    else:
        for name, value in needed.items():
            _say(f"export {name}={shlex.quote(value)}")
    return 0


def _run(options: argparse.Namespace) -> NoReturn:
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not argv:
        raise TestbedError("run: no command")
    environment = clients.environment_of(options.user)
    entry = clients.account(options.user)
    if entry.pw_uid != os.geteuid():
        os.initgroups(options.user, entry.pw_gid)
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    try:
        os.chdir(options.cwd or entry.pw_dir)
        os.execvpe(argv[0], argv, environment)  # noqa: S606 no shell wanted
    except OSError as error:
        raise TestbedError(f"{argv[0]}: {error.strerror}") from error


def _stop_ctld(options: argparse.Namespace) -> int:
    daemons.stop(["slurmctld"], kill=options.kill)
    return 0


def _start_ctld(_options: argparse.Namespace) -> int:
    _require_settings()
    cluster.start_controller()
    return 0


def _restart_ctld(options: argparse.Namespace) -> int:
    _stop_ctld(options)
    return _start_ctld(options)


def _stop_dbd(_options: argparse.Namespace) -> int:
    daemons.stop(["slurmdbd"])
    return 0


def _start_dbd(_options: argparse.Namespace) -> int:
    _require_settings()
    cluster.start_slurmdbd()
    return 0


def _require_settings() -> None:
    if Settings.saved() is None:
        raise TestbedError("the testbed is not up")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
