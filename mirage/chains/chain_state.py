"""Judges a chain by its links: it goes on, is at risk, is paused or has ended.

Nothing here sends a command to Slurm. Each link has guards of its own (slurm_plugin), which end the
link or pause the chain. This module has the same guards for links whose own guards did not work. It
sees the links in queue and accounting, and so acts later than they do.
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
"""So long after a link was last seen accounting is waited for: a site may have turned it off."""

FAILS_FAST_S = 600
"""A link that fails within this time has failed fast; `--mirage-min-runtime` sets another time."""
FAST_FAILURES = 3
"""This many links in a row that failed fast pause the chain. The links' own guard stops at two."""
_FAST_FOR_LINKS = 2

BLINK_S = 60
BLINKS = 5
"""This many links in a row that each ran for less than BLINK_S are a loop, however they ended.

The links have this rule themselves (carrier_progress.sh), and take their standby back. A standby
that still stands is one of an older plugin's chain: then the service pauses.
"""
_BLINK_SLACK_S = 30
"""Seconds of a job before and after its script, which the links' own rule leaves out."""

_TOTAL_SLACK_S = 60
"""Seconds of each link's run that its own count of `--mirage-total` may lack: it leaves out the
time before the script."""

_OF_A_WAIT = frozenset({Risk.HINDERED, Risk.LATE, Risk.MOVE_REFUSED})

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
    foreseen: ChainRisk | None

    @cached_property
    def script_starts(self) -> Mapping[int, int]:
        return script_turns.compute_script_starts(self.chain, self.links)

    @property
    def began(self) -> list[Link]:
        """Return the links whose script has begun; before that a link is still a standby."""
        return [link for link in self.links if link.index in self.script_starts]

    def keep_state(self, found: ChainRisk | Cause | None = None) -> ChainVerdict:
        """Return a verdict that keeps the chain's state, and a pause's cause.

        `found` becomes the risk, or the cause, of a chain that is active.
        """
        if self.chain.state is not ChainState.ACTIVE:
            return ChainVerdict(self.chain.state, self.chain.cause)
        if isinstance(found, Cause):
            return ChainVerdict(self.chain.state, found)
        return ChainVerdict(self.chain.state, at_risk=found)

    @property
    def resumed_at(self) -> int:
        return self.chain.resumed_at or 0

    @property
    def fails_fast_s(self) -> int:
        return get_fail_fast_s(self.chain)

    @property
    def proves_s(self) -> int:
        """Return the seconds after which a link has not run in vain."""
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
            for link in self.began
        )


def get_fail_fast_s(chain: Chain) -> int:
    """Return the seconds within which a failing link has failed fast."""
    return FAILS_FAST_S if chain.min_runtime_s is None else chain.min_runtime_s


def judge_chain(
    chain: Chain,
    links: Sequence[Link],
    now: int,
    history_until: int | None = None,
    foreseen: ChainRisk | None = None,
) -> ChainVerdict | None:
    """Return the state that the links call for and why; None if nothing can be concluded yet.

    `links` are sorted by index. `now` is in epoch seconds, and so is `history_until`, up to which
    accounting has been read; None: accounting is not read. `foreseen` is what the chain is at risk
    of if the links show nothing worse (`link_risks.foresee_risks`).
    """
    look = _ChainView(chain, links, now, history_until, foreseen)
    began = look.began
    if not began:
        return _judge_never_started(look)
    newest = began[-1]
    if (cancelled := _find_cancelled_link(look)) is not None:
        cause = build_mirage_cause(Reason.LINK_CANCELLED, cancelled.index, cancelled.job_id)
        return ChainVerdict(ChainState.CANCELLED, cause)
    if chain.links_planned is not None and newest.index >= chain.links_planned:
        over = all(link.state is LinkState.ENDED for link in began)
        done = ChainVerdict(
            ChainState.FINISHED, build_mirage_cause(Reason.ALL_LINKS_RAN, newest.index)
        )
        return done if over else _judge_recovery(look, newest) or look.keep_state()
    if chain.state is ChainState.ACTIVE and (paused := _judge_run_in_vain(look)) is not None:
        return paused
    behind = (li for li in links if li.index > newest.index and look.is_waiting(li))
    standby = next(behind, None)
    if standby is not None:
        return _judge_recovery(look, newest) or _judge_waiting(look, standby)
    return _judge_without_standby(look, newest)


def _find_cancelled_link(look: _ChainView) -> Link | None:
    """The cancelled link that ended its chain, if there is one.

    The chain goes on if the successor's script already ran beside the cancelled link. If the
    successor waited, or starts later, its guard ends it before the user's script begins. The chain
    also goes on with a link that was submitted after the cancellation: its owner resumed the chain
    (`mirage-link resume`).
    """
    last = look.links[-1]
    for link, successor in zip_longest(look.began, look.began[1:]):
        if link.end_state is not JobState.CANCELLED or _has_run_beside(look, link, successor):
            continue
        if last.index <= link.index or last.submit <= (link.end or link.seen_at):
            return link
    return None


def _has_run_beside(look: _ChainView, link: Link, successor: Link | None) -> bool:
    if successor is None or link.end is None:
        return False
    return look.script_starts[successor.index] < link.end


def _judge_never_started(look: _ChainView) -> ChainVerdict | None:
    """Judge a chain of which no script has begun.

    The chain counts as cancelled only if Slurm says so of its jobs. A job that Slurm no longer
    shows may still exist.
    """
    links = look.links
    if not links and look.now - look.chain.created_at > NEVER_SEEN_S:
        return ChainVerdict(ChainState.FAILED, build_mirage_cause(Reason.NEVER_SEEN))
    ended = bool(links) and all(link.state is LinkState.ENDED for link in links)
    if ended and links[-1].end_state is not JobState.UNKNOWN:
        return ChainVerdict(ChainState.CANCELLED, build_mirage_cause(Reason.NEVER_STARTED))
    waiting = next((link for link in links if link.state is LinkState.PENDING), None)
    return None if waiting is None else _judge_waiting(look, waiting)


def _judge_waiting(look: _ChainView, standby: Link) -> ChainVerdict:
    if standby.state is LinkState.RUNNING:
        return look.keep_state(_build_wait_cause(look, standby))
    found = link_risks.find_waiting_risk(standby, look.links)
    # Mirage lifts the hold of a resumed chain after this look: it is no risk yet.
    held = isinstance(found, ChainRisk) and found.word in link_risks.HOLDS
    ours = held and look.now - look.resumed_at <= GRACE_S
    if found is None:
        return look.keep_state(look.foreseen)
    return look.keep_state(None if ours else found)


def _build_wait_cause(look: _ChainView, link: Link) -> Cause:
    before = script_turns.find_awaited_links(look.chain, look.links)[link.index]
    awaited = f"{before.index} {before.job_id}"
    return build_mirage_cause(Reason.WAITS_FOR, link.index, link.job_id, awaited)


def _judge_run_in_vain(look: _ChainView) -> ChainVerdict | None:
    """Return a pause if the chain's last links ran for nothing, one after the other; else None."""
    if look.compute_run_s(look.began[-1]) >= look.proves_s:
        return None
    ended = [li for li in look.began[::-1] if li.state is LinkState.ENDED]
    failed = [*takewhile(look.has_failed_fast, ended)][:FAST_FAILURES]
    if len(failed) == FAST_FAILURES and _is_since_resumed(look, failed):
        return _pause_for(Reason.FAILED_FAST)
    behind = next((li for li in look.links if ended and li.index > ended[0].index), None)
    goes_on = behind is not None and (look.is_waiting(behind) or behind in look.began)
    return _pause_for(Reason.BRIEF) if goes_on and _is_loop(look, ended, BLINK_S, behind) else None


def _is_loop(
    look: _ChainView, ended: Sequence[Link], under_s: int, behind: Link | None = None
) -> bool:
    """Return whether the last links, `ended` has the newest first, were all so brief.

    Links before one that was submitted after their end do not count: somebody resumed the chain.
    With presubmit=all, links may be left over when the work is done: each sees that, and ends.
    """
    blinked: list[Link] = []
    for link in ended[:BLINKS]:
        is_resumed = behind is not None and behind.submit > (link.end or link.seen_at)
        if is_resumed or look.compute_ended_run_s(link) >= under_s:
            return False
        behind = link
        blinked.append(link)
    loops = len(blinked) == BLINKS and look.chain.presubmit is Presubmit.NEXT
    return loops and _is_since_resumed(look, blinked)


def _pause_for(reason: Reason) -> ChainVerdict:
    return ChainVerdict(ChainState.PAUSED, build_mirage_cause(reason))


def _judge_recovery(look: _ChainView, newest: Link) -> ChainVerdict | None:
    """Return an active chain if a link runs in spite of Mirage's pause; else None.

    In mode `shadow` a pause holds nothing back. The link must have run longer than those that
    caused the pause.
    """
    paused = look.chain.state is ChainState.PAUSED and look.chain.actor is Actor.MIRAGE
    lives = newest.state is LinkState.RUNNING and look.compute_run_s(newest) >= look.proves_s
    return ChainVerdict(ChainState.ACTIVE) if paused and lives else None


def _is_since_resumed(look: _ChainView, links: Sequence[Link]) -> bool:
    """Return whether all `links` started since the owner last resumed the chain.

    Failures that the owner has seen and answered with a resume do not count against the chain
    again.
    """
    return all((link.start or 0) >= look.resumed_at for link in links)


def _judge_without_standby(look: _ChainView, newest: Link) -> ChainVerdict | None:
    """Judge a chain whose newest link runs or has ended, with no link in the queue behind it."""
    chain, now = look.chain, look.now
    if newest.state is LinkState.RUNNING:
        return _judge_running_alone(look, newest)
    if newest.end_state is JobState.UNKNOWN and now - newest.seen_at <= FORGOTTEN_S:
        gone = ChainRisk(of=Risk.UNKNOWN, link=newest.index, job_id=newest.job_id)
        return look.keep_state()._replace(at_risk=gone)
    if now - (newest.end or newest.seen_at) <= GRACE_S or look.may_have_gone_on(newest):
        return None
    if _has_paused_itself(look, newest):
        said = chain.state is ChainState.PAUSED
        return look.keep_state() if said else _pause_for(Reason.TURNED_AWAY)
    if _has_its_total(look):
        total = build_mirage_cause(Reason.TOTAL_RAN, detail=str(look.sum_runs_s()))
        return ChainVerdict(ChainState.FINISHED, total)
    # Only the links of a chain that nobody registered know how many there are. Each puts the next
    # one into the queue when it starts, so a link that none was put behind is the last.
    known = newest.end_state is not JobState.UNKNOWN
    last = chain.links_planned is None and known and look.links[-1].index == newest.index
    done = newest.end_state is JobState.COMPLETED or last
    how = "" if newest.end_state is None else newest.end_state.value
    ended = build_mirage_cause(Reason.LINK_ENDED, newest.index, newest.job_id, how)
    return ChainVerdict(ChainState.FINISHED if done else ChainState.FAILED, ended)


def _has_paused_itself(look: _ChainView, newest: Link) -> bool:
    """Return whether the guard of the chain's last link ended that link before its script.

    The guard does so after two links that failed fast. It lets a link run that was submitted after
    those two: the owner has seen the failures. Such a link may be brief as well. After five brief
    links the last one takes its standby back.
    """
    if _is_loop(look, look.began[::-1], BLINK_S + _BLINK_SLACK_S):
        return True
    brief = newest.end_state is JobState.COMPLETED and look.compute_ended_run_s(newest) < GRACE_S
    before = look.began[:-1][-_FAST_FOR_LINKS:]
    if not brief or len(before) < _FAST_FOR_LINKS:
        return False
    stood = newest.submit <= (before[-1].end or newest.submit)
    return stood and all(map(look.has_failed_fast, before))


def _has_its_total(look: _ChainView) -> bool:
    total_s = look.chain.total_s
    return total_s is not None and look.sum_runs_s() + _TOTAL_SLACK_S * len(look.began) >= total_s


def _judge_running_alone(look: _ChainView, newest: Link) -> ChainVerdict | None:
    if _has_its_total(look):
        return look.keep_state()
    if look.chain.mode is ChainMode.SUBMIT:
        return look.keep_state(look.foreseen)
    # A link that is COMPLETED was ended by its own guard, and another job does its work.
    ended = (li for li in look.links if li.has_vanished or _has_failed_waiting(li))
    gone = next((li for li in ended if li.index == newest.index + 1), None)
    if gone is not None and (gone.end or gone.seen_at) >= look.resumed_at:
        return _judge_lost_standby(look, newest, gone)
    left = any(li.index == newest.index + 1 and _has_just_left(look, li) for li in look.links)
    alone_s = 0 if left else look.now - (newest.start or look.now)
    if look.chain.links_planned is not None and alone_s > GRACE_S:
        alone = ChainRisk(of=Risk.NO_STANDBY, link=newest.index, job_id=newest.job_id)
        return look.keep_state(alone)
    at_risk = look.chain.at_risk
    if at_risk is not None and at_risk.of in _OF_A_WAIT and at_risk.link == newest.index:
        return look.keep_state()  # the link that waited has started
    return None


def _has_just_left(look: _ChainView, link: Link) -> bool:
    """Return whether the link's job may have another job in its place that the next look shows."""
    return link.end_state is JobState.COMPLETED and look.now - (link.end or 0) <= GRACE_S


def _has_failed_waiting(link: Link) -> bool:
    return link.state is LinkState.ENDED and link.end_state is not JobState.COMPLETED


def _judge_lost_standby(look: _ChainView, newest: Link, gone: Link) -> ChainVerdict:
    """Judge a chain whose standby is gone while its predecessor runs.

    The running link submits another standby once. If that one goes as well, somebody wants it so,
    and the chain is paused.
    """
    index, job_id = gone.index, gone.job_id
    how = "" if gone.end_state is None else gone.end_state.value
    replaced = gone.replaced_at is not None and gone.replaced_at >= (newest.start or 0)
    if look.chain.state is ChainState.ACTIVE and replaced:
        return ChainVerdict(
            ChainState.PAUSED, build_mirage_cause(Reason.STANDBY_GONE, index, job_id, how)
        )
    return look.keep_state(ChainRisk(of=Risk.VANISHED, link=index, job_id=job_id, detail=how))
