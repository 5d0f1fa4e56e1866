"""A real Slurm in fast time for the benchmarks of plans: alice's chains, and Slurm's own records.

Run these benchmarks as root below `deploy/testbed/apart.sh`, which gives them a host of their own.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.handover.scene import Scene
from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.link_patience import give_links_time, replace_once
from tests.support.slurm_testbed import Testbed, TestbedSettings

SPEED = 60
MINUTE, HOUR = 60, 3600
MARK = re.compile(r"\bmirage:([^:\s]+):(\d+)$")
"""A chain and a link in the comment of a job."""
_COLUMNS = "JobIDRaw,Submit,Eligible,Start,End,TimelimitRaw,NNodes,State,Comment"
_COMMANDS = ("sbatch", "squeue", "scontrol", "scancel", "sacct")
_LOGGED_COMMAND = """#!/bin/sh
say() {{ echo "$(date +%s) ${{SLURM_JOB_ID:--}} $*" >>{log}; }}
case "{step_s} {name} $* ${{SLURM_JOB_ID:+asked}}" in
0*) ;;
*" sbatch "* | *" scontrol update "* | *" scancel "* | *" squeue "*" {asked}")
    say before {name} "$@"; sleep {step_s}
    {real} "$@"; code=$?
    say after {name} "$@"; sleep {step_s}
    exit $code ;;
esac
say call {name} "$@"
exec {real} "$@"
"""


@contextmanager
def open_scene() -> Iterator[Scene]:
    """Bring up an empty cluster, sixty times faster than the clock; take it down afterwards."""
    testbed = Testbed()
    testbed.up(TestbedSettings(speed=SPEED), fresh=True)
    scene = Scene.set_up(testbed)
    plugin = scene.root / "slurm_plugin"
    shutil.rmtree(plugin)
    shutil.copytree(PLUGIN, plugin, ignore=shutil.ignore_patterns("__pycache__"))
    give_links_time(plugin, SPEED)
    # Longer than a user's two seconds: a chain that cannot register itself on a busy machine is
    # another measurement.
    replace_once(
        plugin / "mirage_slurm/client/request.py", "LIMIT_S = 2.0\n", f"LIMIT_S = {10.0 * SPEED}\n"
    )
    try:
        yield scene
    finally:
        scene.strike()
        testbed.down()
        shutil.rmtree(scene.root, ignore_errors=True)


def resume_drained_nodes(scene: Scene) -> list[str]:
    """Put the nodes back that Slurm has drained, as an admin would; return them.

    On a busy host the processes of a job that has ended live for longer than the fast clock allows
    ("Kill task failed").
    """
    words = ["sinfo", "-h", "-N", "-t", "drain", "-o", "%N"]
    nodes = sorted(set(scene.testbed.run(words, check=False).stdout.split()))
    if nodes:
        command = ["scontrol", "update", f"NodeName={','.join(nodes)}", "State=RESUME"]
        scene.testbed.run(command, check=False)
    return nodes


def read_chain_id(scene: Scene, job: int) -> str:
    """Return the chain of a job that is in the queue."""
    mark = MARK.search(scene.testbed.job(job)["Comment"].strip())
    if mark is None:
        raise LookupError(f"job {job} is no link")
    return mark[1]


# --- links in accounting --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord:
    """A run of a link's job, as accounting has it; instants in epoch seconds, None: not yet."""

    chain: str
    link: int
    job: int
    submit: int | None
    eligible: int | None
    start: int | None
    end: int | None
    limit_s: int
    nodes: int
    state: str


def read_links(scene: Scene) -> list[LinkRecord]:
    """Return all runs of alice's links that have ended, by chain, link and start.

    Accounting shows a job's comment only once the job has ended.
    """
    words = ["sacct", "-n", "-P", "-X", "-D", "-u", "alice", "-S", "now-7days", "-o", _COLUMNS]
    text = scene.testbed.run(words, env={"SLURM_TIME_FORMAT": "%s"}).stdout
    records = [_parse_link(line) for line in text.splitlines()]
    links = [link for link in records if link is not None]
    return sorted(links, key=lambda link: (link.chain, link.link, link.start or 0))


def _parse_link(line: str) -> LinkRecord | None:
    job, submit, eligible, start, end, limit_min, nodes, state, comment = line.split("|", 8)
    mark = MARK.search(comment)
    if mark is None:
        return None
    return LinkRecord(
        chain=mark[1],
        link=int(mark[2]),
        job=int(job),
        submit=_parse_instant(submit),
        eligible=_parse_instant(eligible),
        start=_parse_instant(start),
        end=_parse_instant(end),
        limit_s=MINUTE * int(limit_min),
        nodes=int(nodes),
        state=state.partition(" ")[0],
    )


def _parse_instant(word: str) -> int | None:
    return int(word) if word.isdigit() and word != "0" else None


# --- which commands of Slurm alice's links run ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class CommandLog:
    """A folder of Slurm's commands that write down each call before it happens."""

    folder: Path

    @classmethod
    def lay_out(cls, scene: Scene, *, step_s: int = 0, asks: bool = False) -> CommandLog:
        """Make the folder. With `step_s` a command that changes something pauses for so long before
        and after; with `asks` so does a link's squeue."""
        folder = scene.root / "counted"
        folder.mkdir()
        log = folder / "calls"
        log.touch()
        log.chmod(0o666)
        for name in _COMMANDS:
            program = shutil.which(name)
            command = folder / name
            when_asked = "asked" if asks else "unasked"
            command.write_text(
                _LOGGED_COMMAND.format(
                    name=name, log=log, real=program, step_s=step_s, asked=when_asked
                )
            )
            command.chmod(0o755)
        return cls(folder)

    def find_path(self, scene: Scene, user: str) -> str:
        """Return the user's PATH with these commands before Slurm's."""
        return f"{self.folder}:{scene.testbed.env(user)['PATH']}"

    def read_calls(self) -> list[tuple[int, str]]:
        """Return (instant, command line) of each call so far."""
        return [(at, call) for at, _, when, call in self._read() if when != "after"]

    def read_steps(self) -> list[tuple[str, int | None]]:
        """Return (what, job) of each moment before or after a change; job None: the service's."""
        return [
            (f"{when} {_shorten(call)}", int(job) if job.isdigit() else None)
            for _, job, when, call in self._read()
            if when != "call"
        ]

    def _read(self) -> list[tuple[int, str, str, str]]:
        lines = (self.folder / "calls").read_text().splitlines()
        rows = [line.split(" ", 3) for line in lines]
        return [(int(at), job, when, call) for at, job, when, call in rows if at.isdigit()]


def _shorten(call: str) -> str:
    """Return the command with its main arguments; a squeue command unchanged."""
    words = call.split()
    if words[0] == "squeue":
        return call
    arguments = [
        word for word in words if word.startswith(("--dependency", "JobId=", "Dependency="))
    ]
    return " ".join([words[0], *arguments])
