"""Which pair is put into the replay: its partition, QOS, user and nodes, and what it knows."""

from dataclasses import replace

import pytest

from mirage.errors import InputError
from mirage.judging.table.pair_settings import (
    PAIR_USER,
    build_pair_job,
    check_account,
    find_account,
)
from mirage.lab.episodes.generation.replay import TraceReplay
from mirage.observation import spec
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import (
    NodeEvent,
    NodeGroup,
    Outage,
    Params,
    Partition,
    Qos,
    Reservation,
    SelectType,
    SimJob,
)
from tests.integration.lab.episodes.test_builder import ids, replayed, seen_at, with_pair
from tests.support.episodes import small
from tests.support.episodes.tables import HOUR_S, MONDAY
from tests.support.simulator.views import list_free_nodes

DAY_S = 86400
SHORT = Partition(name="short", nodes=(0, 1), max_time_s=DAY_S)
LONG = Partition(name="long", nodes=(2, 3, 4, 5, 6, 7))
TWO = small.params(
    partitions=(SHORT, LONG),
    qos=(Qos(name="normal"), Qos(name="wide", max_nodes_pu=2), Qos(name="one", max_submit_pu=1)),
)
GPUS = Params(
    nodes=3,
    node_groups=(NodeGroup(count=1, cpus=128), NodeGroup(count=2, cpus=64, gpus=8)),
    select_type=SelectType.CONS_TRES,
    qos=(Qos(max_gpus_pu=10),),
)


def in_turn(seed: int) -> list[SimJob]:
    """A trace whose jobs go to the two partitions, the odd ones by name."""
    jobs = small.trace(seed, load=0.8)
    return [
        replace(job, nodes=min(job.nodes, 2), time_limit_s=min(job.time_limit_s, DAY_S))
        if job.job_id % 2
        else replace(job, nodes=min(job.nodes, 6), partition="long")
        for job in jobs
    ]


@pytest.mark.parametrize(
    ("params", "fields", "said"),
    [
        (TWO, {"nodes": 3}, "3 nodes does not fit partition short of 2"),
        (TWO, {"time_limit_s": 2 * DAY_S}, "2-00:00:00 is over MaxTime=1-00:00:00 of partition"),
        (TWO, {"partition": "gpu"}, "has no partition 'gpu': choose one of short, long"),
        (TWO, {"qos": "gold"}, "has no QOS 'gold': choose one of normal, wide, one"),
        (
            TWO,
            {"partition": "long", "nodes": 3, "qos": "wide"},
            "MaxTRESPU node=2, and a pair takes 3",
        ),
        (TWO, {"qos": "one"}, "QOS one has MaxSubmitJobsPU=1"),
        (GPUS, {"nodes": 3}, "MaxTRESPU gres/gpu=10, and a pair takes 16"),
        (small.params(), {"partition": "long"}, "no partition 'long': choose one of batch"),
        (small.params(), {"qos": "high"}, "no QOS 'high': choose one of normal"),
    ],
)
def test_a_pair_that_slurm_would_refuse_is_bad_input(
    params: Params, fields: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        small.settings(**fields).check_feasible(params)


def test_a_pair_that_fits_the_partition_it_names_is_taken() -> None:
    small.settings(partition="long", nodes=6, time_limit_s=2 * DAY_S).check_feasible(TWO)
    small.settings(partition="long", nodes=2, qos="wide").check_feasible(TWO)
    small.settings(nodes=2).check_feasible(GPUS)


@pytest.mark.parametrize("partition", ["", "long"])
def test_the_pair_lives_in_its_partition(partition: str) -> None:
    jobs, settings = in_turn(1), small.settings(partition=partition, every_s=10 * HOUR_S)
    table = small.build_episodes(TWO, jobs, settings)
    assert table.metadata.partition == partition
    place = 1 if partition else 0
    members = set(TWO.partitions[place].nodes)
    seen_rivals = 0
    for i in range(len(table)):
        for k in (0, 5, 11):
            sim = with_pair(TWO, jobs, settings, table, i)
            assert replayed(sim, jobs, table, i, k) == table.outcome_s[i, k]
            record = sim.find(ids(jobs)[0])
            assert record is not None
            assert set(record.allocated) <= members
            sim = with_pair(TWO, jobs, settings, table, i)
            seen = seen_at(sim, jobs, settings, table, i, k)
            assert seen.tolist() == table.observations[i, k].tolist()
            line = [
                r
                for r in sim.list_pending()
                if r.eligible is not None and r.job.partition == partition and r.job.nodes <= 1
            ]
            assert table.rivals[i, k] == len(line)
            assert table.free_nodes[i, k] == len(members & set(list_free_nodes(sim)))
            seen_rivals += len(line)
        waits = table.get_started_jobs(i)
        mine = [j for j in jobs if j.partition == partition]
        assert len(waits.at) <= len(mine) + 2
    assert seen_rivals


def test_a_pair_has_the_fair_share_and_the_limits_of_a_user_of_the_trace() -> None:
    jobs = small.trace(1)
    fair = small.params(priority_weight_fairshare=100_000, max_jobs_pu=1)
    own, real = small.settings(), small.settings(user="u1")
    assert build_pair_job(own).user == PAIR_USER
    table = small.build_episodes(fair, jobs, real)
    assert table.metadata.user == "u1"
    for i in range(len(table)):
        sim = with_pair(fair, jobs, real, table, i)
        assert replayed(sim, jobs, table, i, 3) == table.outcome_s[i, 3]
    assert (small.build_episodes(fair, jobs, own).outcome_s != table.outcome_s).any()


def test_a_user_at_the_limit_of_submitted_jobs_gives_no_episode() -> None:
    crowd = [
        SimJob(job_id=i, submit=MONDAY, time_limit_s=30 * DAY_S, run_s=30 * DAY_S, user="u")
        for i in (1, 2)
    ]
    site = small.params(qos=(Qos(max_submit_pu=2),))
    table = small.build_episodes(site, crowd, small.settings(user="u"))
    assert (len(table), table.metadata.left_out) == (0, 4)
    assert len(small.build_episodes(site, crowd, small.settings())) == 4


def test_the_account_is_the_user_s_own() -> None:
    names = (("ann", "a"), ("bob", "a"), ("bob", "b"))
    jobs = [SimJob(user=u, account=a, time_limit_s=60, run_s=60) for u, a in names]
    assert find_account(jobs, "ann") == "a"
    with pytest.raises(InputError, match="'bob' has jobs in a, b: name the account"):
        find_account(jobs, "bob")
    with pytest.raises(InputError, match="the trace has no job of user 'eve'"):
        find_account(jobs, "eve")
    check_account(jobs, "bob", "b")
    check_account(jobs, "", "b")
    with pytest.raises(InputError, match="the trace has no job of user 'ann' in account 'b'"):
        check_account(jobs, "ann", "b")


def test_whole_nodes_are_whole_on_unequal_nodes() -> None:
    """Nobody has a core beside the pair, however large the node is that it was given."""
    job = build_pair_job(small.settings())
    sim = Simulator(GPUS, [replace(job, job_id=1, submit=1)], now=0)
    sim.advance(200)
    assert [sim.get_node_use(n)[0] for n in range(3)].count(0) == 2
    crumbs = [
        SimJob(job_id=i, submit=1 + i, cpus=1, time_limit_s=60, run_s=60, user=f"u{i}")
        for i in range(2, 40)
    ]
    sim = Simulator(GPUS, [replace(job, job_id=1, submit=1), *crumbs], now=0)
    sim.advance(HOUR_S // 2)
    pair = sim.find(1)
    assert pair is not None
    others = {sim.find(c.job_id) for c in crumbs}
    assert all(r is not None and not set(r.allocated) & set(pair.allocated) for r in others)


def test_the_observed_successor_asks_for_whole_nodes_as_the_pair_does() -> None:
    worlds = TraceReplay(GPUS, [], small.settings())
    world, _ = worlds.fork_at(small.START_POINT)
    assert world is not None
    asked = world.build_handover_input(worlds.link, small.START_POINT).build_successor(world.start)
    assert asked == replace(worlds.link, submit=world.start)


def test_a_node_that_is_lost_later_is_not_known_before() -> None:
    jobs, settings = small.trace(1), small.settings(nodes=2, every_s=20 * HOUR_S)
    table = small.build_episodes(small.params(), jobs, settings)
    before = 6
    lost = int(table.instants[0, before]) + 1
    events = (
        NodeEvent(lost, 0, Outage.DRAIN),
        NodeEvent(lost, 1, Outage.DRAIN),
        NodeEvent(lost + 20 * DAY_S, 0, Outage.RESUME),
        NodeEvent(lost + 20 * DAY_S, 1, Outage.RESUME),
    )
    other = small.build_episodes(small.params(node_events=events), jobs, settings)
    for name in ("observations", "rivals", "rivals_planned_s", "free_nodes"):
        early = [getattr(t, name)[0, : before + 1].tolist() for t in (table, other)]
        assert early[0] == early[1], name
        late = [getattr(t, name)[0, before + 1 :].tolist() for t in (table, other)]
        assert name == "rivals_planned_s" or late[0] != late[1], name


def test_a_reservation_of_the_cluster_file_is_known_from_the_first_instant() -> None:
    """Plans go round it, as Slurm's do: it is announced, not a surprise."""
    begins = small.START_POINT + 90 * 60
    kept = Reservation(start=begins, end=begins + 6 * HOUR_S)
    settings = small.settings(every_s=20 * HOUR_S, time_limit_s=HOUR_S)
    gap = spec.PLACES["plan_wait"]
    plain = small.build_episodes(small.params(), [], settings)
    told = small.build_episodes(small.params(reservations=(kept,)), [], settings)
    assert told.predecessor_end[0] < begins
    assert told.observations[0, 3, gap] > plain.observations[0, 3, gap] + 1
