"""What chains cost slurmctld in RPCs of their owner, by slurmctld's own count (sdiag).

    deploy/testbed/apart.sh [--root trixie] python -m benchmarks.plans_rpcs [--links 6]

Four chains of alice's run one after another: links that submit their successor with Slurm's own
sbatch; a chain of Mirage whose links start at their predecessor's end; a chain without any service,
whose links plan by themselves; a chain beside a service in mode `act`. Exit code 1: a chain that
plans makes more than 3 RPCs a link more than the one that does not, or runs sacct more than once an
hour.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.plans_scene import HOUR, MINUTE, CommandLog, open_scene
from mirage.slurm.commands.sdiag import parse_diagnosis
from tests.support.handover.scene import Scene

LIMIT_MIN = 60
WAIT_MIN = 15
"""The wait of similar jobs, minutes: the lead that links plan."""
MOST_EXTRA_RPCS = 3.0
CHAINS = {"sbatch": (), "no-plan": ("--mirage-never-overlap",), "own-plan": (), "service": ()}
"""The options of each chain's first submission. The last two chains are compared with `no-plan`."""
_LOOK_S = 1.0
_PLAIN = """#!/bin/bash
#SBATCH --gres=gpu:4 --cpus-per-task=2 --mem=100M -p gpu -o /dev/null
trap : TERM
next=$(($3 + 1))
words="-d afterany:$SLURM_JOB_ID -t $5 -J $SLURM_JOB_NAME"
[ "$3" -ge "$4" ] || sbatch -Q $words "$1" "$1" "$2" $next "$4" "$5"
echo "start sbatch $3 $SLURM_JOB_ID $(date +%s)" >>"$2"
sleep $((60 * $5))
echo "end sbatch $3 $SLURM_JOB_ID $(date +%s)" >>"$2"
"""


@dataclass
class CallCount:
    """alice's RPCs since the start of this count. slurmctld restarts its own count at midnight."""

    scene: Scene
    total: int = 0
    _last: int = field(init=False)
    _looked_at: float = 0.0

    def __post_init__(self) -> None:
        self._last = self._fetch()

    def look(self) -> None:
        """Add the RPCs since the last look; at most once a second."""
        if time.monotonic() - self._looked_at < _LOOK_S:
            return
        now = self._fetch()
        self.total += now - self._last if now >= self._last else now
        self._last, self._looked_at = now, time.monotonic()

    def _fetch(self) -> int:
        users = parse_diagnosis(self.scene.testbed.run(["sdiag"]).stdout).users
        return sum(user.calls for user in users if user.user == "alice")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a chain of so many links: RPCs of its owner, and calls of Slurm's commands."""

    name: str
    links: int
    rpcs: int
    calls: list[tuple[int, str]]

    @property
    def rpcs_a_link(self) -> float:
        return self.rpcs / self.links

    def count_commands(self) -> str:
        names = Counter(" ".join(call.split()[:1]) for _, call in self.calls)
        return ", ".join(f"{name} {count}" for name, count in sorted(names.items()))

    def count_plan_calls(self) -> int:
        """The RPCs of planning: a look at both jobs takes two (22.05), a change one."""
        looks = sum(call.startswith("squeue ") and "Dependency:" in call for _, call in self.calls)
        changes = sum(call.startswith("scontrol update ") for _, call in self.calls)
        return 2 * looks + changes

    def find_hasty_sacct(self) -> list[str]:
        """Return the calls of sacct that came within an hour of the one before."""
        instants = [at for at, call in self.calls if call.startswith("sacct ")]
        return [
            f"{self.name}: sacct {after - before} s after the last one"
            for before, after in itertools.pairwise(instants)
            if after - before < HOUR
        ]


def measure_chain(scene: Scene, log: CommandLog, name: str, links: int) -> Cost:
    """Run a chain to its end."""
    earlier_call_count = len(log.read_calls())
    count = CallCount(scene)
    if name == "sbatch":
        submit_plain(scene, name, links, LIMIT_MIN, log.find_path(scene, "alice"))
    else:
        scene.submit_chain(
            name,
            links=links,
            run_s=LIMIT_MIN * MINUTE,
            limit_min=LIMIT_MIN,
            style="sequential",
            options=CHAINS[name],
            env={"PATH": log.find_path(scene, "alice")},
        )

    def is_over() -> bool:
        count.look()
        return scene.is_finished(name, links)

    scene.testbed.wait_until(is_over, 2 * links * LIMIT_MIN * MINUTE, f"the end of {name}")
    time.sleep(2 * _LOOK_S)
    count.look()
    return Cost(name, links, count.total, log.read_calls()[earlier_call_count:])


def submit_plain(scene: Scene, name: str, links: int, limit_min: int, path: str) -> None:
    """Submit a chain of scripts that submit their successor with the `sbatch` on that path."""
    script = scene.root / "plain.sh"
    script.write_text(_PLAIN)
    words = ["sbatch", "-Q", f"-t{limit_min}", f"-J{name}", str(script), str(script)]
    words += [str(scene.log(name)), "1", str(links), str(limit_min)]
    scene.testbed.run(words, user="alice", cwd=scene.root / "alice", env={"PATH": path})


def find_offences(costs: Sequence[Cost]) -> list[str]:
    """Return, in words, the costs above the limits; `costs` in the order of CHAINS."""
    _, baseline, *planning = costs
    offences = [
        f"{cost.name}: {cost.rpcs_a_link - baseline.rpcs_a_link:.1f} RPCs a link more "
        f"than {baseline.name}"
        for cost in planning
        if cost.rpcs_a_link - baseline.rpcs_a_link > MOST_EXTRA_RPCS
    ]
    return offences + [line for cost in planning for line in cost.find_hasty_sacct()]


def format_rows(costs: Sequence[Cost]) -> list[str]:
    """Format a table of Markdown, a row for each chain."""
    rows = [
        "| chain | links | RPCs of the owner | a link | of these for plans | commands |",
        "|---|---|---|---|---|---|",
    ]
    return rows + [
        f"| {cost.name} | {cost.links} | {cost.rpcs} | {cost.rpcs_a_link:.1f} "
        f"| {cost.count_plan_calls() / cost.links:.1f} | {cost.count_commands()} |"
        for cost in costs
    ]


def measure(links: int, calls: Path | None) -> list[Cost]:
    with open_scene() as scene:
        log = CommandLog.lay_out(scene)
        scene.let_jobs_wait(WAIT_MIN, jobs=24)
        costs = [measure_chain(scene, log, name, links) for name in list(CHAINS)[:-1]]
        scene.start_service(policy="average")
        costs.append(measure_chain(scene, log, "service", links))
        if calls is not None:
            lines = (f"{cost.name}\t{at}\t{call}" for cost in costs for at, call in cost.calls)
            calls.write_text("\n".join(lines) + "\n")
    return costs


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=6)
    parser.add_argument(
        "--calls", type=Path, help="a file for the links' calls of Slurm's commands"
    )
    options = parser.parse_args(words)
    costs = measure(options.links, options.calls)
    print("\n".join(format_rows(costs)))
    offences = find_offences(costs)
    print("\n".join(offences))
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
