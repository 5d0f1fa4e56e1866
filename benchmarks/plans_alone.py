"""What plans are worth when Mirage's service dies, or was never there, on a real Slurm.

    python -m benchmarks.plans_alone [--pairs 3] [--links 4] [--speed 60] [--seed 1] [--json]

As root on a host where `deploy/testbed` may run, best below `deploy/testbed/apart.sh`. One cluster,
one partition, one queue. The user bob's filler jobs keep the queue long. Groups of four chains are
submitted together, one chain for each arm:

    live    alice, whose own service (`mirage serve --user`, mode act) is alive to the end
    away    carol, whose own service is killed (SIGKILL) once her chains' first plans stand
    never   bob, with the wrapped sbatch and no service: the links plan by themselves
    plain   bob, with Slurm's sbatch and `--dependency=afterany:`

A user's own service sees and moves that user's chains alone, so no service helps another arm. All
settings are the defaults: the policy `auto`, sequential links, price 0.5. A chain's time limit is
two hours. sacct tells when each link started and ended.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.plans_alone_site import ARMS, AWAY, HOUR_S, LIMIT_MIN, LIVE, SLOTS, Arm, Load, Site
from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.handover import Handover
from tests.support.slurm_testbed import TestbedFailure

APART_MIN = 15
"""Between two groups of chains."""
PLANNED_WITHIN_MIN = 20
"""So long after its start a first link may take to have its plan written."""
PATIENCE_H = 30


@dataclass(frozen=True, slots=True)
class Outcome:
    """A hand-over of one arm, by its group and its place in the chain (1: from link 1 to 2)."""

    arm: str
    group: int
    place: int
    handover: Handover
    lead_s: int


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=3, help="chains of each arm")
    parser.add_argument("--links", type=int, default=4, help="links of each chain")
    parser.add_argument("--speed", type=int, default=60, help="the cluster's clock")
    parser.add_argument("--seed", type=int, default=1, help="of the filler jobs")
    parser.add_argument("--keep", type=Path, help="a new folder for logs of chains and services")
    parser.add_argument("--json", action="store_true")
    words = parser.parse_args()
    site = Site.set_up(words.speed)
    try:
        answer = measure(site, words.pairs, words.links, words.seed)
    finally:
        if words.keep is not None:
            shutil.copytree(site.root, words.keep, ignore=shutil.ignore_patterns("socket"))
        site.strike()
    if words.json:
        print(json.dumps(answer, indent=1))
    else:
        show(answer)


def measure(site: Site, pairs: int, links: int, seed: int) -> dict[str, Any]:
    """Run the four arms; return the figures of `compute_figures` and what was done."""
    groups = [str(number) for number in range(1, pairs + 1)]
    site.load = Load(site.testbed, seed)
    site.load.start()
    for arm in ARMS:
        if arm.has_service:
            site.start_service(arm.user)
    _say(site, "services are up")
    settled = SLOTS + 60
    load = site.load
    site.testbed.wait_until(lambda: load.submitted > settled, 6 * HOUR_S, "a settled queue")
    _submit_groups(site, groups, links)
    planned = _kill_once_planned(site, groups)
    is_over = _await_last_links(site, groups, links)
    answer = compute_figures(_read_outcomes(site, groups))
    return answer | {
        "slurm": site.testbed.run(["sinfo", "--version"]).stdout.strip(),
        "speed": site.testbed.speed,
        "first_plans_at_the_kill": planned,
        "not_registered": site.unregistered,
        "live_service_alive_at_the_end": site.is_alive(LIVE.user),
        "all_links_started": is_over,
        "load_average": [round(number, 1) for number in os.getloadavg()],
    }


def _submit_groups(site: Site, groups: Sequence[str], links: int) -> None:
    """The order within a group turns, so that no arm is always first."""
    for turn, group in enumerate(groups):
        due = site.testbed.now() + 60 * APART_MIN
        for arm in (*ARMS[turn % len(ARMS) :], *ARMS[: turn % len(ARMS)]):
            site.submit(arm, group, links)
        _say(site, f"group {group} is submitted")
        if group != groups[-1]:
            _await_instant(site, due)


def _kill_once_planned(site: Site, groups: Sequence[str]) -> int:
    """Kill the service of the arm `away`.

    Return how many of its chains' second links had a plan by then, or were released.
    """
    _await(site, lambda: all(site.list_jobs(AWAY, group) for group in groups), "first links")
    until = site.testbed.now() + 60 * PLANNED_WITHIN_MIN
    planned = 0
    while planned < len(groups) and site.testbed.now() < until:
        _await_instant(site, site.testbed.now() + 60)
        planned = len(groups) - site.count_unplanned(AWAY.user)
    site.kill_service(AWAY.user)
    _say(
        site, f"the service of {AWAY.user} is killed, {planned} of {len(groups)} chains have plans"
    )
    return planned


def _await_last_links(site: Site, groups: Sequence[str], links: int) -> bool:
    """Wait until the script of every chain's last link has begun; False if some never did."""
    chains = [(arm, group) for arm in ARMS for group in groups]
    try:
        _await(
            site, lambda: all(len(site.list_jobs(*one)) >= links for one in chains), "last links"
        )
    except TestbedFailure as failure:
        _say(site, str(failure))
        return False
    return True


def _read_outcomes(site: Site, groups: Sequence[str]) -> list[Outcome]:
    chains = [(arm, group, site.list_jobs(arm, group)) for arm in ARMS for group in groups]
    site.testbed.cancel_all()
    jobs = [job for _, _, some in chains for job in some]
    _await(site, lambda: len(site.read_runs(jobs)) == len(jobs), "the ends in accounting")
    return [
        Outcome(arm.name, int(group), place, handover, lead_s)
        for arm, group, some in chains
        for place, (handover, lead_s) in enumerate(site.list_handovers(some), 1)
    ]


def compute_figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return means in hours for each arm, over the hand-overs that every arm has.

    `all` has all of them, `first` the first of each chain, `later` the others. `saved_h` is the
    cost less than plain Slurm's; `of_live_pct` is its share of what the arm `live` saves, None
    where that saves nothing.
    """
    known = {
        arm.name: {(o.group, o.place): o for o in outcomes if o.arm == arm.name} for arm in ARMS
    }
    paired = sorted(set.intersection(*(set(some) for some in known.values())))
    parts = {
        "all": paired,
        "first": [key for key in paired if key[1] == 1],
        "later": [key for key in paired if key[1] > 1],
    }
    return {
        "parts": {
            part: _compute_part({arm: [some[key] for key in keys] for arm, some in known.items()})
            for part, keys in parts.items()
            if keys
        },
        "handovers": [
            {
                "arm": o.arm,
                "chain": o.group,
                "place": o.place,
                "lead_h": round(o.lead_s / HOUR_S, 3),
                "interruption_h": round(o.handover.interruption_h, 3),
                "overlap_h": round(o.handover.overlap_h, 3),
            }
            for o in outcomes
        ],
    }


def _compute_part(by_arm: dict[str, list[Outcome]]) -> dict[str, Any]:
    cost = {arm: fmean(o.handover.compute_cost_h() for o in some) for arm, some in by_arm.items()}
    saved = {arm: cost["plain"] - cost[arm] for arm in cost}
    return {
        arm: {
            "handovers": len(some),
            "interruption_h": round(fmean(o.handover.interruption_h for o in some), 3),
            "overlap_h": round(fmean(o.handover.overlap_h for o in some), 3),
            "lead_h": round(fmean(o.lead_s for o in some) / HOUR_S, 3),
            "released_early": sum(o.lead_s > 0 for o in some),
            "cost_h": round(cost[arm], 3),
            "saved_h": round(saved[arm], 3),
            "of_live_pct": round(100 * saved[arm] / saved["live"]) if saved["live"] > 0 else None,
        }
        for arm, some in by_arm.items()
    }


def show(answer: dict[str, Any]) -> None:
    print(f"\n{answer['slurm']}, clock x{answer['speed']:.0f}, time limit {LIMIT_MIN} min")
    print(f"the machine's load average at the end: {answer['load_average']}")
    print(f"chains with a plan as their service was killed: {answer['first_plans_at_the_kill']}")
    print(f"chains that were not registered: {answer['not_registered']}")
    print(f"the live service was alive at the end: {answer['live_service_alive_at_the_end']}")
    for part, arms in answer["parts"].items():
        print(f"\n{part} hand-overs, means in hours, price of overlap {OVERLAP_PRICE}")
        print("arm     hand-overs  early   lead  interr.  overlap   cost  saved  of live's saving")
        for arm, row in arms.items():
            share = "-" if row["of_live_pct"] is None else f"{row['of_live_pct']} %"
            print(
                f"{arm:7} {row['handovers']:10} {row['released_early']:6} {row['lead_h']:6.2f} "
                f"{row['interruption_h']:8.2f} {row['overlap_h']:8.2f} {row['cost_h']:6.2f} "
                f"{row['saved_h']:6.2f}  {share:>16}"
            )
    print("\neach hand-over, minutes of interruption (minus: overlap), by chain and place")
    for arm in ARMS:
        print(f"{arm.name:7} {_list_minutes(answer['handovers'], arm)}")


def _list_minutes(handovers: Sequence[dict[str, Any]], arm: Arm) -> str:
    return ", ".join(
        f"{60 * (row['interruption_h'] - row['overlap_h']):.0f}"
        for row in handovers
        if row["arm"] == arm.name
    )


def _await(site: Site, holds: Callable[[], bool], what: str) -> None:
    def holds_now() -> bool:
        _await_instant(site, site.testbed.now() + 60)
        return holds()

    site.testbed.wait_until(holds_now, PATIENCE_H * HOUR_S, what)


def _await_instant(site: Site, instant: float) -> None:
    time.sleep(max(0.0, instant - site.testbed.now()) / site.testbed.speed)


def _say(site: Site, what: str) -> None:
    sys.stderr.write(f"{site.testbed.now():.0f} {what}\n")


if __name__ == "__main__":
    main()
