"""What forecasts get wrong is demoted where it is wrong, and one owner demotes nobody else."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from mirage.chains import link_sync
from mirage.database.chains import decisions
from mirage.database.events import audit
from mirage.database.operations import clusters
from mirage.database.operations.demotions import read_demotions
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, Mark
from mirage.domain.decision import Forecast, Mode, PolicyView
from mirage.domain.job import Job, JobId
from mirage.domain.snapshot import Snapshot
from mirage.provision.control.demotions import ACTS_AGAIN, DEMOTED
from mirage.provision.control.limits import Limits
from mirage.provision.handover_decider import DecisionSettings
from mirage.provision.provision_tick import provision_handovers
from tests.support.provision.scene import Always
from tests.support.provision.slurm_jobs import HOUR, NOW, WrittenCluster, job, read_mode, running

DAY = 24 * HOUR
SOON = Forecast(p50_s=600.0)
LIMITS = Limits(
    demote_after=4,
    max_lead_s=100 * DAY,
    user_overlap_node_h=1e9,
    account_overlap_node_h=1e9,
    cluster_overlap_node_h=1e9,
)


def early(index: int, chain_id: ChainId) -> str:
    return f"mirage:style=concurrent,max-overlap=480:00:00 {Mark(chain_id, index)}"


class Frees(Always):
    """Frees at once, and expects a wait of ten minutes."""

    def __init__(self, name: str = "always") -> None:
        super().__init__(name, SOON)


SETTINGS = DecisionSettings(get_policy=Frees, default_policy="always", limits=LIMITS)


class Looks:
    """Each look is at the queue as squeue prints it, and decides as a tick does."""

    def __init__(self, store: Store) -> None:
        self.store, self.cluster, self.shown = store, WrittenCluster(), dict[int, list[Job]]()

    def tick(self, at: int) -> list[JobId]:
        """Return the standbys that were moved."""
        self.cluster.at = at
        self.cluster.jobs = [one for shown in self.shown.values() for one in shown]
        self.cluster.moves.clear()
        queue = self.cluster.fetch_queue()
        with self.store.begin() as tx:
            link_sync.sync_links(tx, 1, link_sync.list_marked_jobs(queue), at)
        provision_handovers(self.store, self.cluster, 1, Snapshot(queue=queue, nodes=()), SETTINGS)
        return [standby for _, standby, _ in self.cluster.moves]

    def show(self, number: int, at: int, uid: int, **fields: Any) -> None:
        """A chain whose first link runs, with its standby behind it."""
        mine = {"uid": uid, "user": f"user{uid}", "submit": at - 100, "time_limit_s": 10 * DAY}
        base, chain_id = 100 * number, ChainId(f"chain{number:04}")
        first = running(1, at - 60, job_id=JobId(base), comment=early(1, chain_id), **mine)
        waits = {"dependency": f"afterany:{base}(unfulfilled)", "comment": early(2, chain_id)}
        second = job(2, job_id=JobId(base + 1), **{**mine, **waits, **fields})
        self.shown[number] = [first, second]

    def start(self, number: int, at: int, freed: int, uid: int, **fields: Any) -> None:
        mine = {"uid": uid, "user": f"user{uid}", "submit": freed - 100, "time_limit_s": 10 * DAY}
        chain_id = ChainId(f"chain{number:04}")
        more = {"comment": early(2, chain_id), "eligible": freed, **fields}
        second = running(2, at, job_id=JobId(100 * number + 1), **{**mine, **more})
        self.shown[number] = [self.shown[number][0], second]

    def hand_over(
        self, numbers: Iterable[int], uid: int, waits_s: int, at: int = NOW, **fields: Any
    ) -> int:
        """Chains of that owner whose standbys are freed at `at` and start `waits_s` later; return
        when."""
        for number in numbers:
            self.show(number, at, uid, **fields)
        self.tick(at)
        for number in numbers:
            self.start(number, at + waits_s, at, uid, **fields)
        self.tick(at + waits_s)
        self.shown = {n: jobs for n, jobs in self.shown.items() if n not in numbers}
        return at + waits_s

    def told(self, event: str) -> list[Any]:
        with self.store.read() as tx:
            return [entry.detail for entry in audit.list_entries(tx, 1, event=event)]


@pytest.fixture
def looks(acting_store: Store) -> Looks:
    return Looks(acting_store)


def is_moved(looks: Looks, at: int, uid: int, **fields: Any) -> bool:
    """Whether a chain of that owner that comes now has its standby moved."""
    number = 900 + uid + at % 97
    looks.show(number, at, uid, **fields)
    moved = JobId(100 * number + 1) in looks.tick(at)
    del looks.shown[number]
    return moved


MALLORY, BOB, CAROL, DAVE = 666, 1002, 1003, 1004


def test_one_owners_chains_take_act_from_these_chains_alone(looks: Looks) -> None:
    """Standbys that ask for all nodes, beside a long job of one's own."""
    now = looks.hand_over(range(1, 11), MALLORY, 2 * DAY, nodes=64)
    looks.hand_over([20], BOB, 600, now)
    assert read_mode(looks.store) is Mode.ACT
    assert is_moved(looks, now + 900, BOB)
    assert is_moved(looks, now + 901, BOB, nodes=64)
    assert not is_moved(looks, now + 902, MALLORY, nodes=64)
    assert is_moved(looks, now + 903, MALLORY, nodes=1), "of another shape"
    assert is_moved(looks, now + 904, MALLORY, nodes=64, partition="cpu")
    (detail,) = looks.told(DEMOTED)
    assert (detail["uid"], detail["partition"]) == (MALLORY, "gpu")
    assert "shadow until a forecast there is right, at most 24 h after" in detail["says"]


def test_the_owner_of_a_demoted_chain_is_told_and_how_it_comes_back(
    looks: Looks,
) -> None:
    now = looks.hand_over(range(1, 5), MALLORY, 2 * DAY)
    looks.show(30, now + 60, MALLORY)
    looks.tick(now + 60)
    with looks.store.read() as tx:
        row = decisions.find_last_decision(tx, 1, ChainId("chain0030"), 2)
        (one,) = read_demotions(tx, 1)
    assert row is not None
    assert row.mode is Mode.SHADOW
    assert one.explain() in row.reason
    assert "wrong by 47.8 h on average (demote_error_h: 12)" in row.reason


def test_a_demotion_ends_a_day_after_the_last_wrong_forecast(looks: Looks) -> None:
    now = looks.hand_over(range(1, 5), MALLORY, 2 * DAY)
    assert not is_moved(looks, now + DAY - 60, MALLORY)
    assert is_moved(looks, now + DAY, MALLORY)
    assert [detail["uid"] for detail in looks.told(ACTS_AGAIN)] == [MALLORY]
    again = looks.hand_over([50], MALLORY, 2 * DAY, now + DAY + 60)
    assert not is_moved(looks, again + 60, MALLORY), "then one wrong forecast suffices"


def test_a_demotion_ends_with_the_next_forecast_that_is_right(looks: Looks) -> None:
    for number in (1, 2, 3, 4, 5):
        looks.show(number, NOW, MALLORY)
    looks.tick(NOW)
    for number in (1, 2, 3, 4):
        looks.start(number, NOW + 2 * DAY, NOW, MALLORY)
    assert not is_moved(looks, NOW + 2 * DAY, MALLORY)
    looks.start(5, NOW + 2 * DAY + 60, NOW, MALLORY, eligible=NOW + 2 * DAY)
    looks.tick(NOW + 2 * DAY + 60)
    assert is_moved(looks, NOW + 2 * DAY + 120, MALLORY)


def test_where_most_owners_fail_the_cluster_is_demoted(looks: Looks) -> None:
    for numbers, uid in (((1, 2), BOB), ((3, 4), CAROL), ((5, 6), DAVE)):
        for number in numbers:
            looks.show(number, NOW, uid)
    looks.tick(NOW)
    for numbers, uid in (((1, 2), BOB), ((3, 4), CAROL), ((5, 6), DAVE)):
        for number in numbers:
            looks.start(number, NOW + (60 if uid == DAVE else DAY), NOW, uid)
    looks.tick(NOW + DAY)
    assert read_mode(looks.store) is Mode.SHADOW
    (detail,) = looks.told(DEMOTED)
    assert (detail["owners"], detail["partition"]) == (3, "")
    with looks.store.begin() as tx:
        clusters.set_mode(tx, 1, Mode.ACT)
    assert is_moved(looks, NOW + DAY + 60, BOB), "forecasts from before count no more"
    assert read_mode(looks.store) is Mode.ACT


@pytest.mark.parametrize("right", [(CAROL,), (CAROL, DAVE)], ids=["of two", "of three"])
def test_an_owner_has_one_vote_however_many_the_handovers(
    looks: Looks, right: tuple[int, ...]
) -> None:
    now = looks.hand_over(range(1, 21), MALLORY, DAY)
    for number, uid in enumerate(right, 30):
        now = looks.hand_over([number], uid, 600, now)
    looks.tick(now + 60)
    assert read_mode(looks.store) is Mode.ACT
    assert is_moved(looks, now + 120, CAROL)


def test_a_partition_is_demoted_by_its_own_handovers(looks: Looks) -> None:
    with looks.store.begin() as tx:
        clusters.set_mode(tx, 1, Mode.ACT, "cpu")
        clusters.set_mode(tx, 1, Mode.OBSERVE, "debug")
    for number, uid in ((1, BOB), (3, CAROL), (5, DAVE)):
        looks.show(number, NOW, uid, partition="cpu")
        looks.show(number + 1, NOW, uid, partition="cpu")
    looks.tick(NOW)
    for number, uid in ((1, BOB), (3, CAROL), (5, DAVE)):
        looks.start(number, NOW + DAY, NOW, uid, partition="cpu")
        looks.start(number + 1, NOW + DAY, NOW, uid, partition="cpu")
    looks.tick(NOW + DAY)
    modes = [read_mode(looks.store, name) for name in ("", "cpu", "debug")]
    assert modes == [Mode.ACT, Mode.SHADOW, Mode.OBSERVE]


def test_an_only_users_wrong_forecasts_of_many_shapes_demote_them(
    looks: Looks,
) -> None:
    """As in `serve --user`: no shape has enough hand-overs by itself."""
    for number, nodes in enumerate((1, 2, 4, 8), 1):
        looks.show(number, NOW, BOB, nodes=nodes)
    looks.tick(NOW)
    for number, nodes in enumerate((1, 2, 4, 8), 1):
        looks.start(number, NOW + DAY, NOW, BOB, nodes=nodes)
    looks.tick(NOW + DAY)
    moved = [is_moved(looks, NOW + DAY + n, BOB, nodes=n) for n in (1, 2, 4, 8)]
    assert moved == [False] * 4


@pytest.mark.parametrize("reason", ["JobHeldUser", "QOSMaxJobsPerUserLimit", "ReqNodeNotAvail"])
def test_a_hindered_standby_is_no_error_of_forecasting(looks: Looks, reason: str) -> None:
    for number in range(1, 6):
        looks.show(number, NOW, MALLORY)
    looks.tick(NOW)
    for at in (NOW + 60, NOW + 120):
        for number in range(1, 6):
            looks.show(number, NOW, MALLORY, dependency="", reason=reason)
        looks.tick(at)
    for number in range(1, 6):
        looks.start(number, NOW + 2 * DAY, NOW, MALLORY)
    looks.tick(NOW + 2 * DAY)
    assert looks.told(DEMOTED) == []
    assert is_moved(looks, NOW + 2 * DAY + 60, MALLORY)


def test_only_the_default_policys_errors_demote(looks: Looks) -> None:
    class Another(Frees):
        def decide(self, view: PolicyView) -> Any:
            return replace(super().decide(view), policy="another")

    looks.cluster.moves.clear()
    settings, now = replace(SETTINGS, get_policy=Another), NOW
    for number in range(1, 6):
        looks.show(number, NOW, BOB)
    looks.cluster.jobs = [one for shown in looks.shown.values() for one in shown]
    queue = looks.cluster.fetch_queue()
    with looks.store.begin() as tx:
        link_sync.sync_links(tx, 1, link_sync.list_marked_jobs(queue), NOW)
    provision_handovers(looks.store, looks.cluster, 1, Snapshot(queue=queue, nodes=()), settings)
    assert len(looks.cluster.moves) == 5
    for number in range(1, 6):
        looks.start(number, now + DAY, now, BOB)
    looks.tick(now + DAY)
    assert looks.told(DEMOTED) == []
