"""kill -9 of the service, of links and of slurmctld, between any two steps of real hand-overs.

    deploy/testbed/apart.sh [--root trixie] python -m benchmarks.plans_kills [--kills 36] [--seed 1]

A step is a file that a link writes into its chain's folder, or a moment before or after a command
of the service or of a link that changes something in Slurm. The next victim is killed after a step
that the seed draws, at once or within a quarter of an hour. The service comes back within 20
minutes, slurmctld within 5. A link that is killed before it has submitted its successor ends its
chain: `mirage-link resume` then mends it.

    deploy/testbed/apart.sh [--root trixie] python -m benchmarks.plans_kills --returns [--kills 36]

The same within returns alone: chains on an idle cluster whose links start early and give their
nodes back. Each command that such a link asks Slurm in a return has a step before and one after it;
the next victim is killed at a step that the seed draws, while the link stands there. A killed link
is the one that gives back, or its predecessor.

Slurm may hold a link after such a kill, "launch failed requeued held". The command releases it as
`mirage-link status` says.

With --evidence DIR what alice's chains and the service wrote stays there. Exit code 1: a chain was
lost, two standbys of a link waited at once, two jobs of a link ran at once for longer than the one
too many needs to leave, a link started early beyond its bound, or two links wrote at once.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

from benchmarks.plans_scene import HOUR, MINUTE, CommandLog, open_scene
from benchmarks.plans_watch import ChainSpec, Watch, let_pass, list_twin_runs, summarize
from tests.support.handover.scene import Scene

VICTIMS = ("service", "link", "slurmctld")
AWAY_S = {"service": 20 * MINUTE, "slurmctld": 5 * MINUTE}
"""How long a victim stays away at most, in the cluster's time."""
EVERY = 5  # a kill after a step of one to twice so many, less one
WAIT_MIN = 15
AFTERWARDS_S = 2 * HOUR
QUIET_S = 15 * MINUTE
APART_S = 7 * MINUTE  # the first submissions of two chains
_OPTIONS = ("--mirage-min-runtime=0", "--mirage-overlap-price=0.1")  # a killed link is no failure
_LIMIT = {"limit_min": 30, "links": 500}
CHAINS = (
    ChainSpec(name="sequential", style="sequential", options=_OPTIONS, **_LIMIT),
    ChainSpec(name="concurrent", style="concurrent", options=_OPTIONS, **_LIMIT),
    ChainSpec(name="by-hand", style="sequential", options=(*_OPTIONS, "--mirage-lead=6"), **_LIMIT),
    ChainSpec(
        name="alone",
        style="sequential",
        options=(*_OPTIONS, "--mirage-service=none", "--mirage-lead=6"),
        **_LIMIT,
    ),
)
_EARLY = ("--mirage-min-runtime=0", "--mirage-max-overlap=60:00", "--mirage-lead=50:00")
RETURNING = tuple(
    ChainSpec(
        name=f"{name}-{number}",
        style="sequential",
        limit_min=60,  # a client that cannot reach slurmctld asks for ten minutes of this clock
        links=500,
        max_overlap_s=HOUR,
        options=(*_EARLY, *options),
    )
    for number in range(1, 4)
    for name, options in (("served", ()), ("alone", ("--mirage-service=none",)))
)
_BOTH_JOBS = re.compile(r"^before squeue .*-j (\d+),(\d+)\b")
"""The question with which a return begins, and a plan: about two jobs."""
_PLANNED = re.compile(r" sbatch .*\?after:(\d+)\+")
MOMENTS = {
    "both jobs": re.compile(r"squeue .*-j \d+,\d+ -O "),
    "who waits for it": re.compile(r"squeue .*-o %k %i %E$"),
    "a new job": re.compile(r"sbatch .*\?after:"),
    "the queue": re.compile(r"squeue .*-o %k %i$"),
    "its predecessor": re.compile(r"squeue .*-j \d+ -o %T %S %e$"),
}
"""What a link that gives its nodes back asks Slurm for, in this order."""
KINDS = ("jobs", "plans", "returns", "waits", "started", "began", "ends", "requeued", "waited")
"""The folders of a chain in which a new file is a step."""


@dataclass(frozen=True, slots=True)
class Step:
    """An event, and the job that caused it; None: the service, or an unknown job."""

    event: str
    job: int | None


@dataclass
class Steps:
    """The steps of chains and of the service, as they come."""

    scene: Scene
    log: CommandLog
    _files: set[Path] = field(default_factory=set)
    _lines: int = 0

    def read_new(self) -> list[Step]:
        """Return the steps since the last call."""
        calls = self.log.read_steps()
        new_steps = [Step(event, job) for event, job in calls[self._lines :]]
        self._lines = len(calls)
        for kind in KINDS:
            for path in (self.scene.root / "alice" / "state").glob(f"*/{kind}/*"):
                if path.name.isdigit() and path not in self._files:
                    self._files.add(path)
                    new_steps.append(Step(f"{kind}/{path.name}", _find_writer(path)))
        return new_steps


def _find_writer(path: Path) -> int | None:
    """Return the job that wrote this file: the link's own; for `jobs` its predecessor's."""
    link = int(path.name) - (path.parent.name == "jobs")
    path_of_job = path.parent.parent / "jobs" / str(link)
    return int(path_of_job.read_text()) if path_of_job.exists() else None


@dataclass
class Killer:
    """Kills the next victim after a step that its dice choose, and brings victims back."""

    scene: Scene
    steps: Steps
    dice: random.Random
    away_s: Mapping[str, int] = field(default_factory=lambda: AWAY_S)
    kills: list[str] = field(default_factory=list)
    killed_jobs: set[int] = field(default_factory=set)
    _back_at: dict[str, float] = field(default_factory=dict)
    _steps_left: int = 1
    _last_step: Step | None = None
    _due_at: float | None = None

    def __post_init__(self) -> None:
        self._victims = cycle(VICTIMS)

    def look(self) -> None:
        """Bring back victims that are due; kill the next victim if the dice say so."""
        now = self.scene.testbed.now()
        for victim in [name for name, at in self._back_at.items() if at <= now]:
            self._bring_back(victim)
        new_steps = self.steps.read_new()
        self._last_step = new_steps[-1] if new_steps else self._last_step
        self._steps_left -= len(new_steps)
        if self._last_step is None or self._steps_left > 0:
            return
        if self._due_at is None:  # half of the kills come at the step, half in the quiet after it
            self._due_at = now + self.dice.choice((0, 1)) * self.dice.uniform(0, QUIET_S)
        if now >= self._due_at and self._kill(self._last_step):
            self._steps_left, self._due_at = self.dice.randrange(1, 2 * EVERY), None

    def bring_all_back(self) -> None:
        for victim in list(self._back_at):
            self._bring_back(victim)

    def _bring_back(self, victim: str) -> None:
        del self._back_at[victim]
        if victim == "service":
            self.scene.launch_service(self.steps.log.find_path(self.scene, "mirage"))
        else:
            self.scene.testbed.start_ctld()

    def _kill(self, step: Step) -> bool:
        victim = next(self._victims)
        while victim in self._back_at:
            victim = next(self._victims)
        if victim == "service":
            self.scene.stop_service(signal.SIGKILL)
        elif victim == "slurmctld":
            self.scene.testbed.stop_ctld(kill=True)
        elif not self._kill_link(step):
            return False
        if victim in AWAY_S:
            away_s = self.dice.uniform(0, self.away_s[victim])
            self._back_at[victim] = self.scene.testbed.now() + away_s
        by_job = "" if step.job is None else f" by job {step.job}"
        self.kills.append(victim)
        print(f"{self.scene.testbed.now():.0f} kill {len(self.kills)}: {victim} "
              f"after {step.event}{by_job}", flush=True)  # fmt: skip
        return True

    def _kill_link(self, step: Step) -> bool:
        """Kill the processes of the job that took the step, else of any."""
        carriers = _find_carriers()
        if not carriers:
            return False
        job = step.job if step.job in carriers else self.dice.choice(sorted(carriers))
        # With its script, which leads a group of its own: with cgroups Slurm ends that too.
        for pid in _list_family(carriers[job]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.killed_jobs.add(job)
        return True


@dataclass
class ReturnKiller(Killer):
    """Kills the next victim at a step of a return that its dice choose, while the link runs."""

    places: Counter[str] = field(default_factory=Counter)
    """How often something was killed at each moment of a return."""
    _predecessors: dict[int, int] = field(default_factory=dict)
    """The predecessor of each job that gives its nodes back, or has."""
    _moments: dict[int, int] = field(default_factory=dict)
    """The moment that each such job has reached: two moments for each question."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._draw()

    def look(self) -> None:
        now = self.scene.testbed.now()
        for victim in [name for name, at in self._back_at.items() if at <= now]:
            self._bring_back(victim)
        for step in self.steps.read_new():
            job = self._find_submitter(step.event) if step.job is None else step.job
            if job is not None and self._is_reached(job, step.event):
                self._strike(Step(step.event, job))

    def _find_submitter(self, event: str) -> int | None:
        """Return the job that gives its nodes back by this sbatch. The command cannot say it, since
        it has the environment of the chain's first submission."""
        planned = _PLANNED.search(event)
        predecessor = int(planned[1]) if planned is not None else None
        jobs = [job for job in self._moments if self._predecessors[job] == predecessor]
        return max(jobs, default=None)

    def _is_reached(self, job: int, event: str) -> bool:
        """Follow a return. Return whether it has reached the moment that the dice drew."""
        match = _BOTH_JOBS.match(event)
        if match is not None and job == int(match[1]) > int(
            match[2]
        ):  # a plan: the later one second
            self._predecessors[job], self._moments[job] = int(match[2]), 0
            return self._drawn_moment == 0
        when, _, call = event.partition(" ")
        previous_moment = self._moments.get(job)
        if previous_moment is None or when not in ("before", "after"):
            return False
        matches = [k for k, pattern in enumerate(MOMENTS.values()) if pattern.match(call)]
        moment = 2 * matches[0] + (when == "after") if matches else -1
        if (
            not previous_moment - 1 <= moment <= previous_moment + 1
        ):  # a question may be repeated; any other order means that the link keeps its nodes
            del self._moments[job]
            return False
        self._moments[job] = moment
        return moment == self._drawn_moment

    def _strike(self, step: Step) -> None:
        is_running = step.job in _find_carriers()
        if not is_running:  # the look came too late
            self._draw()
        elif self._kill(step):
            when = ("before", "after")[self._drawn_moment % 2]
            self.places[f"{when} the question about {list(MOMENTS)[self._drawn_moment // 2]}"] += 1
            self._draw()

    def _kill_link(self, step: Step) -> bool:
        job = step.job or 0
        return super()._kill_link(
            Step(step.event, self.dice.choice((job, self._predecessors[job])))
        )

    def _draw(self) -> None:
        self._drawn_moment = self.dice.randrange(2 * len(MOMENTS))


def _list_family(pid: int) -> list[int]:
    """Return the process and all its descendants."""
    family = [pid]
    for member in family:  # grows
        for children in Path(f"/proc/{member}/task").glob("*/children"):
            with suppress(OSError):
                family += map(int, children.read_text().split())
    return family


def _find_carriers() -> dict[int, int]:
    """Return the process ids of the running links' batch scripts, by job."""
    carriers = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = (folder / "stat").read_text().rpartition(") ")[2].split()[1]
            parent_name = (Path("/proc") / parent / "comm").read_text()
        except OSError:
            continue
        job = next((word for word in words if word.endswith(b"/slurm_script")), None)
        if (
            job is not None
            and b"mirage:" in b" ".join(words)
            and parent_name.startswith("slurmstepd")
        ):
            carriers[int(job.split(b"/")[-2].removeprefix(b"job"))] = int(folder.name)
    return carriers


def measure(kills: int, seed: int, evidence: Path | None, *, returns: bool) -> list[str]:
    """Return the offences; prints the kills and the table of chains."""
    print(f"seed {seed}", flush=True)
    with open_scene() as scene:
        log = CommandLog.lay_out(scene, step_s=40 if returns else 6, asks=returns)
        if not returns:
            scene.let_jobs_wait(WAIT_MIN, jobs=32)
        scene.start_service(policy="at-once", path=log.find_path(scene, "mirage"))
        watch = Watch(scene, {})
        env = {"PATH": log.find_path(scene, "alice")}
        for spec in RETURNING if returns else CHAINS:
            watch.chains[spec.submit(scene, env)] = spec
            let_pass(scene, watch, APART_S)
        steps = Steps(scene, log)
        steps.read_new()  # those of the first sbatch are alice's own
        dice = random.Random(seed)  # noqa: S311
        killer: Killer = Killer(scene, steps, dice)
        if returns:
            killer = ReturnKiller(scene, steps, dice, dict.fromkeys(AWAY_S, 5 * MINUTE))
        watch.killed = killer.killed_jobs

        def is_over() -> bool:
            watch.look()
            killer.look()
            watch.resume_dead()
            watch.release_held()
            return len(killer.kills) >= kills

        scene.testbed.wait_until(is_over, kills * HOUR, f"{kills} kills")
        killer.bring_all_back()
        let_pass(scene, watch, AFTERWARDS_S)
        offences, records = watch.find_offences(evidence)
        print("\n".join(summarize(records, watch.chains)))
        counts = ", ".join(f"{name} {count}" for name, count in Counter(killer.kills).items())
        print(f"kills: {counts}; {watch.looks} looks at the queue")
        if isinstance(killer, ReturnKiller):
            print("\n".join(f"{count} {place}" for place, count in sorted(killer.places.items())))
        for one, other, common_s in list_twin_runs(records):
            print(f"link {one.link} of {watch.chains[one.chain].name}: jobs {one.job} and "
                  f"{other.job} held nodes at once for {common_s} s")  # fmt: skip
    return offences


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=36)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--evidence", type=Path)
    parser.add_argument("--returns", action="store_true", help="kill within returns alone")
    options = parser.parse_args(words)
    offences = measure(options.kills, options.seed, options.evidence, returns=options.returns)
    print("\n".join(offences) or "no offence")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
