"""What the benchmarks of plans call an offence."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.plans_scene import LinkRecord
from benchmarks.plans_watch import (
    ChainSpec,
    compute_time_left,
    find_double_standbys,
    find_early_links,
    find_twin_runs,
    find_two_writers,
    has_ended,
    is_held_by_slurm,
    was_sent_back,
)
from tests.support.handover.scene import ScriptRun

SPEC = ChainSpec(name="a", style="sequential", limit_min=60, links=3)
"""Its links may start a quarter of an hour before their predecessor's end."""
FIRST = LinkRecord(
    chain="c", link=1, job=1, submit=0, eligible=0, start=0, end=3600, limit_s=3600, nodes=1,
    state="TIMEOUT",
)  # fmt: skip


def start_link(link: int, job: int, start: int, end: int, submit: int = 0) -> LinkRecord:
    return replace(FIRST, link=link, job=job, submit=submit, start=start, end=end)


def test_only_a_failed_launch_is_a_hold_that_a_killed_slurmctld_explains() -> None:
    assert is_held_by_slurm("launch failed requeued held")
    assert is_held_by_slurm("launch_failed_requeued_held")
    assert not is_held_by_slurm("JobHeldUser")
    assert not is_held_by_slurm("job requeued in held state")


def test_a_link_within_its_bound_is_no_offence() -> None:
    records = [FIRST, start_link(2, 2, 2700, 6300)]
    assert compute_time_left(records[1], records) == 900
    assert find_early_links(records, SPEC) == []


def test_a_link_that_starts_earlier_than_its_bound_is_told() -> None:
    (told,) = find_early_links([FIRST, start_link(2, 2, 2600, 6300)], SPEC)
    assert told.startswith("too early: link 2 of a (c, job 2) started 1000 s before the end")


def test_a_link_that_starts_after_the_end_is_not_early() -> None:
    assert compute_time_left(start_link(2, 2, 3700, 6300), [FIRST]) == 0


def test_a_link_that_went_back_into_the_queue_is_no_offence() -> None:
    early, again = start_link(2, 2, 1000, 1030), start_link(2, 3, 3600, 7200, submit=1010)
    records = [FIRST, early, again]
    assert was_sent_back(early, records)
    assert not was_sent_back(again, records)
    assert find_early_links(records, SPEC) == []


def test_two_waiting_jobs_of_a_link_are_told_and_two_waiting_links_of_a_chain() -> None:
    chains = {"c": SPEC, "d": SPEC}
    assert find_double_standbys([("c", 2, "2"), ("d", 2, "3")], chains) == []
    assert find_double_standbys([("c", 2, "2"), ("c", 2, "3")], chains) == [
        "a (c): jobs 2 and 3 of links 2 and 2"
    ]
    assert find_double_standbys([("c", 2, "2"), ("c", 3, "3")], chains) != []


def test_a_chain_submitted_as_a_whole_has_many_waiting_links() -> None:
    chains = {"c": replace(SPEC, options=("--mirage-presubmit=all",))}
    assert find_double_standbys([("c", 2, "2"), ("c", 3, "3")], chains) == []
    assert find_double_standbys([("c", 2, "2"), ("c", 2, "3")], chains) != []


def test_a_script_beside_the_one_before_is_two_writers_where_links_are_sequential() -> None:
    ran = [ScriptRun("c", 1, 1, 0, 3600), ScriptRun("c", 2, 2, 3590, None)]
    (told,) = find_two_writers(ran, [FIRST], SPEC)
    assert "link 2 of a began 10 s before the end of link 1" in told
    assert find_two_writers(ran, [FIRST], replace(SPEC, style="concurrent")) == []


def test_a_killed_links_end_is_slurms_word() -> None:
    ran = [ScriptRun("c", 1, 1, 0, None), ScriptRun("c", 2, 2, 3590, None)]
    assert find_two_writers(ran, [replace(FIRST, end=3500)], SPEC) == []


def test_a_link_that_ran_as_two_jobs_is_told() -> None:
    ran = [ScriptRun("c", 2, 2, 0, 10), ScriptRun("c", 2, 3, 20, 30)]
    assert find_two_writers(ran, [], SPEC) == ["two runs: link 2 of a as jobs [2, 3]"]


def test_a_chain_has_ended_once_its_last_links_script_has_begun() -> None:
    assert not has_ended([ScriptRun("c", 2, 2, 0, 10)], SPEC)
    assert has_ended([ScriptRun("c", 3, 3, 20, None)], SPEC)


def test_two_jobs_of_a_link_at_once_are_told_once_one_has_had_time_to_leave() -> None:
    keeps = start_link(2, 2, 1000, 7200)
    comes = start_link(2, 3, 3000, 3060, submit=1010)
    assert find_twin_runs([FIRST, keeps, comes], SPEC) == []
    (told,) = find_twin_runs([FIRST, keeps, replace(comes, end=7000)], SPEC)
    assert told == "two jobs: link 2 of a ran as jobs 2 and 3 at once for 4000 s"
    assert find_twin_runs([FIRST, keeps, start_link(3, 4, 3000, 7000)], SPEC) == []
