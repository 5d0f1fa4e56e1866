"""Whether an early link gives its nodes back: the rule, and what is asked of a chain."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.slurm_plugin.test_chain_options import ask, head
from tests.support.paths import DATA
from tests.support.slurm_plugin.fakes import FakeSlurm

CASES = json.loads((DATA / "give-back-cases.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_the_links_rule_is_the_services(
    plugin: Callable[[str], Any], case: dict[str, Any]
) -> None:
    choose_lead = plugin("mirage_return").choose_lead
    numbers = [case[name] for name in ("left_s", "waited_s", "price", "back_s")]
    assert choose_lead(*numbers) == case["lead_s"]


@pytest.mark.parametrize(
    ("words", "lines", "returns"),
    [
        (["--mail-type=END"], "", "0"),
        (["--mail-type", "begin,end"], "", "0"),
        (["--mail-type=BEGIN"], "#SBATCH --mail-type=ALL\n", "0"),
        (["--mail-type=FAIL,TIME_LIMIT"], "", "2"),
        ([], "#PBS -m abe\n", "0"),
        ([], "#PBS -l walltime=1:00\n", "2"),
        (["--bb=capacity=1G"], "", "0"),
        (["--reboot"], "", "0"),
        ([], "#DW jobdw type=scratch capacity=1GB\n", "0"),
        ([], "#BB create_persistent\n", "0"),
        ([], "#BBQ is none\n", "2"),
        (["--mirage-returns=5", "--mail-type=END"], "", "0"),
    ],
)
def test_a_link_whose_jobs_cost_more_than_nodes_gives_nothing_back(
    slurm: FakeSlurm, words: list[str], lines: str, returns: str
) -> None:
    ask(slurm, "--mirage-chain=2", *words, lines=lines)
    assert head(slurm)["returns"] == returns


def test_the_admins_bound_on_returns_travels_with_the_chain(slurm: FakeSlurm) -> None:
    conf = slurm.root / "client.conf"
    conf.write_text("max_returns = 1\n")
    ask(slurm, "--mirage-chain=2", env={"MIRAGE_CLIENT_CONF": str(conf)})
    assert "mirage_max_returns='1'\n" in slurm.calls()[-1].script.decode()
