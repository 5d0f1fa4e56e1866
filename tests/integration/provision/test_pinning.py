"""Pinned standbys, from the rule to the simulated cluster."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mirage.database.chains.decisions import Effect
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import Position
from mirage.domain.decision import Action, Mode
from mirage.domain.job import JobId, JobState
from mirage.domain.snapshot import Queue
from mirage.errors import ClusterRefused, ClusterUnavailable, UnreadableAnswer
from mirage.policies import registry
from mirage.provision.cluster_observer import Observer
from mirage.provision.control.limits import Limits
from mirage.simulator.types import Outage
from mirage.twin.cache import TwinCache
from tests.support.cluster.nodes import set_node_outage
from tests.support.provision.scene import HOUR, FailingCluster, Scene
from tests.support.slurm.printed_jobs import reread_queue_job


def scene(store: Store, policy: str = "pin", limits: Limits | None = None) -> Scene:
    made = Scene(store, policies=lambda _: registry.get_policy(policy), limits=limits)
    made.tick()
    return made


def names(made: Scene) -> list[str]:
    """Of the nodes of link 1, in the order of the queue's own list."""
    return made.job(1).node_list.split(",")


def told(made: Scene) -> list[Action]:
    return [row.action for row in made.decisions if row.effect.value == "done"]


def shows(made: Scene, index: int, **fields: Any) -> None:
    """From now on the queue shows that link's job so: of what the simulator does not have."""
    queue, job_id = made.cluster.fetch_queue, made.job(index).job_id

    def otherwise() -> Queue:
        shown = queue()
        rows = (reread_queue_job(job, **fields) if job.job_id == job_id else job for job in shown)
        return Queue.from_jobs(shown.taken_at, rows)

    made.cluster.fetch_queue = otherwise  # type: ignore[method-assign]


def test_it_is_pinned_at_once_and_stays_through_ticks(store: Store) -> None:
    made = scene(store)
    for _ in range(3):
        made.tick()
    assert made.standby.position is Position.PINNED
    assert made.standby.freed_at is None
    assert told(made) == [Action.PIN]


def test_it_starts_on_its_predecessors_node_as_that_ends(store: Store) -> None:
    made = scene(store)
    before = made.job(1)
    made.tick(HOUR - 60)
    after = made.job(2)
    assert after.state is JobState.RUNNING
    assert after.node_list == before.node_list
    assert after.start == made.job(1).end


def test_a_node_that_drains_unpins_it_at_once(store: Store) -> None:
    made = scene(store)
    set_node_outage(made.cluster, names(made)[0], Outage.DRAIN)
    made.tick(120)
    assert made.standby.position is Position.HELD
    assert made.held
    assert told(made) == [Action.PIN, Action.HOLD]


def test_behind_a_requeued_predecessor_it_is_held_again(store: Store) -> None:
    """Their node went down."""
    made = scene(store)
    set_node_outage(made.cluster, names(made)[0], Outage.DOWN)
    made.tick(60)
    assert made.job(1).state is JobState.PENDING
    assert made.standby.position is Position.HELD


def test_what_its_predecessor_leaves_pinned_is_freed(store: Store) -> None:
    """Their node drained while the service was away; on the other one somebody runs for longer."""
    made = scene(store)
    theirs = names(made)
    set_node_outage(made.cluster, theirs[0], Outage.DRAIN)
    made.tick(HOUR)
    assert told(made) == [Action.PIN, Action.FREE]
    made.tick(HOUR)
    assert made.job(2).state is JobState.RUNNING
    assert made.job(2).node_list.split(",") != theirs


def test_an_admin_forbids_pinning(store: Store) -> None:
    made = scene(store, limits=Limits(allow_pin=False))
    assert made.standby.position is Position.HELD
    assert "may not be pinned" in made.decisions[-1].reason


def test_moves_of_one_hand_over_are_capped(store: Store) -> None:
    """A node that comes and goes: each pin keeps one move back for its undoing."""
    made = scene(store, limits=Limits(max_touches=4))
    node = names(made)[0]
    for outage in (Outage.DRAIN, Outage.RESUME) * 4:
        set_node_outage(made.cluster, node, outage)
        made.tick(120)
    assert told(made) == [Action.PIN, Action.HOLD, Action.PIN, Action.HOLD]
    assert made.held


def test_a_link_with_room_beside_its_predecessor_is_not_pinned(store: Store) -> None:
    made = Scene(store, policies=lambda _: registry.get_policy("pin"))
    snapshot = made.cluster.fetch_nodes()
    node = next(n for n in snapshot if n.name == names(made)[0])
    roomy = replace(node, cpus=4 * node.cpus, gpus=4 * node.gpus)
    made.cluster.fetch_nodes = lambda: tuple(roomy if n is node else n for n in snapshot)  # type: ignore[method-assign]
    made.tick()
    assert made.standby.position is Position.HELD


def test_a_restart_knows_that_it_is_pinned(store: Store) -> None:
    made = scene(store)
    made.worker = made.new_worker()
    made.cluster._pinned.clear()
    made.tick()
    assert made.standby.position is Position.PINNED
    assert told(made) == [Action.PIN]


def test_a_users_own_nodes_stay_though_the_service_wants_to_pin(store: Store) -> None:
    """Also after a restart, and once its predecessor has ended."""
    made = Scene(store, policies=lambda _: registry.get_policy("pin"))
    standby = made.job(2).job_id
    own = [node.name for node in made.cluster.fetch_nodes()].index(names(made)[0])
    made.cluster.simulator.set_node_list(standby, [own])
    for worker in (made.worker, made.new_worker()):
        made.worker = worker
        made.tick()
        assert made.standby.position is Position.HELD
    (row,) = [row for row in made.decisions if row.action is Action.PIN]
    assert row.effect is Effect.REFUSED
    assert f"asks for nodes itself ({names(made)[0]})" in row.error
    made.tick(HOUR - 60)
    assert made.job(2).state is JobState.RUNNING
    assert made.job(2).node_list == made.job(1).node_list
    assert told(made) == []


def test_it_is_let_off_nodes_that_do_not_have_what_it_asks_for(store: Store) -> None:
    made = scene(store)
    assert made.standby.position is Position.PINNED
    shows(made, 2, reason="BadConstraints")
    made.tick()
    assert told(made) == [Action.PIN, Action.HOLD]
    assert made.held


def test_auto_pins_and_says_why(store: Store) -> None:
    made = scene(store, "auto")
    before = made.job(1)
    made.tick(HOUR - 60)
    assert told(made) == [Action.PIN]
    row = next(row for row in made.decisions if row.action is Action.PIN)
    assert row.policy == "auto"
    assert row.reason.startswith("pin-then-free decides, since the standby may be pinned: ")
    assert (made.job(2).start, made.job(2).node_list) == (made.job(1).end, before.node_list)


@pytest.mark.parametrize(
    "limits", [Limits(allow_pin=False), Limits(max_touches=1)], ids=["forbidden", "touches"]
)
def test_where_the_admin_forbids_it_auto_asks_its_candidates(store: Store, limits: Limits) -> None:
    made = scene(store, "auto", limits)
    assert made.standby.position is Position.HELD
    assert "quantile decides, since " in made.decisions[-1].reason


@pytest.mark.parametrize("twin", [True, False], ids=["the twin is busy", "no twin"])
def test_auto_lets_a_standby_off_a_node_that_drains(store: Store, twin: bool) -> None:
    made = scene(store, "auto")
    busy = Observer(params=made.cluster.params, twin_cache=TwinCache(budget_s=0.0))
    made.settings = replace(made.settings, observer=busy if twin else None)
    made.worker = made.new_worker()
    made.tick()
    set_node_outage(made.cluster, names(made)[0], Outage.DRAIN)
    made.tick(120)
    assert told(made)[0] is Action.PIN
    assert made.standby.position is not Position.PINNED
    assert "quantile decides, since " in made.decisions[-1].reason


def test_limits_do_not_keep_a_standby_on_a_node_that_drains(store: Store) -> None:
    made = scene(store, "auto", Limits(max_lead_s=60))
    set_node_outage(made.cluster, names(made)[0], Outage.DRAIN)
    made.tick(120)
    assert told(made)[0] is Action.PIN
    assert made.held


def test_what_was_pinned_goes_back_where_mirage_acts_no_more(store: Store) -> None:
    made = scene(store, "auto")
    assert made.standby.position is Position.PINNED
    with store.begin() as tx:
        clusters.set_mode(tx, made.cluster_id, Mode.SHADOW)
    made.tick()
    assert made.held
    assert made.decisions[-1].reason == "pinned, and Mirage does not act here any more"
    made.tick()
    assert told(made) == [Action.PIN, Action.HOLD]


@pytest.mark.parametrize("mode", [Mode.ACT, Mode.SHADOW])
def test_what_is_pinned_goes_back_behind_a_suspended_predecessor(store: Store, mode: Mode) -> None:
    """Slurm gives a suspended job's CPUs to others: the standby would start beside it."""
    made = scene(store, "auto")
    shows(made, 1, state=JobState.SUSPENDED)
    with store.begin() as tx:
        clusters.set_mode(tx, made.cluster_id, mode)
    made.tick()
    assert made.held
    made.tick()
    assert told(made) == [Action.PIN, Action.HOLD]


def test_a_pin_that_slurm_refuses_is_not_asked_for_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And stops nothing else: the candidates decide from then on."""
    monkeypatch.setattr(FailingCluster, "pin_standby", _refuse)
    made = scene(store, "auto")
    made.tick(1200)
    refused = [row for row in made.decisions if row.effect is Effect.REFUSED]
    assert [row.action for row in refused] == [Action.PIN]
    assert "quantile decides, since " in made.decisions[-1].reason


def _refuse(*_: object, **__: object) -> None:
    raise ClusterRefused("Access/permission denied")


def test_where_age_always_accrues_auto_leaves_plain_slurm_alone(store: Store) -> None:
    made = Scene(store, policies=lambda _: registry.get_policy("auto"))
    made.settings = replace(made.settings, accrues_always=lambda: True)
    made.worker = made.new_worker()
    made.tick()
    assert made.held
    assert "reactive decides, since a held standby earns age too" in made.decisions[-1].reason


def test_while_nobody_knows_whether_age_accrues_auto_pins(store: Store) -> None:
    def silent() -> bool:
        raise ClusterUnavailable("no answer")

    made = Scene(store, policies=lambda _: registry.get_policy("auto"))
    made.settings = replace(made.settings, accrues_always=silent)
    made.worker = made.new_worker()
    made.tick()
    assert made.standby.position is Position.PINNED


@pytest.mark.parametrize("heard", [True, False], ids=["heard", "not heard"])
def test_a_silent_slurm_is_found_out_by_the_next_queue(
    store: Store, monkeypatch: pytest.MonkeyPatch, heard: bool
) -> None:
    made = Scene(store, policies=lambda _: registry.get_policy("pin"))
    pin = made.cluster.pin_standby

    def silent(standby: JobId, **pinned: Any) -> None:
        if heard:
            pin(standby, **pinned)
        raise ClusterUnavailable("no answer")

    with monkeypatch.context() as patched:
        patched.setattr(made.cluster, "pin_standby", silent)
        made.tick()
    made.tick()
    assert made.standby.position is Position.PINNED
    effects = [row.effect.value for row in made.decisions if row.action is Action.PIN]
    assert effects == (["done"] if heard else ["failed", "done"])


def test_an_end_of_act_lets_it_go_though_the_queue_does_not_read(store: Store) -> None:
    made = scene(store)
    assert told(made) == [Action.PIN]
    with store.begin() as tx:
        clusters.set_mode(tx, made.cluster_id, Mode.SHADOW)
    queue = made.cluster.fetch_queue

    def does_not_read() -> Queue:
        raise UnreadableAnswer("squeue's answer does not read")

    def some(job_ids: Sequence[JobId]) -> Queue:
        shown = queue()
        return Queue.from_jobs(shown.taken_at, (job for job in shown if job.job_id in job_ids))

    made.cluster.fetch_queue = does_not_read  # type: ignore[method-assign]
    made.cluster.fetch_jobs = some  # type: ignore[method-assign]
    made.tick()
    made.cluster.fetch_queue = queue  # type: ignore[method-assign]
    assert told(made) == [Action.PIN, Action.HOLD]
    assert made.standby.position is Position.HELD
    assert made.held
