"""What a rehearsal plays on: which part of a load holds hand-overs, and what is refused."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mirage.errors import InputError
from mirage.history.cluster_files.reader import load_cluster_params
from mirage.lab.demo import policy_comparison
from mirage.lab.demo.comparison_plan import WARM_UP_DAYS, ComparisonPlan
from mirage.lab.demo.scenario import Scenario, add_nodes, build_scenario, choose_window
from mirage.simulator.simulator import Simulator
from mirage.simulator.types import NodeGroup, Params, Partition, SimJob

FIRST = datetime(2026, 1, 5, 0, 0, 30, tzinfo=UTC)
PLAN = ComparisonPlan(policies=("reactive", "average"), time_limit_s=48 * 3600)


def stage(*, days: float, nodes: int = 4) -> Scenario:
    """A load whose first and last job lie so far apart."""
    ends = (FIRST, FIRST + timedelta(days=days))
    jobs = [
        SimJob(job_id=i, submit=int(at.timestamp()), time_limit_s=60, run_s=60)
        for i, at in enumerate(ends, start=1)
    ]
    return Scenario(Params(name="lab", nodes=nodes), jobs)


def given(days: float) -> datetime:
    """As the command line parses it: without a zone."""
    return (FIRST + timedelta(days=days)).replace(tzinfo=None)


def days_of(instants: tuple[int, int]) -> tuple[float, float]:
    start, stop = ((at - FIRST.timestamp()) / 86400 for at in instants)
    return start, stop


def test_the_warm_up_is_left_out_and_nothing_is_played_after_the_load() -> None:
    assert days_of(choose_window(stage(days=40), PLAN, None, None)) == (WARM_UP_DAYS, 40)
    far = WARM_UP_DAYS + PLAN.longest_s / 86400
    assert days_of(choose_window(stage(days=400), PLAN, None, None)) == (WARM_UP_DAYS, far)


def test_what_is_given_is_taken_to_the_ends_of_the_load() -> None:
    assert days_of(choose_window(stage(days=400), PLAN, given(0), given(400))) == (0, 400)
    assert days_of(choose_window(stage(days=40), PLAN, given(20), given(60))) == (20, 40)


@pytest.mark.parametrize(
    ("begin", "until", "sentence"),
    [
        (-1e-5, None, "--from 2026-01-05 00:00:29 lies outside the load"),
        (40.5, None, "--from 2026-02-14 12:00:30 lies outside the load"),
        (40.5, None, "choose an instant from 2026-01-05 00:00:30 to 2026-02-14 00:00:30 (UTC)"),
        (20, 19, "--until 2026-01-24 00:00:30 must lie after 2026-01-25 00:00:30"),
        (20, 20, "--until 2026-01-25 00:00:30 must lie after 2026-01-25 00:00:30"),
        (None, 10, "--until 2026-01-15 00:00:30 must lie after 2026-01-19 00:00:30"),
        (20, 22, "no hand-over fits: the first chains are submitted at 2026-01-25 00:00:30"),
        (38, None, "the end is at 2026-02-14 00:00:30, and one link takes 48 h"),
    ],
)
def test_instants_of_which_no_handover_can_come(
    begin: float | None, until: float | None, sentence: str
) -> None:
    instants = (None if at is None else given(at) for at in (begin, until))
    with pytest.raises(InputError) as refusal:
        choose_window(stage(days=40), PLAN, *instants)
    assert sentence in str(refusal.value)


def test_a_second_more_than_one_link_is_not_refused() -> None:
    until = given(22) + timedelta(seconds=1)
    assert days_of(choose_window(stage(days=40), PLAN, given(20), until))[0] == 20


def test_a_load_shorter_than_the_warm_up_needs_an_earlier_start() -> None:
    with pytest.raises(InputError, match=r"no hand-over fits.* Choose an earlier --from"):
        choose_window(stage(days=10), PLAN, None, None)
    assert days_of(choose_window(stage(days=10), PLAN, given(1), None)) == (1, 10)


def test_links_have_at_most_the_nodes_of_the_cluster() -> None:
    plan = ComparisonPlan(policies=("reactive",), nodes=4)
    assert choose_window(stage(days=40, nodes=4), plan, None, None)
    with pytest.raises(InputError, match="--nodes 4 is too many: cluster lab has 3 nodes"):
        choose_window(stage(days=40, nodes=3), plan, None, None)


@pytest.mark.parametrize(("preset", "seed"), [("heavy", None), (None, 1)])
def test_a_replay_takes_no_option_of_a_synthetic_load(preset: str | None, seed: int | None) -> None:
    with pytest.raises(InputError, match="or the other two"):
        build_scenario(preset, seed, Path("jobs.parquet"), Path("lab.toml"), load_cluster_params)


def test_forerunners_keep_the_chains_nodes_whatever_a_user_may_run() -> None:
    jobs = [SimJob(job_id=1, submit=0, time_limit_s=3600, run_s=3600)]
    before = policy_comparison.build_placeholder_jobs(PLAN, jobs, start=7 * 86400)
    simulator = Simulator(Params(nodes=100, max_jobs_pu=1), [*before, *jobs])
    simulator.advance(60)
    running = {record.job_id for record in simulator.list_running()}
    assert len(before) > 1
    assert {job.job_id for job in before} <= running


def test_the_room_for_the_chains_is_in_the_default_partition_alone() -> None:
    partitions = (Partition(nodes=(0, 1), max_time_s=60), Partition(name="gpu", nodes=(1, 2)))
    groups = (NodeGroup(count=1, cpus=8), NodeGroup(count=2, cpus=64))
    roomy = add_nodes(Params(nodes=3, partitions=partitions, node_groups=groups), 2)
    assert roomy.nodes == sum(group.count for group in roomy.node_groups) == 5
    assert [p.nodes for p in roomy.partitions] == [(0, 1, 3, 4), (1, 2)]
    assert roomy.partitions[0].max_time_s == 0
    assert add_nodes(Params(nodes=3), 2) == Params(nodes=5)
