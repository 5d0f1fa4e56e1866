"""Episodes against the replay of the whole trace with the pair in it, from its beginning."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import InputError
from mirage.history.cluster_files.reader import load_cluster_params
from mirage.history.workloads.replay import load_workload
from mirage.judging.table.episode_table import EpisodeTable
from mirage.judging.table.pair_settings import PAIR_USER, PairSettings, build_pair_job
from mirage.lab.episodes.generation.builder import EpisodeBuilder, describe_table
from mirage.observation import feature_vector, spec
from mirage.observation.handover_input import HandoverInput
from mirage.observation.running_stats import RunningStats
from mirage.simulator.packing.workload import Workload
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import Params, SimJob, build_afterany
from tests.support.episodes import small
from tests.support.episodes.tables import HOUR_S
from tests.support.paths import SHARED
from tests.support.simulator.views import list_free_nodes

FAR_S = 90 * 86400
FAIR = {"priority_weight_fairshare": 500, "priority_decay_half_life_s": 86400}
SITES = {
    "plain": small.params(),
    "fair share": small.params(**FAIR),
    "accrue": small.params(accrue_always=True),
    "one job a user": small.params(max_jobs_pu=1),
}


def ids(jobs: Sequence[SimJob]) -> tuple[int, int]:
    """The pair's in a replay that has them from the start: the last of all, as injected ones."""
    last = max(job.job_id for job in jobs)
    return last + 1, last + 2


def with_pair(
    params: Params, jobs: Sequence[SimJob], settings: PairSettings, table: EpisodeTable, i: int
) -> Simulator:
    """A simulator at the trace's beginning whose workload has the pair."""
    first, second = ids(jobs)
    job = build_pair_job(settings)
    episode = table.get_episode(i)
    pair = [
        replace(job, job_id=first, submit=episode.start_point),
        replace(
            job,
            job_id=second,
            submit=episode.predecessor_start,
            dependencies=build_afterany(first),
        ),
    ]
    return Simulator(params, Workload.from_jobs(params, [*jobs, *pair]))


def replayed(sim: Simulator, jobs: Sequence[SimJob], table: EpisodeTable, i: int, k: int) -> int:
    """The outcome in seconds where the standby is let go at instant k, without any fork."""
    predecessor, standby = ids(jobs)
    episode = table.get_episode(i)
    instant = int(episode.instants[k])
    if k < len(episode.instants) - 1:
        sim.advance(instant)
        sim.set_dependencies(standby, ())
    start = sim.run_until_started(standby, episode.predecessor_end + FAR_S)
    assert sim.start[sim.workload.job_id == predecessor] == episode.predecessor_start
    assert start is not None
    return start - episode.predecessor_end


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("seed", [1, 2])
def test_outcomes_are_those_of_a_replay_with_the_pair_in_it(site: str, seed: int) -> None:
    params, jobs = SITES[site], small.trace(seed)
    settings = small.settings(nodes=1 + seed)
    table = small.build_episodes(params, jobs, settings)
    accruing = replace(params, accrue_always=True)
    assert len(table) == 4
    for i in range(len(table)):
        for k in range(len(table.instant_s)):
            sim = with_pair(params, jobs, settings, table, i)
            assert replayed(sim, jobs, table, i, k) == table.outcome_s[i, k]
            sim = with_pair(accruing, jobs, settings, table, i)
            assert replayed(sim, jobs, table, i, k) == table.outcome_aged_s[i, k]


def test_the_random_traces_have_both_interruption_and_overlap() -> None:
    table = small.build_episodes(small.params(), small.trace(1), small.settings(nodes=2))
    assert (table.outcome_s > 0).any()
    assert (table.outcome_s < 0).any()
    assert (table.outcome_aged_s <= table.outcome_s).mean() > 0.9
    assert (table.outcome_aged_s < table.outcome_s).any()


def test_instants_are_every_ten_minutes_and_the_end() -> None:
    table = small.build_episodes(small.params(), small.trace(1), small.settings(time_limit_s=1500))
    assert table.instant_s.tolist() == [0, 600, 1200, 1500]
    assert (table.predecessor_end - table.predecessor_start == 1500).all()
    assert (table.predecessor_start >= table.start_point).all()
    assert table.instants[:, -1].tolist() == table.predecessor_end.tolist()


def test_where_age_counts_from_submission_anyhow_both_outcomes_are_one() -> None:
    table = small.build_episodes(SITES["accrue"], small.trace(3), small.settings())
    assert (table.outcome_s == table.outcome_aged_s).all()


def test_a_limit_of_one_job_leaves_no_overlap() -> None:
    table = small.build_episodes(
        small.params(max_jobs_pu=1), small.trace(2, load=0.3), small.settings()
    )
    assert (table.outcome_s >= 0).all()


def test_an_empty_machine_starts_the_successor_at_once() -> None:
    table = small.build_episodes(small.params(), [], small.settings(every_s=20 * HOUR_S))
    left_s = 2 * HOUR_S - table.instant_s
    assert (table.predecessor_start == table.start_point).all()
    # Within the scheduler's interval: the standby is let go between two passes.
    assert (np.abs(table.outcome_s[0] + left_s) <= 30).all()
    # At the end Slurm has let the standby go, and it runs.
    assert (table.free_nodes == 7).all()
    assert (table.rivals == 0).all()


def test_blocks_of_one_builder_are_the_rows_of_one_pass() -> None:
    params, jobs, settings = small.params(), small.trace(4), small.settings()
    whole = small.build_episodes(params, jobs, settings)
    builder = EpisodeBuilder(params, jobs, settings)
    late = builder.build_table(settings.start_points[2:], describe_table(params, settings))
    assert late.start_point.tolist() == whole.start_point[2:].tolist()
    assert (late.outcome_s == whole.outcome_s[2:]).all()
    assert (late.observations == whole.observations[2:]).all()
    assert late.get_started_jobs(0).at.tolist() == whole.get_started_jobs(2).at.tolist()


def test_observations_are_those_of_the_replay_with_the_pair_in_it() -> None:
    """The memory is fed from the trace's beginning; here by the records, not by events."""
    params, jobs, settings = small.params(), small.trace(5), small.settings(nodes=2)
    table = small.build_episodes(params, jobs, settings)
    for i in range(len(table)):
        for k in (0, 5, 12):
            sim = with_pair(params, jobs, settings, table, i)
            seen = seen_at(sim, jobs, settings, table, i, k)
            assert seen.tolist() == table.observations[i, k].tolist()


def seen_at(
    sim: Simulator,
    jobs: Sequence[SimJob],
    settings: PairSettings,
    table: EpisodeTable,
    i: int,
    k: int,
) -> np.ndarray:
    predecessor, standby = ids(jobs)
    episode = table.get_episode(i)
    now = int(episode.instants[k])
    sim.advance(now)
    memory = remembered(sim, [*(j.job_id for j in jobs), predecessor, standby], now)
    link = HandoverInput(
        nodes=settings.nodes,
        time_limit_s=settings.time_limit_s,
        user=PAIR_USER,
        partition=settings.partition,
        job_id=standby,
        submit=episode.predecessor_start,
        predecessor_submit=episode.start_point,
        predecessor_start=episode.predecessor_start,
        predecessor_end=episode.predecessor_end,
    )
    return feature_vector.observe_simulator(sim, link, memory)


def remembered(sim: Simulator, job_ids: Sequence[int], now: int) -> RunningStats:
    memory = RunningStats()
    happened = []
    for job_id in job_ids:
        record = sim.find(job_id)
        if record is None or record.submit > now:
            continue
        happened.append((record.submit, 1, job_id, record))
        if record.start is not None:
            happened.append((record.start, 2, job_id, record))
        if record.start is not None and record.end is not None and record.end <= now:
            happened.append((record.end, 0, job_id, record))
    for at, what, _, record in sorted(happened, key=lambda h: h[:3]):
        job = record.job
        limit_s = job.time_limit_s
        if what == 1:
            memory.record_submit(at, nodes=job.nodes, time_limit_s=limit_s, user=job.user)
        elif what == 2:
            wait_s = at - (record.eligible or record.submit)
            memory.record_start(at, wait_s=wait_s, nodes=job.nodes, time_limit_s=limit_s)
        else:
            memory.record_end(run_s=at - (record.start or at), time_limit_s=limit_s, user=job.user)
    return memory


def other_future(
    params: Params,
    jobs: Sequence[SimJob],
    settings: PairSettings,
    table: EpisodeTable,
    i: int,
    k: int,
) -> list[SimJob]:
    """The trace with all that a log would tell only after the instant made otherwise."""
    now = int(table.instants[i, k])
    sim = with_pair(params, jobs, settings, table, i)
    sim.advance(now)
    draw = np.random.default_rng(k)
    changed = []
    for job in jobs:
        record = sim.find(job.job_id)
        if job.submit > now or record is None:
            if draw.random() < 0.5:
                changed.append(replace(job, nodes=1, user="new", run_s=30, cancel_at=None))
        elif record.end is not None:
            changed.append(job)
        else:
            ran_s = 0 if record.start is None else now - record.start
            run_s = ran_s + 1 + int(draw.integers(0, 20000))
            changed.append(replace(job, run_s=run_s, cancel_at=later(job.cancel_at, draw)))
    return changed


def later(cancel_at: int | None, draw: np.random.Generator) -> int | None:
    return None if cancel_at is None else cancel_at + int(draw.integers(0, 5000))


@pytest.mark.parametrize("seed", [1, 6])
def test_nothing_after_the_instant_is_in_what_is_known_at_it(seed: int) -> None:
    params, jobs = small.params(), small.trace(seed, load=1.2)
    settings = small.settings(nodes=2, every_s=10 * HOUR_S)
    table = small.build_episodes(params, jobs, settings)
    outcomes_changed = 0
    for i in range(len(table)):
        for k in (0, 4, 8, 11):
            changed = other_future(params, jobs, settings, table, i, k)
            point = int(table.start_point[i])
            alone = replace(settings, since=point, until=point + 1)
            other = small.build_episodes(params, changed, alone)
            known = slice(0, k + 1)
            for name in ("observations", "rivals", "rivals_planned_s", "free_nodes"):
                before, after = getattr(table, name)[i, known], getattr(other, name)[0, known]
                assert before.tolist() == after.tolist(), (name, i, k)
            now = int(table.instants[i, k])
            assert known_waits(table, i, now) == known_waits(other, 0, now)
            outcomes_changed += int((table.outcome_s[i] != other.outcome_s[0]).any())
    # Or the future would not have been another.
    assert outcomes_changed > 4


def known_waits(table: EpisodeTable, i: int, now: int) -> list[tuple[int, int]]:
    started = table.get_started_jobs(i)
    rows = started.at <= now
    return list(zip(started.at[rows].tolist(), started.wait_s[rows].tolist(), strict=True))


def test_what_rules_read_is_what_the_simulator_shows() -> None:
    params, jobs, settings = small.params(), small.trace(7, load=1.3), small.settings(nodes=2)
    table = small.build_episodes(params, jobs, settings)
    planned = 0
    for i in range(len(table)):
        for k in range(len(table.instant_s) - 1):
            sim = with_pair(params, jobs, settings, table, i)
            sim.advance(int(table.instants[i, k]))
            plans = sim.compute_planned_starts()
            line = [r for r in sim.list_pending() if r.eligible is not None and r.job.nodes <= 2]
            starts = [plans[r.job_id] - sim.now for r in line if r.job_id in plans]
            assert table.rivals[i, k] == len(line)
            assert table.rivals_planned_s[i, k] == max(starts, default=-1)
            assert table.free_nodes[i, k] == len(list_free_nodes(sim))
            planned += bool(starts)
    assert planned > 10


def test_a_table_says_what_it_was_made_from() -> None:
    params, settings = small.params(), small.settings()
    metadata = small.build_episodes(params, small.trace(1), settings).metadata
    assert metadata.features == spec.FEATURE_NAMES
    assert metadata.features_fingerprint == spec.FINGERPRINT
    assert metadata.cluster["max_jobs_pu"] == 3
    assert (metadata.since, metadata.until) == (settings.since, settings.until)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"nodes": 9}, "9 nodes does not fit partition batch of 8"),
        ({"nodes": 0}, "does not fit"),
        ({"time_limit_s": 0}, "at least 1 s"),
        ({"every_s": 0}, "at least 1 s"),
        ({"until": small.START_POINT}, "no start point"),
    ],
)
def test_a_pair_that_cannot_be_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        small.build_episodes(small.params(), small.trace(1), small.settings(**fields))


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the traces are not there (../shared)")
def test_outcomes_on_lonestar6_are_those_of_whole_replays() -> None:
    params = load_cluster_params(SHARED / "clusters/ls6.toml")
    jobs = load_workload(SHARED / "traces/tacc-ls6-a100.parquet", params).jobs
    monday = 1_676_246_400  # 2023-02-13
    settings = PairSettings(
        nodes=8, time_limit_s=48 * HOUR_S, every_s=36 * HOUR_S, since=monday, until=monday + 2**17
    )
    table = small.build_episodes(params, jobs, settings)
    assert len(table) == 2
    for i, k in ((0, 0), (0, 100), (0, 270), (0, 288), (1, 30), (1, 200), (1, 285), (1, 288)):
        sim = with_pair(params, jobs, settings, table, i)
        assert replayed(sim, jobs, table, i, k) == table.outcome_s[i, k]
