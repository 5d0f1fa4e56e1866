"""Answers of a real sacctmgr, from the shared samples."""

import pytest

from mirage.slurm.commands.sacctmgr import parse_associations, parse_qos
from tests.support.paths import SHARED

SAMPLES = SHARED / "reference" / "slurm-samples" / "cli"


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"Slurm's captured answers are not at {SAMPLES}")
def test_the_answers_of_a_real_sacctmgr() -> None:
    qos = parse_qos((SAMPLES / "sacctmgr-qos.psv").read_text())
    assert [(q.name, q.priority, q.max_jobs_pu) for q in qos] == [
        ("normal", 0, 0),
        ("high", 1000, 50),
        ("low", 0, 0),
    ]
    assert all(not q.others for q in qos)
    found = parse_associations((SAMPLES / "sacctmgr-assoc.psv").read_text())
    accounts = {a.account: a.share for a in found if not a.user}
    assert accounts == {"root": 1, "research": 10, "students": 1}
    assert all(not a.limits for a in found)
