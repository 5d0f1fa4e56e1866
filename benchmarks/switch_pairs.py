"""A switch chain beside a sequential one on a real Slurm, at the prices that Mirage works out.

    deploy/testbed/apart.sh [--root trixie] python -m benchmarks.switch_pairs [--handovers 6]

Both chains run the same program with the same work at the same time; bob's jobs keep the cluster
full, and a service decides by the rule `quantile`. The table has a row for each hand-over of both
chains. Exit code 1: a step of the training was lost or done twice, a chain did not finish its work,
or there were too few hand-overs.

    deploy/testbed/apart.sh [--root trixie] python -m benchmarks.switch_pairs --links

How many links a switch chain uses where jobs have waited for longer than its time limit: on an idle
and on a full cluster, with a service and without. Exit code 1: more than two above the least.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.plans_scene import HOUR, MINUTE, LinkRecord, open_scene, read_chain_id, read_links
from tests.support.handover.scene import Scene
from tests.support.paths import SUPPORT
from tests.support.slurm_testbed import python_for_users

STYLES = ("sequential", "switch")
STEP_S = 60
POLICY = "quantile"
WARM_UP_S = 2 * HOUR
_SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:4 --cpus-per-task=2 --mem=100M
export PLUGIN={plugin} PYTHONPATH={path} PYTHONDONTWRITEBYTECODE=1
exec {python} {program} "$2" {step_s} "$1"
"""


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    link: int
    job: int
    at: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a chain: its links in the order they started, and its steps."""

    style: str
    links: list[LinkRecord]
    steps: list[Step]

    @property
    def interruptions_s(self) -> list[int]:
        return [
            max(0, (later.start or 0) - (earlier.end or 0))
            for earlier, later in pairwise(self.links)
        ]

    @property
    def overlaps_s(self) -> list[int]:
        """The time in which two links held nodes."""
        return [
            max(0, (earlier.end or 0) - (later.start or 0))
            for earlier, later in pairwise(self.links)
        ]

    @property
    def pauses_s(self) -> list[int]:
        """The time without a step at each hand-over, above that of a step."""
        link_changes = [
            (earlier, later)
            for earlier, later in pairwise(self.steps)
            if earlier.link != later.link
        ]
        return [max(0, later.at - earlier.at - STEP_S) for earlier, later in link_changes]

    @property
    def doubled_node_h(self) -> float:
        nodes = [link.nodes for link in self.links[1:]]
        return sum(n * s for n, s in zip(nodes, self.overlaps_s, strict=True)) / HOUR

    @property
    def used_node_h(self) -> float:
        return sum(link.nodes * ((link.end or 0) - (link.start or 0)) for link in self.links) / HOUR

    @property
    def duration_h(self) -> float:
        """From the first link's start to the last step."""
        return (self.steps[-1].at - (self.links[0].start or 0)) / HOUR

    def find_lost_steps(self, work: int) -> list[str]:
        """Return, in words, the steps that were not done, or more than once."""
        counts = Counter(step.number for step in self.steps)
        missing_steps = [number for number in range(1, work + 1) if not counts[number]]
        repeated_steps = [number for number, count in counts.items() if count > 1]
        offences = [
            f"{self.style}: steps {missing_steps[:5]} ... ({len(missing_steps)}) were not done"
        ]
        offences = offences if missing_steps else []
        return offences + [
            f"{self.style}: steps {repeated_steps[:5]} ... ({len(repeated_steps)}) twice"
        ] * bool(repeated_steps)


def submit_chain(  # noqa: PLR0913 - what a user may type
    scene: Scene,
    name: str,
    links: int,
    limit_min: int,
    work: int,
    *,
    style: str = "",
    options: Sequence[str] = (),
) -> str:
    """Submit a chain of so many links at most for `work` steps; return the chain's id.

    `style`: as its name is, where nothing else is said.
    """
    python, environment = python_for_users()
    script = scene.root / "paced.sh"
    script.write_text(
        _SCRIPT.format(
            plugin=scene.root / "slurm_plugin",
            path=environment["PYTHONPATH"],
            python=python,
            program=SUPPORT / "slurm_plugin" / "paced_link.py",
            step_s=STEP_S,
        )
    )
    job = scene.submit_chain(
        name,
        links=links,
        run_s=work,
        limit_min=limit_min,
        style=style or name,
        options=options,
        script=script,
    )
    return read_chain_id(scene, job)


def _read_saved_step(scene: Scene, style: str) -> int:
    path = scene.log(style).with_suffix(".step")
    return int(path.read_text()) if path.exists() else 0


def read_steps(scene: Scene, style: str) -> list[Step]:
    path = scene.log(style)
    lines = path.read_text().splitlines() if path.exists() else []
    return [Step(*map(int, line.split()[1:])) for line in lines if line.startswith("step ")]


def measure(handovers: int, limit_min: int, backlog: int) -> list[Outcome]:
    """Let both chains do the work of `handovers` + 1 links of the sequential one."""
    work = count_work(handovers, limit_min)
    with open_scene() as scene:
        scene.start_service(policy=POLICY)
        scene.fill(backlog=backlog, gpus=4, run_s=(HOUR // 2, 3 * HOUR // 2))
        warm_at = scene.testbed.now() + WARM_UP_S
        scene.testbed.wait_until(lambda: scene.testbed.now() >= warm_at, 2 * WARM_UP_S, "warm up")
        links = 6 * (handovers + 1)
        ids = {style: submit_chain(scene, style, links, limit_min, work) for style in STYLES}

        def is_over() -> bool:
            return all(_read_saved_step(scene, style) >= work for style in STYLES)

        scene.testbed.wait_until(is_over, 4 * work * STEP_S, "the end of the work")
        prices = [explain_price(scene, chain) for chain in ids.values()]
        scene.testbed.cancel_all()
        records = read_links(scene)
        for style, line in zip(STYLES, prices, strict=True):
            print(f"{style}: {line}")
        return [Outcome(style, _list_runs(records, ids[style]), read_steps(scene, style))
                for style in STYLES]  # fmt: skip


def explain_price(scene: Scene, chain: str) -> str:
    """Return what the service says of the price."""
    chain_view = scene.api(f"/api/v1/chains/{chain}")
    return f"overlap price {chain_view['overlap_price']} ({chain_view['overlap_price_why']})"


def count_work(handovers: int, limit_min: int) -> int:
    """The steps that keep so many links busy, and half of another one.

    A link ends a minute before its limit, and needs a moment to begin.
    """
    return (limit_min - 3) * handovers + limit_min // 2


# --- how many links the work takes ----------------------------------------------------------------

LIMIT_MIN, WORK_MIN = 40, 100
WAITED_MIN = 60
"""What jobs of the partition have waited before: longer than the time limit."""
MOST_LINKS = 20
LEAST = -(-WORK_MIN // (LIMIT_MIN - 2))
"""A link ends a minute before its limit, and needs a moment to begin."""
SPARE = 2
_SERVICE = {"with a service": (), "without a service": ("--mirage-service=none",)}


@dataclass(frozen=True, slots=True)
class LinksUsed:
    """The links that a chain took for its work on a cluster of that load."""

    load: str
    service: str
    links: int
    interrupted_s: int

    @property
    def is_too_many(self) -> bool:
        return self.links > LEAST + SPARE


def measure_links(scene: Scene, *loads: str) -> list[LinksUsed]:
    """Let a chain with a service and one without do the same work beside each other.

    `loads`: idle or full, one after the other.
    """
    scene.let_jobs_wait(WAITED_MIN, jobs=24)
    scene.start_service(policy=POLICY)
    return [links_used for load in loads for links_used in _measure_load(scene, load)]


def _measure_load(scene: Scene, load: str) -> list[LinksUsed]:
    if load == "full":
        scene.fill(backlog=8, gpus=4, run_s=(HOUR // 2, 3 * HOUR // 2))
        scene.testbed.wait_until(
            lambda: scene.count_submitted() >= 16 + 8, 2 * HOUR, "a full cluster"
        )
    names = {service: f"{load}-{service.split()[0]}" for service in _SERVICE}
    for service, options in _SERVICE.items():
        name, style = names[service], "switch"
        submit_chain(scene, name, MOST_LINKS, LIMIT_MIN, WORK_MIN, style=style, options=options)

    def is_over() -> bool:
        return all(_read_saved_step(scene, name) >= WORK_MIN for name in names.values())

    scene.testbed.wait_until(is_over, 20 * WORK_MIN * MINUTE, "the end of the work")
    steps = {service: read_steps(scene, name) for service, name in names.items()}
    # The chains are done; accounting tells their marks once their jobs have ended.
    links = {service: len({step.link for step in steps[service]}) for service in names}
    return [
        LinksUsed(load, service, links[service], _sum_pauses_s(steps[service])) for service in names
    ]


def _sum_pauses_s(steps: Sequence[Step]) -> int:
    link_changes = [
        (earlier, later) for earlier, later in pairwise(steps) if earlier.link != later.link
    ]
    return sum(max(0, later.at - earlier.at - STEP_S) for earlier, later in link_changes)


def format_links(links_used: Sequence[LinksUsed]) -> list[str]:
    """Format a table of Markdown."""
    rows = [f"| cluster | chain | links for {WORK_MIN} min of work | least possible "
            "| minutes without a step |", "|---|---|---|---|---|"]  # fmt: skip
    return rows + [
        f"| {row.load} | {row.service} | {row.links} | {LEAST} | {row.interrupted_s / MINUTE:.0f} |"
        for row in links_used
    ]


def _list_runs(records: Sequence[LinkRecord], chain: str) -> list[LinkRecord]:
    runs = [record for record in records if record.chain == chain and record.start]
    return sorted(runs, key=lambda record: record.start or 0)


def format_rows(outcomes: Sequence[Outcome]) -> list[str]:
    """Format two tables of Markdown: each hand-over, and the sums."""
    sequential, switch = outcomes
    rows = [
        "| hand-over | interrupted, min: sequential | switch "
        "| nodes held twice, min: sequential | switch "
        "| without a step, min: sequential | switch |",
        "|---|---|---|---|---|---|---|",
    ]
    for number in range(max(len(outcome.overlaps_s) for outcome in outcomes)):
        cells = [
            _format_minutes(series, number)
            for name in ("interruptions_s", "overlaps_s", "pauses_s")
            for series in (getattr(sequential, name), getattr(switch, name))
        ]
        rows.append(f"| {number + 1} | {' | '.join(cells)} |")
    rows += [
        "",
        "| chain | hand-overs | interrupted, mean min | node-hours used twice "
        "| node-hours in all | hours to the end of the work |",
        "|---|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        mean = sum(outcome.interruptions_s) / max(1, len(outcome.interruptions_s)) / MINUTE
        rows.append(
            f"| {outcome.style} | {len(outcome.overlaps_s)} | {mean:.1f} | "
            f"{outcome.doubled_node_h:.2f} | {outcome.used_node_h:.1f} | {outcome.duration_h:.1f} |"
        )
    return rows


def _format_minutes(series: Sequence[int], number: int) -> str:
    return f"{series[number] / MINUTE:.0f}" if number < len(series) else ""


def find_offences(outcomes: Sequence[Outcome], handovers: int, limit_min: int) -> list[str]:
    work = count_work(handovers, limit_min)
    offences = [line for outcome in outcomes for line in outcome.find_lost_steps(work)]
    return offences + [
        f"{outcome.style}: {len(outcome.overlaps_s)} hand-overs, {handovers} were asked for"
        for outcome in outcomes
        if len(outcome.overlaps_s) < handovers
    ]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--handovers", type=int, default=6)
    parser.add_argument("--limit", type=int, default=120, help="minutes")
    parser.add_argument("--backlog", type=int, default=8, help="bob's waiting jobs")
    parser.add_argument("--links", action="store_true", help="how many links the work takes")
    options = parser.parse_args(words)
    if options.links:
        with open_scene() as scene:
            links_used = measure_links(scene, "idle", "full")
        print("\n".join(format_links(links_used)))
        return 1 if any(used_row.is_too_many for used_row in links_used) else 0
    outcomes = measure(options.handovers, options.limit, options.backlog)
    print("\n".join(format_rows(outcomes)))
    offences = find_offences(outcomes, options.handovers, options.limit)
    print("\n".join(offences) or "no step lost")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
