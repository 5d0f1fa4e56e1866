"""Settings of a chain, read from a job of it."""

import pytest

from mirage.domain.chain import ChainMode, Presubmit, Style
from mirage.slurm.text.chain_settings import ChainSettings, parse_chain_settings
from tests.support.jobs import make_job

MARK = "mirage:k3v9x2m7q1zt:2"


def told(comment: str = "", line: str = "") -> ChainSettings:
    return parse_chain_settings(make_job(7, submit=1, comment=comment, submit_line=line))


@pytest.mark.parametrize(
    ("comment", "wished"),
    [
        (MARK, ChainSettings()),
        ("", ChainSettings()),
        (f"mirage:never-overlap {MARK}", ChainSettings(max_overlap_s=0)),
        (
            f"mirage:never-overlap,style=wait {MARK}",
            ChainSettings(max_overlap_s=0, style=Style.WAIT),
        ),
        (f"mirage:max-overlap=30:00,never-overlap {MARK}", ChainSettings(max_overlap_s=0)),
        (f"mine mirage:chain=9,max-overlap=90 {MARK}", ChainSettings(max_overlap_s=5400)),
        (f"mirage:max-overlap=1-0 {MARK}", ChainSettings(max_overlap_s=86400)),
        (f"mirage:max-overlap=0 {MARK}", ChainSettings(max_overlap_s=0)),
        (
            f"mirage:style=switch,mode=submit,presubmit=all,policy=quantile,overlap-price=0.05,"
            f"total=2-0,min-runtime=5,returns=3 {MARK}",
            ChainSettings(
                style=Style.SWITCH,
                mode=ChainMode.SUBMIT,
                presubmit=Presubmit.ALL,
                policy="quantile",
                overlap_price=0.05,
                total_s=172800,
                min_runtime_s=300,
                max_returns=3,
            ),
        ),
        # What does not read is no wish.
        (
            f"mirage:style=fast,max-overlap=soon,policy=a:b,overlap-price=nan {MARK}",
            ChainSettings(),
        ),
        (f"mirage:max-overlap=UNLIMITED,overlap-price=1e9 {MARK}", ChainSettings()),
        (f"mirage:max-overlap=-5,total=99999-0,overlap-price=101 {MARK}", ChainSettings()),
        (f"mirage:overlap-price=\u0665 {MARK}", ChainSettings()),
        *[(f"mirage:returns={text} {MARK}", ChainSettings()) for text in ("-1", "10", "\u0665")],
        (f"mirage:hello=1 {MARK}", ChainSettings()),
        (f"xmirage:never-overlap {MARK}", ChainSettings()),
        (f"mirage:never-overlaps {MARK}", ChainSettings()),
        (f"mirage:style=wait {MARK} mirage:style=concurrent", ChainSettings(style=Style.WAIT)),
    ],
)
def test_the_comment_tells(comment: str, wished: ChainSettings) -> None:
    assert told(comment) == wished


def test_the_submit_line_tells_what_the_comment_does_not() -> None:
    line = "sbatch --mirage-chain=2 '--mirage-style=switch' --mirage-max-overlap=20 job.sh"
    assert told(MARK, line) == ChainSettings(style=Style.SWITCH, max_overlap_s=1200)
    said = told(f"mirage:style=wait {MARK}", line)
    assert said == ChainSettings(style=Style.WAIT, max_overlap_s=1200)
    assert told(MARK, f"{line} --mirage-never-overlap").max_overlap_s == 0
    assert told(MARK, "sbatch x--mirage-never-overlap job.sh") == ChainSettings()
