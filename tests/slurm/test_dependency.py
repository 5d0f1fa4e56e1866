"""Dependency lists: Mirage's own term out and in, the user's part as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.job import JobId
from mirage.errors import InputError, MalformedText
from mirage.slurm.text.dependency import (
    MOST_MINUTES,
    behind,
    has_singleton,
    plain,
    plan_min,
    planned,
    takes_plan,
    waits_on,
    without,
)

PREDECESSOR = JobId(12)
_OTHER_IDS = st.integers(min_value=13, max_value=10**7)
_TERMS = st.builds(
    lambda word, job_id, tail: f"{word}:{job_id}{tail}",
    st.sampled_from(
        ["after", "afterany", "afterok", "afternotok", "aftercorr", "afterburstbuffer"]
    ),
    _OTHER_IDS,
    st.sampled_from(["", "_3", "_*"]),
) | st.just("singleton")
LISTS = st.lists(_TERMS, max_size=5, unique=True).map(",".join)


@given(LISTS)
def test_what_is_put_in_comes_out_and_the_users_part_stays(users: str) -> None:
    held = behind(users, PREDECESSOR)
    assert waits_on(held, PREDECESSOR)
    assert without(held, PREDECESSOR) == users


@given(LISTS)
def test_putting_it_in_or_taking_it_out_twice_is_the_same_as_once(users: str) -> None:
    held = behind(users, PREDECESSOR)
    assert behind(held, PREDECESSOR) == held
    assert without(users, PREDECESSOR) == users


def test_remarks_of_squeue_are_left_out() -> None:
    shown = "afterany:12(unfulfilled),afterok:13(failed),singleton(unfulfilled)"
    assert plain(shown) == "afterany:12,afterok:13,singleton"
    assert without(shown, PREDECESSOR) == "afterok:13,singleton"


def test_a_list_of_its_own_term_alone_becomes_empty() -> None:
    assert without("afterany:12(unfulfilled)", PREDECESSOR) == ""


@pytest.mark.parametrize("nothing", ["", "(null)", " "])
def test_no_dependency(nothing: str) -> None:
    assert plain(nothing) == ""
    assert without(nothing, PREDECESSOR) == ""
    assert behind(nothing, PREDECESSOR) == "afterany:12"


@pytest.mark.parametrize(
    "others", ["afterok:12", "afterany:123", "afterany:112", "afterany:12_1", "after:12+5"]
)
def test_only_the_very_term_is_mirages(others: str) -> None:
    assert not waits_on(others, PREDECESSOR)
    assert without(others, PREDECESSOR) == others


def test_several_jobs_in_a_term_are_taken_apart() -> None:
    assert without("afterany:11:12:13,afterok:5", PREDECESSOR) == (
        "afterany:11,afterany:13,afterok:5"
    )


def test_a_delay_belongs_to_its_term() -> None:
    assert without("after:13+5(unfulfilled),afterany:12(unfulfilled)", PREDECESSOR) == "after:13+5"


def test_taking_a_term_out_of_any_of_a_list_is_refused() -> None:
    with pytest.raises(InputError, match=r"any of its terms: without afterany:12"):
        without("afterany:12(unfulfilled)?afterok:13(unfulfilled)", PREDECESSOR)


def test_adding_a_term_to_any_of_a_list_is_refused() -> None:
    with pytest.raises(InputError, match="afterany:12 cannot be added"):
        behind("afterok:13?afterok:14", PREDECESSOR)


def test_a_list_of_any_without_mirages_term_is_the_users() -> None:
    shown = "afterok:13(unfulfilled)?afterok:14(unfulfilled)"
    assert without(shown, PREDECESSOR) == "afterok:13?afterok:14"


def test_a_singleton_is_seen() -> None:
    assert has_singleton("afterok:3(unfulfilled),singleton(unfulfilled)")
    assert has_singleton("singleton")


@pytest.mark.parametrize(
    "text", ["", "(null)", "afterok:3", "afterok:3?singleton", "rubbish", "singletons"]
)
def test_no_singleton_that_would_hold_a_standby_back(text: str) -> None:
    assert not has_singleton(text)


@pytest.mark.parametrize("text", ["rubbish", "afterany:", "afterany:x", "12", "singleton:1", "a b"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedText, match="not a dependency list"):
        plain(text)


PLANS = [
    "afterany:12(unfulfilled)?after:12+5(unfulfilled)",  # squeue: 22.05, 24.11 and 26.05
    "afterany:12?after:12+5",  # as sbatch and scontrol take it
    "after:12+5(unfulfilled)?afterany:12(unfulfilled)",
]


@pytest.mark.parametrize("shown", PLANS)
def test_a_plan_is_mirages_own_part(shown: str) -> None:
    assert plan_min(shown, PREDECESSOR) == 5
    assert waits_on(shown, PREDECESSOR)
    assert without(shown, PREDECESSOR) == ""
    assert behind(shown, PREDECESSOR) == "afterany:12"
    assert planned(shown, PREDECESSOR, 7) == "afterany:12?after:12+7"


@pytest.mark.parametrize(
    "shown",
    [
        *("", "(null)", "afterany:12(unfulfilled)", "after:12+5(unfulfilled)"),
        "afterany:12(unfulfilled),after:12+5(unfulfilled)",
        "afterany:12(unfulfilled)?after:13+5(unfulfilled)",
        "afterany:13(unfulfilled)?after:13+5(unfulfilled)",
        "afterany:12?after:12+5?afterok:13",
        "afterany:12?after:12+5?after:12+9",
        "afterany:12?afterok:12",
        "afterany:12_*?after:12_*+2",
        *("afterany:12?singleton", "what?is this", "what is this"),
    ],
)
def test_other_lists_are_no_plan(shown: str) -> None:
    assert plan_min(shown, PREDECESSOR) is None


@given(st.integers(min_value=1, max_value=MOST_MINUTES))
def test_a_plan_reads_as_it_was_written(minutes: int) -> None:
    written = planned("afterany:12(unfulfilled)", PREDECESSOR, minutes)
    assert plan_min(written, PREDECESSOR) == minutes
    assert plain(written) == written


@pytest.mark.parametrize("minutes", [-1, 0, MOST_MINUTES + 1])
def test_slurm_would_take_such_a_delay_for_another_one(minutes: int) -> None:
    with pytest.raises(InputError, match="minutes after a start"):
        planned("", PREDECESSOR, minutes)


@pytest.mark.parametrize(
    "users",
    [
        "afterany:12(unfulfilled),afterok:13(unfulfilled)",
        *("afterok:13", "singleton(unfulfilled)", "afterok:13?afterok:14"),
    ],
)
def test_beside_its_owners_terms_no_plan_stands(users: str) -> None:
    assert not takes_plan(users, PREDECESSOR)
    with pytest.raises(InputError, match="terms of its owner's"):
        planned(users, PREDECESSOR, 5)
