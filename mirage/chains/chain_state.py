"""Judges a chain by its links: it goes on, is at risk, is paused or has ended.

Nothing here sends a command to Slurm. Each link has guards of its own (slurm_plugin), which end the
link or pause the chain. This module has the same guards for links whose own guards did not work. It
reads the links' state from queue and accounting, so it acts later than they do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile, zip_longest
from typing import NamedTuple

from mirage.chains import link_risks
from mirage.chains.standby_position import GRACE_S
from mirage.domain import script_turns
from mirage.domain.chain import Chain, ChainMode, ChainState, Link, LinkState, Presubmit
from mirage.domain.chain_cause import Actor, Cause, ChainRisk, Reason, Risk, build_mirage_cause
from mirage.domain.job import JobState

NEVER_SEEN_S = 86400
"""A registration is over if no queue has shown its job for this long: the registration was a
mistake, or was meant for another cluster."""

FORGOTTEN_S = 7 * 86400
"""A link has ended if neither queue nor accounting has shown its job for this long."""

CATCHING_UP_S = 3600
"""If accounting has been read up to an instant longer ago than this, the service was away and
catches up. Accounting may then still tell of later links."""
_WAITS_FOR_HISTORY_S = 86400
"""Seconds after a link was last seen during which the verdict waits for accounting to catch up; not
longer, since a site may have turned accounting off."""

FAILS_FAST_S = 600
"""A link that fails within this time has failed fast; `--mirage-min-runtime` sets another time."""
FAST_FAILURES = 3
"""This many links in a row that failed fast pause the chain. The links' own guard stops at two."""
_FAST_FOR_LINKS = 2
"""The links' own guard ends a link before its script after this many that failed fast."""

BLINK_S = 60
BLINKS = 5
"""This many links in a row that each ran for less than BLINK_S are a loop, however they ended.

The links have this rule themselves (mirage_slurm/carrier/progress.sh), and take their standby back.
A standby that still stands is one of an older plugin's chain: then the service pauses.
"""
_BLINK_SLACK_S = 30
"""Seconds of a job before and after its script, which the links' own rule leaves out."""

_TOTAL_SLACK_S = 60
"""Seconds of each link's run that its own count of `--mirage-total` may lack: it leaves out the
time before the script."""

_WAITING_RISKS = frozenset({Risk.HINDERED, Risk.LATE, Risk.MOVE_REFUSED})
"""Risks of a link that waits, which end when the link starts."""

_FAILED = frozenset({JobState.FAILED, JobState.OUT_OF_MEMORY, JobState.BOOT_FAIL})


class ChainVerdict(NamedTuple):
    """The state that a chain's links call for, why, and what the chain is at risk of."""

    state: ChainState
    cause: Cause | None = None
    at_risk: ChainRisk | None = None


@dataclass(frozen=True)
class _ChainView:
    """A chain at one instant; `links` by index."""

    chain: Chain
    links: Sequence[Link]
    now: int
    history_until: int | None
    foreseen_risk: ChainRisk | None

    @cached_property
    def script_starts(self) -> Mapping[int, int]:
        return script_turns.compute_script_starts(self.chain, self.links)

    @property
    def begun_links(self) -> list[Link]:
        """Return the links whose script has begun; before that a link is still a standby."""
        return [link for link in self.links if link.index in self.script_starts]

    def keep_state(self, finding: ChainRisk | Cause | None = None) -> ChainVerdict:
        """Return a verdict that keeps the chain's state, and a pause's cause.

        `finding` becomes the risk, or the cause, of a chain that is active.
        """
        if self.chain.state is not ChainState.ACTIVE:
            return ChainVerdict(self.chain.state, self.chain.cause)
        if isinstance(finding, Cause):
            return ChainVerdict(self.chain.state, finding)
        return ChainVerdict(self.chain.state, at_risk=finding)

    @property
    def resumed_at(self) -> int:
        return self.chain.resumed_at or 0

    @property
    def fails_fast_s(self) -> int:
        return get_fail_fast_s(self.chain)

    @property
    def proves_s(self) -> int:
        """Return the seconds that a link must run so that it does not count as a failed one."""
        return max(self.fails_fast_s, BLINK_S)

    def compute_run_s(self, link: Link) -> int:
        return max(0, (link.end or self.now) - self.script_starts.get(link.index, 0))

    def compute_ended_run_s(self, link: Link) -> int:
        """Return the seconds that the script of an ended link ran."""
        return max(0, (link.end or 0) - self.script_starts.get(link.index, 0))

    def may_have_gone_on(self, newest: Link) -> bool:
        """Return whether accounting, not read up to now, may tell of a link after this one."""
        if self.history_until is None or self.now - newest.seen_at > _WAITS_FOR_HISTORY_S:
            return False
        return self.now - self.history_until > CATCHING_UP_S

    def has_failed_fast(self, link: Link) -> bool:
        return link.end_state in _FAILED and self.compute_ended_run_s(link) < self.fails_fast_s

    def is_waiting(self, link: Link) -> bool:
        return link.state is LinkState.PENDING or (
            link.state is LinkState.RUNNING and link.index not in self.script_starts
        )

    def sum_runs_s(self) -> int:
        """Return the seconds that the chain's links ran, a running one up to its time limit."""
        return sum(
            max(
                0, (link.end or link.get_planned_end() or self.now) - self.script_starts[link.index]
            )
            for link in self.begun_links
        )


def get_fail_fast_s(chain: Chain) -> int:
    """Return the seconds within which a failing link has failed fast."""
    return FAILS_FAST_S if chain.min_runtime_s is None else chain.min_runtime_s


def judge_chain(
    chain: Chain,
    links: Sequence[Link],
    now: int,
    history_until: int | None = None,
    foreseen_risk: ChainRisk | None = None,
) -> ChainVerdict | None:
    """Return the state that the links call for and why; None if nothing can be concluded yet.

    `links` are sorted by index. `now` is in epoch seconds, and so is `history_until`, up to which
    accounting has been read; None: accounting is not read. `foreseen_risk` is the chain's risk if
    the links show nothing worse (`link_risks.foresee_risks`).
    """
    view = _ChainView(chain, links, now, history_until, foreseen_risk)
    begun_links = view.begun_links
    if not begun_links:
        return _judge_never_started(view)
    newest = begun_links[-1]
    if (cancelled := _find_cancelled_link(view)) is not None:
        cause = build_mirage_cause(Reason.LINK_CANCELLED, cancelled.index, cancelled.job_id)
        return ChainVerdict(ChainState.CANCELLED, cause)
    if chain.links_planned is not None and newest.index >= chain.links_planned:
        have_ended = all(link.state is LinkState.ENDED for link in begun_links)
        finished = ChainVerdict(
            ChainState.FINISHED, build_mirage_cause(Reason.ALL_LINKS_RAN, newest.index)
        )
        return finished if have_ended else _judge_recovery(view, newest) or view.keep_state()
    if chain.state is ChainState.ACTIVE and (pause := _judge_run_in_vain(view)) is not None:
        return pause
    waiting = (li for li in links if li.index > newest.index and view.is_waiting(li))
    standby = next(waiting, None)
    if standby is not None:
        return _judge_recovery(view, newest) or _judge_waiting(view, standby)
    return _judge_without_standby(view, newest)


def _find_cancelled_link(view: _ChainView) -> Link | None:
    """Return the cancelled link that ended its chain; None if there is none.

    The chain goes on if the successor's script already ran beside the cancelled link. If the
    successor waited, or starts later, its guard ends it before the user's script begins. The chain
    also goes on with a link that was submitted after the cancellation: its owner resumed the chain
    (`mirage-link resume`).
    """
    last = view.links[-1]
    for link, successor in zip_longest(view.begun_links, view.begun_links[1:]):
        if link.end_state is not JobState.CANCELLED or _has_run_beside(view, link, successor):
            continue
        if last.index <= link.index or last.submit <= (link.end or link.seen_at):
            return link
    return None


def _has_run_beside(view: _ChainView, link: Link, successor: Link | None) -> bool:
    if successor is None or link.end is None:
        return False
    return view.script_starts[successor.index] < link.end


def _judge_never_started(view: _ChainView) -> ChainVerdict | None:
    """Judge a chain of which no script has begun.

    The chain counts as cancelled only if Slurm says so of its jobs. A job that Slurm no longer
    shows may still exist.
    """
    links = view.links
    if not links and view.now - view.chain.created_at > NEVER_SEEN_S:
        return ChainVerdict(ChainState.FAILED, build_mirage_cause(Reason.NEVER_SEEN))
    have_ended = bool(links) and all(link.state is LinkState.ENDED for link in links)
    if have_ended and links[-1].end_state is not JobState.UNKNOWN:
        return ChainVerdict(ChainState.CANCELLED, build_mirage_cause(Reason.NEVER_STARTED))
    waiting = next((link for link in links if link.state is LinkState.PENDING), None)
    return None if waiting is None else _judge_waiting(view, waiting)


def _judge_waiting(view: _ChainView, standby: Link) -> ChainVerdict:
    if standby.state is LinkState.RUNNING:
        return view.keep_state(_build_wait_cause(view, standby))
    finding = link_risks.find_waiting_risk(standby, view.links)
    if finding is None:
        return view.keep_state(view.foreseen_risk)
    # Mirage lifts the hold of a resumed chain after this look at the queue: it is no risk yet.
    is_held = isinstance(finding, ChainRisk) and finding.word in link_risks.HOLDS
    is_lifted_soon = is_held and view.now - view.resumed_at <= GRACE_S
    return view.keep_state(None if is_lifted_soon else finding)


def _build_wait_cause(view: _ChainView, link: Link) -> Cause:
    awaited = script_turns.find_awaited_links(view.chain, view.links)[link.index]
    detail = f"{awaited.index} {awaited.job_id}"
    return build_mirage_cause(Reason.WAITS_FOR, link.index, link.job_id, detail)


def _judge_run_in_vain(view: _ChainView) -> ChainVerdict | None:
    """Return a pause if the chain's last links ran for nothing, one after the other; else None."""
    if view.compute_run_s(view.begun_links[-1]) >= view.proves_s:
        return None
    ended = [li for li in view.begun_links[::-1] if li.state is LinkState.ENDED]
    failed = [*takewhile(view.has_failed_fast, ended)][:FAST_FAILURES]
    if len(failed) == FAST_FAILURES and _is_since_resumed(view, failed):
        return _pause_for(Reason.FAILED_FAST)
    successor = next((li for li in view.links if ended and li.index > ended[0].index), None)
    goes_on = successor is not None and (
        view.is_waiting(successor) or successor in view.begun_links
    )
    is_loop = goes_on and _is_loop(view, ended, BLINK_S, successor)
    return _pause_for(Reason.BRIEF) if is_loop else None


def _is_loop(
    view: _ChainView, ended: Sequence[Link], under_s: int, successor: Link | None = None
) -> bool:
    """Return whether the last BLINKS links each ran for less than `under_s` seconds.

    `ended` has the newest link first, and `successor` is the link after it. If a link was submitted
    after the end of the link before it, somebody resumed the chain, and it is no loop. With
    presubmit=all, links may be left over when the work is done: each sees that, and ends.
    """
    brief_links: list[Link] = []
    for link in ended[:BLINKS]:
        is_resumed = successor is not None and successor.submit > (link.end or link.seen_at)
        if is_resumed or view.compute_ended_run_s(link) >= under_s:
            return False
        successor = link
        brief_links.append(link)
    is_loop = len(brief_links) == BLINKS and view.chain.presubmit is Presubmit.NEXT
    return is_loop and _is_since_resumed(view, brief_links)


def _pause_for(reason: Reason) -> ChainVerdict:
    return ChainVerdict(ChainState.PAUSED, build_mirage_cause(reason))


def _judge_recovery(view: _ChainView, newest: Link) -> ChainVerdict | None:
    """Return a verdict of an active chain if a link runs in spite of Mirage's pause; else None.

    In mode `shadow` a pause places no hold, so a link may start. The link must have run longer than
    those that caused the pause.
    """
    is_paused = view.chain.state is ChainState.PAUSED and view.chain.actor is Actor.MIRAGE
    runs = newest.state is LinkState.RUNNING and view.compute_run_s(newest) >= view.proves_s
    return ChainVerdict(ChainState.ACTIVE) if is_paused and runs else None


def _is_since_resumed(view: _ChainView, links: Sequence[Link]) -> bool:
    """Return whether all `links` started since the owner last resumed the chain.

    Failures that the owner has seen and answered with a resume do not count against the chain
    again.
    """
    return all((link.start or 0) >= view.resumed_at for link in links)


def _judge_without_standby(view: _ChainView, newest: Link) -> ChainVerdict | None:
    """Judge a chain whose newest link runs or has ended, with no link in the queue behind it."""
    chain, now = view.chain, view.now
    if newest.state is LinkState.RUNNING:
        return _judge_running_alone(view, newest)
    if newest.end_state is JobState.UNKNOWN and now - newest.seen_at <= FORGOTTEN_S:
        unknown = ChainRisk(of=Risk.UNKNOWN, link=newest.index, job_id=newest.job_id)
        return view.keep_state()._replace(at_risk=unknown)
    if now - (newest.end or newest.seen_at) <= GRACE_S or view.may_have_gone_on(newest):
        return None
    if _has_paused_itself(view, newest):
        is_paused = chain.state is ChainState.PAUSED
        return view.keep_state() if is_paused else _pause_for(Reason.TURNED_AWAY)
    if _has_its_total(view):
        total = build_mirage_cause(Reason.TOTAL_RAN, detail=str(view.sum_runs_s()))
        return ChainVerdict(ChainState.FINISHED, total)
    # In a chain that nobody registered, only the links know how many there are. Each link submits
    # the next one when it starts. So a link without a successor is the last one.
    is_known = newest.end_state is not JobState.UNKNOWN
    is_last = chain.links_planned is None and is_known and view.links[-1].index == newest.index
    has_finished = newest.end_state is JobState.COMPLETED or is_last
    end_state = "" if newest.end_state is None else newest.end_state.value
    cause = build_mirage_cause(Reason.LINK_ENDED, newest.index, newest.job_id, end_state)
    return ChainVerdict(ChainState.FINISHED if has_finished else ChainState.FAILED, cause)


def _has_paused_itself(view: _ChainView, newest: Link) -> bool:
    """Return whether the guard of the chain's last link ended that link before its script.

    The guard does so after two links that failed fast. It lets a link run that was submitted after
    those two: the owner has seen the failures. Such a link may be brief as well. After five brief
    links the last one takes its standby back.
    """
    if _is_loop(view, view.begun_links[::-1], BLINK_S + _BLINK_SLACK_S):
        return True
    is_brief = newest.end_state is JobState.COMPLETED and view.compute_ended_run_s(newest) < GRACE_S
    before = view.begun_links[:-1][-_FAST_FOR_LINKS:]
    if not is_brief or len(before) < _FAST_FOR_LINKS:
        return False
    was_queued = newest.submit <= (before[-1].end or newest.submit)
    return was_queued and all(map(view.has_failed_fast, before))


def _has_its_total(view: _ChainView) -> bool:
    total_s = view.chain.total_s
    return (
        total_s is not None
        and view.sum_runs_s() + _TOTAL_SLACK_S * len(view.begun_links) >= total_s
    )


def _judge_running_alone(view: _ChainView, newest: Link) -> ChainVerdict | None:
    if _has_its_total(view):
        return view.keep_state()
    if view.chain.mode is ChainMode.SUBMIT:
        return view.keep_state(view.foreseen_risk)
    # A link that is COMPLETED was ended by its own guard, and another job does its work.
    lost_links = (li for li in view.links if li.has_vanished or _has_failed_waiting(li))
    lost_standby = next((li for li in lost_links if li.index == newest.index + 1), None)
    if lost_standby is not None and (lost_standby.end or lost_standby.seen_at) >= view.resumed_at:
        return _judge_lost_standby(view, newest, lost_standby)
    has_left = any(li.index == newest.index + 1 and _has_just_left(view, li) for li in view.links)
    alone_s = 0 if has_left else view.now - (newest.start or view.now)
    if view.chain.links_planned is not None and alone_s > GRACE_S:
        no_standby = ChainRisk(of=Risk.NO_STANDBY, link=newest.index, job_id=newest.job_id)
        return view.keep_state(no_standby)
    at_risk = view.chain.at_risk
    if at_risk is not None and at_risk.of in _WAITING_RISKS and at_risk.link == newest.index:
        return view.keep_state()  # the link that waited has started
    return None


def _has_just_left(view: _ChainView, link: Link) -> bool:
    """Return whether the next look may show another job in the place of the link's job."""
    return link.end_state is JobState.COMPLETED and view.now - (link.end or 0) <= GRACE_S


def _has_failed_waiting(link: Link) -> bool:
    return link.state is LinkState.ENDED and link.end_state is not JobState.COMPLETED


def _judge_lost_standby(view: _ChainView, newest: Link, lost_standby: Link) -> ChainVerdict:
    """Judge a chain whose standby has gone while its predecessor runs.

    The running link submits another standby once. If that one goes as well, somebody removes the
    standbys on purpose, and the chain is paused.
    """
    index, job_id = lost_standby.index, lost_standby.job_id
    end_state = "" if lost_standby.end_state is None else lost_standby.end_state.value
    was_replaced = lost_standby.replaced_at is not None and lost_standby.replaced_at >= (
        newest.start or 0
    )
    if view.chain.state is ChainState.ACTIVE and was_replaced:
        return ChainVerdict(
            ChainState.PAUSED, build_mirage_cause(Reason.STANDBY_GONE, index, job_id, end_state)
        )
    risk = ChainRisk(of=Risk.VANISHED, link=index, job_id=job_id, detail=end_state)
    return view.keep_state(risk)
