"""Finds news about chains by comparing each chain's situation with its situation before.

It runs in the transaction that updates the chains, so a change and its notices are stored
together. A state that a user requested in between (`lifecycle.request_state`) is found at the next
tick.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mirage.chains import explanations, link_risks
from mirage.database.chains import chains
from mirage.database.events import outbox
from mirage.database.events.outbox import Notice, Situation
from mirage.database.operations import telemetry
from mirage.database.schema.engine import Transaction
from mirage.domain.chain import Chain, ChainId, ChainState
from mirage.domain.chain_cause import Risk
from mirage.domain.time_units import HOUR_S

_NEW_S = 86400
"""Seconds after which an unknown chain is old, if no round of the worker is known."""
_LONG_S = 8 * 86400
"""Seconds after a chain was last seen: longer than any conclusion takes (FORGOTTEN_S)."""

_OFF = "notices were turned off"


class Channel(StrEnum):
    OWNER = "owner"
    """Mail to the chain's owner."""
    ADMINS = "admins"
    """Mail to the admins' addresses."""
    WEBHOOK = "webhook"


class NoticeEvent(StrEnum):
    AT_RISK = "at-risk"
    STANDBY_VANISHED = "standby-vanished"
    INTERRUPTED = "interrupted"
    PAUSED = "paused"
    ENDED = "ended"
    NORMAL = "normal"


URGENCY = {
    NoticeEvent.INTERRUPTED.value: 0,
    NoticeEvent.PAUSED.value: 0,
    NoticeEvent.ENDED.value: 0,
    NoticeEvent.STANDBY_VANISHED.value: 1,
    NoticeEvent.AT_RISK.value: 1,
    NoticeEvent.NORMAL.value: 2,
}
"""If the limits do not allow all notices, those with the lowest number go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Says who is told, and how long (in seconds) an interruption lasts before it is told."""

    channels: tuple[Channel, ...]
    interruption_s: float = HOUR_S

    def record_news(self, tx: Transaction, cluster_id: int, now: int) -> None:
        """Store the news about the cluster's chains, once for each channel.

        What ended before notices were turned on is no news. `forget_situations` has left nothing of
        it, so a chain without a situation that the worker's last round must have known is old.
        """
        before = outbox.list_open_situations(tx, cluster_id)
        since = _find_last_round(tx, cluster_id, now)
        live = {chain.chain_id: chain for chain in chains.list_live_chains(tx, cluster_id)}
        gone = [chain_id for chain_id in before if chain_id not in live]
        gone += outbox.list_unseen_ended_chains(tx, cluster_id, since)
        found = live | chains.find_chains(tx, cluster_id, gone)
        idle = outbox.find_idle_since(tx, cluster_id)
        changed: list[tuple[ChainId, Situation]] = []
        for chain_id, chain in found.items():
            was = before.get(chain_id)
            is_now = build_situation(chain, idle.get(chain_id), now, self.interruption_s)
            if is_now == was:
                continue
            changed.append((chain_id, is_now))
            if was is None and chain.created_at < since:
                continue
            went_on = was is not None and was.state is ChainState.ACTIVE
            if went_on and is_now.state.is_over and _has_ended_long_ago(tx, cluster_id, chain, now):
                continue
            told = find_news(chain, was or Situation(), is_now, self.interruption_s)
            outbox.enqueue_notices(tx, list(self._build_notices(cluster_id, chain, told, now)))
        outbox.save_situations(tx, cluster_id, changed)

    def _build_notices(
        self, cluster_id: int, chain: Chain, told: Sequence[tuple[NoticeEvent, str]], now: int
    ) -> Iterator[Notice]:
        for event, says in told:
            for channel in self.channels:
                yield Notice(
                    cluster_id=cluster_id,
                    chain_id=chain.chain_id,
                    user=chain.user,
                    channel=channel.value,
                    event=event.value,
                    says=says,
                    at=now,
                )


def forget_situations(tx: Transaction, cluster_id: int) -> None:
    """Forget how chains stood and what waits to be sent, as nobody is told of anything now."""
    outbox.forget_situations(tx, cluster_id)
    outbox.give_up_notices(tx, cluster_id, _OFF)


def _find_last_round(tx: Transaction, cluster_id: int, now: int) -> int:
    """Return when the worker's last good round began; a day ago if none is known."""
    last = telemetry.find_last_tick(tx, cluster_id)
    if last is None or last.good_at is None:
        return now - _NEW_S
    return last.good_at - math.ceil(last.took_s)


def _has_ended_long_ago(tx: Transaction, cluster_id: int, chain: Chain, now: int) -> bool:
    """Return whether a chain that is over had its last look days ago.

    An older release forgot no situation while notices were off, so one may say that it goes on.
    """
    seen = [link.seen_at for link in chains.list_links(tx, cluster_id, chain.chain_id)]
    return bool(seen) and max(seen) < now - _LONG_S


def build_situation(
    chain: Chain, idle_since: int | None, now: int, interruption_s: float = HOUR_S
) -> Situation:
    """Return the chain's situation.

    `idle_since`: when its last link ended; None while one runs, or if none has ended.
    """
    waits = chain.state is ChainState.ACTIVE and idle_since is not None
    return Situation(
        state=chain.state,
        at_risk=chain.at_risk.word if chain.at_risk else "",
        interrupted=waits and now - (idle_since or 0) > interruption_s,
    )


def find_news(
    chain: Chain, was: Situation, now: Situation, interruption_s: float = HOUR_S
) -> list[tuple[NoticeEvent, str]]:
    """Return the news about one chain between two looks: the event, and a sentence on it."""
    found = []
    why = explanations.explain_cause(chain)
    if now.state is not was.state and now.state.is_over:
        found.append((NoticeEvent.ENDED, _join_sentence(f"the chain is {now.state}", why)))
    elif now.state is not was.state and now.state is ChainState.PAUSED:
        found.append((NoticeEvent.PAUSED, _join_sentence("the chain is paused", why)))
    if now.at_risk and now.at_risk != was.at_risk:
        event = (
            NoticeEvent.STANDBY_VANISHED if now.at_risk == Risk.VANISHED else NoticeEvent.AT_RISK
        )
        of = explanations.explain_risk(chain.at_risk) if chain.at_risk else now.at_risk
        found.append((event, _join_sentence(of, link_risks.get_advice(now.at_risk), ". ")))
    if now.interrupted and not was.interrupted:
        hours = interruption_s / HOUR_S
        found.append((NoticeEvent.INTERRUPTED, f"no link has run for more than {hours:g} h"))
    if not found and _is_troubled(was) and not _is_troubled(now) and not now.state.is_over:
        found.append(
            (NoticeEvent.NORMAL, _join_sentence("a link is running, and nothing is at risk", why))
        )
    return found


def _is_troubled(situation: Situation) -> bool:
    paused = situation.state is ChainState.PAUSED
    return bool(situation.at_risk) or situation.interrupted or paused


def _join_sentence(first: str, then: str, between: str = ": ") -> str:
    return f"{first}{between}{then}" if then else first
