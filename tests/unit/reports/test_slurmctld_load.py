"""What Mirage's user costs slurmctld: asked seldom, kept, told as a share of all."""

import pytest

from mirage.database.schema.engine import Store
from mirage.errors import ClusterUnavailable
from mirage.reports import slurmctld_load
from mirage.reports.slurmctld_load import LoadSensor, RpcUsage
from mirage.slurm.commands.sdiag import Diagnosis, UserCalls

NOW = 1_800_000_000
TOLD = Diagnosis(
    at=NOW,
    since=NOW - 3600,
    users=(
        UserCalls(user="mirage", calls=30, us=600_000),
        UserCalls(user="root", calls=90, us=2_400_000),
    ),
)


class Slurmctld:
    """Answers, or does not."""

    def __init__(self) -> None:
        self.asked, self.away = 0, False

    def __call__(self) -> tuple[Diagnosis, str]:
        self.asked += 1
        if self.away:
            raise ClusterUnavailable("no answer")
        return TOLD, "mirage"


def kept(store: Store, cluster_id: int) -> RpcUsage | None:
    with store.read() as tx:
        return slurmctld_load.read_last_usage(tx, cluster_id)


def test_it_asks_seldom_and_keeps_the_last_answer(store: Store, cluster_id: int) -> None:
    slurmctld = Slurmctld()
    sensor = LoadSensor(slurmctld, every_s=600)
    assert kept(store, cluster_id) is None
    for minute in range(20):
        sensor.poll_if_due(store, cluster_id, NOW + 60 * minute)
    assert slurmctld.asked == 2
    slurmctld.away = True
    for minute in range(20, 30):
        sensor.poll_if_due(store, cluster_id, NOW + 60 * minute)
    assert slurmctld.asked == 3, "without an answer it is asked no sooner"
    found = kept(store, cluster_id)
    assert found is not None
    assert (found.user, found.calls, found.all_calls, found.share) == ("mirage", 30, 120, 0.25)
    assert (found.seconds, found.all_seconds) == (0.6, 3.0)
    assert found.time_share == pytest.approx(0.2)


def test_a_user_who_asked_nothing_has_no_share_of_nothing() -> None:
    found = slurmctld_load.compute_usage(Diagnosis(at=NOW, since=None, users=()), "mirage")
    assert (found.calls, found.share, found.time_share) == (0, None, None)
    assert slurmctld_load.compute_usage(TOLD, "nobody").share == 0.0
