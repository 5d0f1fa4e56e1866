"""Dependency lists: Mirage's own term out and in, the user's part as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.job import JobId
from mirage.errors import InputError, MalformedText
from mirage.slurm.text.dependency import (
    MOST_MINUTES,
    add_own_term,
    can_take_plan,
    find_plan_minutes,
    has_own_term,
    has_singleton,
    normalize_dependency,
    remove_own_term,
    replace_with_plan,
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
    held = add_own_term(users, PREDECESSOR)
    assert has_own_term(held, PREDECESSOR)
    assert remove_own_term(held, PREDECESSOR) == users


@given(LISTS)
def test_putting_it_in_or_taking_it_out_twice_is_the_same_as_once(users: str) -> None:
    held = add_own_term(users, PREDECESSOR)
    assert add_own_term(held, PREDECESSOR) == held
    assert remove_own_term(users, PREDECESSOR) == users


def test_remarks_of_squeue_are_left_out() -> None:
    shown = "afterany:12(unfulfilled),afterok:13(failed),singleton(unfulfilled)"
    assert normalize_dependency(shown) == "afterany:12,afterok:13,singleton"
    assert remove_own_term(shown, PREDECESSOR) == "afterok:13,singleton"


def test_a_list_of_its_own_term_alone_becomes_empty() -> None:
    assert remove_own_term("afterany:12(unfulfilled)", PREDECESSOR) == ""


@pytest.mark.parametrize("nothing", ["", "(null)", " "])
def test_no_dependency(nothing: str) -> None:
    assert normalize_dependency(nothing) == ""
    assert remove_own_term(nothing, PREDECESSOR) == ""
    assert add_own_term(nothing, PREDECESSOR) == "afterany:12"


@pytest.mark.parametrize(
    "others", ["afterok:12", "afterany:123", "afterany:112", "afterany:12_1", "after:12+5"]
)
def test_only_the_very_term_is_mirages(others: str) -> None:
    assert not has_own_term(others, PREDECESSOR)
    assert remove_own_term(others, PREDECESSOR) == others


def test_several_jobs_in_a_term_are_taken_apart() -> None:
    assert remove_own_term("afterany:11:12:13,afterok:5", PREDECESSOR) == (
        "afterany:11,afterany:13,afterok:5"
    )


def test_a_delay_belongs_to_its_term() -> None:
    assert (
        remove_own_term("after:13+5(unfulfilled),afterany:12(unfulfilled)", PREDECESSOR)
        == "after:13+5"
    )


def test_taking_a_term_out_of_any_of_a_list_is_refused() -> None:
    with pytest.raises(InputError, match=r"any of its terms: without afterany:12"):
        remove_own_term("afterany:12(unfulfilled)?afterok:13(unfulfilled)", PREDECESSOR)


def test_adding_a_term_to_any_of_a_list_is_refused() -> None:
    with pytest.raises(InputError, match="afterany:12 cannot be added"):
        add_own_term("afterok:13?afterok:14", PREDECESSOR)


def test_a_list_of_any_without_mirages_term_is_the_users() -> None:
    shown = "afterok:13(unfulfilled)?afterok:14(unfulfilled)"
    assert remove_own_term(shown, PREDECESSOR) == "afterok:13?afterok:14"


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
        normalize_dependency(text)


PLANS = [
    "afterany:12(unfulfilled)?after:12+5(unfulfilled)",  # squeue: 22.05, 24.11 and 26.05
    "afterany:12?after:12+5",  # as sbatch and scontrol take it
    "after:12+5(unfulfilled)?afterany:12(unfulfilled)",
]


@pytest.mark.parametrize("shown", PLANS)
def test_a_plan_is_mirages_own_part(shown: str) -> None:
    assert find_plan_minutes(shown, PREDECESSOR) == 5
    assert has_own_term(shown, PREDECESSOR)
    assert remove_own_term(shown, PREDECESSOR) == ""
    assert add_own_term(shown, PREDECESSOR) == "afterany:12"
    assert replace_with_plan(shown, PREDECESSOR, 7) == "afterany:12?after:12+7"


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
        *("afterany:12?after:12+\u0665", "afterany:\u0661\u0662?after:\u0661\u0662+5"),
        *("afterany:12?singleton", "what?is this", "what is this"),
    ],
)
def test_other_lists_are_no_plan(shown: str) -> None:
    assert find_plan_minutes(shown, PREDECESSOR) is None


@given(st.integers(min_value=1, max_value=MOST_MINUTES))
def test_a_plan_reads_as_it_was_written(minutes: int) -> None:
    written = replace_with_plan("afterany:12(unfulfilled)", PREDECESSOR, minutes)
    assert find_plan_minutes(written, PREDECESSOR) == minutes
    assert normalize_dependency(written) == written


@pytest.mark.parametrize("minutes", [-1, 0, MOST_MINUTES + 1])
def test_slurm_would_take_such_a_delay_for_another_one(minutes: int) -> None:
    with pytest.raises(InputError, match="minutes after a start"):
        replace_with_plan("", PREDECESSOR, minutes)


@pytest.mark.parametrize(
    "users",
    [
        "afterany:12(unfulfilled),afterok:13(unfulfilled)",
        *("afterok:13", "singleton(unfulfilled)", "afterok:13?afterok:14"),
    ],
)
def test_beside_its_owners_terms_no_plan_stands(users: str) -> None:
    assert not can_take_plan(users, PREDECESSOR)
    with pytest.raises(InputError, match="terms of the job's owner"):
        replace_with_plan(users, PREDECESSOR, 5)
