"""What a real sacctmgr prints of limits on earning age."""

from collections.abc import Iterator

import pytest

from tests.support.cluster.slurm_rig import SlurmRig

pytestmark = pytest.mark.slurm

_LIMITS = (
    ("qos", "normal", "MaxJobsAccruePU=2"),
    ("account", "research", "GrpJobsAccrue=5"),
    ("account", "research", "MaxJobsAccrue=3"),
)


@pytest.fixture
def limited(slurm_rig: SlurmRig) -> Iterator[SlurmRig]:
    for kind, name, limit in _LIMITS:
        slurm_rig.testbed.run(["sacctmgr", "-i", "modify", kind, name, "set", limit])
    yield slurm_rig
    for kind, name, limit in _LIMITS:
        none = f"{limit.partition('=')[0]}=-1"
        slurm_rig.testbed.run(["sacctmgr", "-i", "modify", kind, name, "set", none])


def test_the_limits_are_read(limited: SlurmRig) -> None:
    limits = limited.cluster.fetch_accrue_limits()
    found = {
        (li.word, li.most)
        for li in limits.iter_applicable(qos="normal", account="research", user="alice")
    }
    assert found == {("MaxJobsAccruePU", 2), ("MaxJobsAccrue", 3), ("GrpJobsAccrue", 5)}
    others = {
        (li.word, li.most)
        for li in limits.iter_applicable(qos="x", account="students", user="carol")
    }
    assert others == set()
