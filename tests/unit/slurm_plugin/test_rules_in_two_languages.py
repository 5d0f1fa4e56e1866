"""Rules that the service and the links have each: all copies pass one table of cases.

`tests/data/give-back-cases.json` is tested in `test_return.py` and `policies/test_return_rule.py`,
`tests/data/brief-links-cases.json` for the service in `chains/test_link_risks.py`.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mirage.domain.chain import Chain, ChainId, Link, Style
from mirage.domain.job import JobId
from mirage.policies.rules import lead_rules
from tests.support.paths import DATA, PLUGIN

UNBOUNDED_S = 10 * 365 * 86400
"""Stands for no bound in the carrier's arithmetic."""


def read_cases(name: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((DATA / name).read_text())["cases"]
    return cases


OVERLAP_BOUNDS = read_cases("overlap-bound-cases.json")
QUANTILE_LEADS = read_cases("quantile-lead-cases.json")
BRIEF_LINKS = read_cases("brief-links-cases.json")


def run_pieces(shell: Sequence[str], pieces: Sequence[str], *lines: str) -> str:
    """Run shell lines after some pieces of the carrier; return what they print."""
    text = "\n".join([*((PLUGIN / piece).read_text() for piece in pieces), *lines])
    done = subprocess.run([*shell, "-c", text], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("case", OVERLAP_BOUNDS, ids=lambda case: case["why"])
def test_the_carrier_bounds_an_overlap_as_in_the_cases(
    shell: list[str], case: dict[str, Any]
) -> None:
    limit_s = case["limit_s"]
    began, ends = ("", "") if limit_s is None else (1000, 1000 + limit_s)
    stated_s = "" if case["stated_s"] is None else case["stated_s"]
    bound = run_pieces(
        shell,
        ["mirage_slurm/carrier/overlap.sh"],
        f"mirage_style={case['style']} mirage_max_overlap={stated_s}",
        f"mirage_began={began} mirage_ends={ends}",
        'mirage_bound_overlap && echo "$mirage_bound"',
    )
    assert int(bound) == (UNBOUNDED_S if case["bound_s"] is None else case["bound_s"])


@pytest.mark.parametrize(
    "case",
    [case for case in OVERLAP_BOUNDS if case["limit_s"] is not None],
    ids=lambda case: case["why"],
)
def test_a_links_plan_bounds_an_overlap_as_in_the_cases(
    plugin: Callable[[str], Any], case: dict[str, Any]
) -> None:
    forecast = plugin("mirage_slurm.planner.lead_rules")
    wishes = forecast.Wishes(case["style"], max_overlap_s=case["stated_s"])
    assert forecast.compute_max_overlap(case["limit_s"], wishes) == case["bound_s"]


@pytest.mark.parametrize("case", OVERLAP_BOUNDS, ids=lambda case: case["why"])
def test_the_service_bounds_an_overlap_as_in_the_cases(case: dict[str, Any]) -> None:
    chain = Chain(
        chain_id=ChainId("a" * 20),
        uid=1,
        max_overlap_s=case["stated_s"],
        style=Style(case["style"]),
    )
    predecessor = Link(
        chain_id=chain.chain_id,
        index=1,
        job_id=JobId(1),
        submit=0,
        time_limit_s=case["limit_s"],
    )
    # Without a bound a link may start as early as its predecessor.
    bound_s = case["limit_s"] if case["bound_s"] is None else case["bound_s"]
    assert chain.get_allowed_overlap_s(predecessor) == bound_s


def list_waits(case: dict[str, Any]) -> list[int]:
    return [wait_s for count, wait_s in case["waits"] for _ in range(count)]


@pytest.mark.parametrize("case", QUANTILE_LEADS, ids=lambda case: case["why"])
def test_a_links_plan_takes_the_lead_of_the_cases(
    plugin: Callable[[str], Any], case: dict[str, Any]
) -> None:
    forecast = plugin("mirage_slurm.planner.lead_rules")
    fractile = forecast.compute_fractile(case["price"])
    waits = forecast.cut_before_change(list_waits(case), fractile)
    assert forecast.Forecast(waits, "").find_quantile(fractile) == case["lead_s"]


@pytest.mark.parametrize("case", QUANTILE_LEADS, ids=lambda case: case["why"])
def test_the_service_takes_the_lead_of_the_cases(case: dict[str, Any]) -> None:
    fractile = lead_rules.compute_best_fractile(case["price"])
    waits = np.array(list_waits(case), dtype=np.int64)
    recent = lead_rules.drop_before_change(waits, fractile)
    assert lead_rules.compute_quantile(recent, fractile) == case["lead_s"]


@pytest.mark.parametrize("case", BRIEF_LINKS, ids=lambda case: case["why"])
def test_the_carrier_pauses_after_brief_links_as_in_the_cases(
    shell: list[str], tmp_path: Path, case: dict[str, Any]
) -> None:
    (tmp_path / "ran").mkdir()
    for index, run_s in enumerate(case["runs_s"], start=1):
        (tmp_path / "ran" / str(index)).write_text(f"{run_s}\n")
    last = len(case["runs_s"])
    answer = run_pieces(
        shell,
        ["mirage_slurm/carrier/files.sh", "mirage_slurm/carrier/progress.sh"],
        f"mirage_dir={tmp_path} mirage_presubmit={case['presubmit']} mirage_counted_from=1",
        f"if mirage_all_were_brief {last - 4} {last}; then echo yes; else echo no; fi",
    )
    assert answer == ("yes" if case["pauses"] else "no")
