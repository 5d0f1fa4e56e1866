"""What is asked of a chain's plans as it is submitted."""

from __future__ import annotations

import pytest

from tests.integration.slurm_plugin.test_chain_options import ask, head, tag
from tests.support.slurm_plugin.fakes import FakeSlurm


@pytest.mark.parametrize(
    ("words", "lines", "env"),
    [
        (["--time=2:00:00"], "", {}),
        (["-t120"], "#SBATCH --time=9:00:00\n", {}),
        ([], "#SBATCH -t 2:00:00\n", {}),
        ([], "", {"SBATCH_TIMELIMIT": "120"}),
    ],
)
def test_a_lead_beyond_the_time_limit_is_refused(
    slurm: FakeSlurm, words: list[str], lines: str, env: dict[str, str]
) -> None:
    chain = ["--mirage-chain=2", *words]
    said = ask(slurm, *chain, "--mirage-lead=2:00:01", lines=lines, env=env)
    assert "--mirage-lead is longer than the time limit of" in said
    assert slurm.calls() == []
    ask(slurm, *chain, "--mirage-lead=2:00:00", lines=lines, env=env)
    assert head(slurm)["lead"] == "7200"


def test_a_chain_without_a_service_says_so_in_its_comment_and_registers_nowhere(
    slurm: FakeSlurm,
) -> None:
    said = ask(slurm, "--mirage-chain=2", "--mirage-service=none", "--comment=mine")
    assert "2 links, planned by its links without a service" in said
    (comment,) = [word for word in slurm.calls()[-1].argv if word.startswith("--comment=")][-1:]
    assert comment == f"--comment=mine mirage:service=none {tag(slurm)}"


def test_who_asks_for_a_policy_and_reaches_no_service_is_told_which_rule_decides(
    slurm: FakeSlurm,
) -> None:
    for words in ([], ["--mirage-service=none"]):
        said = ask(slurm, "--mirage-chain=2", "--mirage-policy=auto", *words)
        assert "without a service `quantile` decides, not auto" in said
        said = ask(slurm, "--mirage-chain=2", "--mirage-policy=quantile", *words)
        assert "decides" not in said


def test_the_admins_word_on_plans_travels_with_the_chain(slurm: FakeSlurm) -> None:
    conf = slurm.root / "client.conf"
    conf.write_text("plans = never\nmax_lead = 2:00:00\n")
    ask(slurm, "--mirage-chain=2", env={"MIRAGE_CLIENT_CONF": str(conf)})
    text = slurm.calls()[-1].script.decode()
    assert "mirage_plans='never'\n" in text
    assert "mirage_max_lead='2:00:00'\n" in text
