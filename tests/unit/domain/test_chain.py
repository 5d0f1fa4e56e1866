"""Chains, links, marks, and the moves they have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.chain import ChainId, ChainState, Link, LinkState, Mark, find_mark
from mirage.domain.chain_cause import Actor, Reason, build_mirage_cause, build_user_cause
from mirage.domain.job import JobId
from mirage.domain.timelimit import UNLIMITED
from mirage.errors import IllegalTransition
from tests.support.chains import make_chain, make_link

_IDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=8, max_size=32)
_INDEXES = st.integers(min_value=1, max_value=999_999)
MARKS = st.builds(lambda c, i: Mark(ChainId(c), i), _IDS, _INDEXES)


@given(MARKS)
def test_a_mark_reads_back_from_a_comment(mark: Mark) -> None:
    assert find_mark(str(mark)) == mark


@given(st.text(), MARKS)
def test_a_mark_is_found_behind_whatever_the_user_wrote(comment: str, mark: Mark) -> None:
    assert find_mark(f"{comment} {mark}") == mark


@given(MARKS, MARKS)
def test_the_last_mark_counts(older: Mark, newer: Mark) -> None:
    assert find_mark(f"{older} {newer}") == newer


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "a user's own words",
        "mirage:short:1",
        "mirage:abcdefgh:0",
        "mirage:abcdefgh:01",
        "mirage:abcdefgh:-1",
        "mirage:ABCDEFGH:1",
        "mirage:abcdefgh:1x",
        "xmirage:abcdefgh:1",
        "mirage:abcdefgh:",
        "mirage:abcdefgh",
        "mirage:abcdefgh:1,more",
    ],
)
def test_what_only_looks_like_a_mark_is_none(comment: str) -> None:
    assert find_mark(comment) is None


@pytest.mark.parametrize("state", [s for s in ChainState if s.is_over])
@pytest.mark.parametrize("target", ChainState)
def test_a_chain_that_is_over_stays_so(state: ChainState, target: ChainState) -> None:
    why = f"{state} already$" if target is state else f"{state}: .* become {target}"
    with pytest.raises(IllegalTransition, match=f"chain abcdefgh is {why}"):
        make_chain(state=state).move_to(target)


@pytest.mark.parametrize("target", [s for s in ChainState if s is not ChainState.ACTIVE])
def test_an_active_chain_pauses_and_ends(target: ChainState) -> None:
    moved = make_chain(state=ChainState.ACTIVE).move_to(target, build_user_cause("alice"))
    assert (moved.state, moved.cause, moved.actor) == (
        target,
        build_user_cause("alice"),
        Actor.USER,
    )


def test_a_paused_chain_goes_on_and_forgets_why_it_was_paused() -> None:
    paused = make_chain(state=ChainState.ACTIVE).move_to(
        ChainState.PAUSED, build_mirage_cause(Reason.FAILED_FAST)
    )
    resumed = paused.move_to(ChainState.ACTIVE)
    assert (resumed.state, resumed.cause, resumed.actor) == (ChainState.ACTIVE, None, None)


def test_pausing_twice_is_refused() -> None:
    with pytest.raises(IllegalTransition):
        make_chain(state=ChainState.PAUSED).move_to(ChainState.PAUSED)


def _make_second_link(state: LinkState = LinkState.PENDING) -> Link:
    return make_link(index=2, job_id=7, submit=100, state=state)


_LEGAL = {
    (LinkState.PENDING, LinkState.RUNNING),
    (LinkState.PENDING, LinkState.ENDED),
    (LinkState.RUNNING, LinkState.ENDED),
    (LinkState.RUNNING, LinkState.PENDING),
}


@given(st.sampled_from(LinkState), st.sampled_from(LinkState))
def test_a_link_makes_the_moves_of_its_table_and_no_other(
    state: LinkState, target: LinkState
) -> None:
    link = _make_second_link(state)
    if state is target:
        assert link.move_to(target) is link
    elif (state, target) in _LEGAL:
        assert link.move_to(target).state is target
    else:
        with pytest.raises(IllegalTransition, match=f"link abcdefgh:2 is {state}"):
            link.move_to(target)


@given(st.lists(st.sampled_from(LinkState), max_size=20))
def test_an_ended_link_never_lives_again(targets: list[LinkState]) -> None:
    link = _make_second_link()
    for target in targets:
        was_over = link.state is LinkState.ENDED
        try:
            link = link.move_to(target)
        except IllegalTransition:
            continue
        assert not was_over or link.state is LinkState.ENDED


def test_the_planned_end_is_the_start_and_the_limit() -> None:
    link = Link(
        chain_id=ChainId("abcdefgh"),
        index=1,
        job_id=JobId(7),
        submit=100,
        start=1000,
        time_limit_s=3600,
    )
    assert link.get_planned_end() == 4600


@pytest.mark.parametrize(("start", "limit"), [(None, 60), (100, None), (100, UNLIMITED)])
def test_there_is_no_planned_end_without_start_or_limit(
    start: int | None, limit: int | None
) -> None:
    link = Link(
        chain_id=ChainId("abcdefgh"),
        index=1,
        job_id=JobId(7),
        submit=1,
        start=start,
        time_limit_s=limit,
    )
    assert link.get_planned_end() is None
