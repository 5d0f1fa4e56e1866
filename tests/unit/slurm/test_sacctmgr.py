"""QOS and associations, as sacctmgr -P prints them."""

import pytest

from mirage.errors import MalformedText
from mirage.slurm.commands.sacctmgr import parse_associations, parse_qos

QOS = """\
Name|Priority|Preempt|UsageFactor|GrpTRES|MaxTRESPU|MaxJobsPU|MaxSubmitPU|NewColumn
normal|0||1.000000|||||
high|100|normal|2.000000|gres/gpu=64|cpu=64,gres/gpu=8,mem=1T|4|20|
"""
ASSOCIATIONS = """\
Cluster|Account|User|Share|MaxJobs|QOS|Def QOS
ci|root||1||normal|
ci|research||10||normal|
ci|research|ann|parent|7|high,normal|normal
"""


def test_a_qos_and_its_limits() -> None:
    normal, high = parse_qos(QOS)
    assert (normal.name, normal.priority, normal.max_jobs_pu, dict(normal.others)) == (
        "normal",
        0,
        0,
        {},
    )
    assert (high.priority, high.max_jobs_pu, high.max_submit_pu) == (100, 4, 20)
    assert high.max_tres_pu == {"cpu": 64, "gres/gpu": 8, "mem": 1 << 20}
    assert dict(high.others) == {
        "Preempt": "normal",
        "UsageFactor": "2.000000",
        "GrpTRES": "gres/gpu=64",
    }


def test_associations_of_accounts_and_users() -> None:
    root, research, ann = parse_associations(ASSOCIATIONS)
    assert (root.account, root.user, root.share) == ("root", "", 1)
    assert (research.share, research.limits) == (10, {})
    assert (ann.user, ann.share, ann.default_qos, ann.limits) == (
        "ann",
        None,
        "normal",
        {"MaxJobs": "7"},
    )


@pytest.mark.parametrize(
    "text",
    ["", "\n", "sacctmgr: error\n", QOS[: QOS.rindex("|4|")], QOS.replace("|4|", "|four|")],
)
def test_half_an_answer_is_none(text: str) -> None:
    with pytest.raises(MalformedText):
        parse_qos(text)


def test_a_table_of_another_kind_is_none() -> None:
    with pytest.raises(MalformedText, match="not a table"):
        parse_associations(QOS)
