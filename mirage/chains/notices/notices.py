"""Finds news about chains by comparing each chain's situation with its situation before.

The worker does this in the transaction that updates the chains, so a change and its notices are
stored together. A state that a user requested in between (`lifecycle.request_state`) is found at
the next tick.
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
"""Seconds after which a chain without a stored situation is old, if no tick is known."""
_LONG_S = 8 * 86400
"""Seconds after a chain was last seen: longer than any conclusion takes
(`chain_state.FORGOTTEN_S`)."""

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
    MODEL_PROPOSED = "model-proposed"
    MODEL_PROMOTED = "model-promoted"
    MODEL_TAKEN_BACK = "model-taken-back"
    MODEL_NOT_ASKED = "model-not-asked"


URGENCY = {
    NoticeEvent.INTERRUPTED.value: 0,
    NoticeEvent.PAUSED.value: 0,
    NoticeEvent.ENDED.value: 0,
    NoticeEvent.STANDBY_VANISHED.value: 1,
    NoticeEvent.AT_RISK.value: 1,
    NoticeEvent.NORMAL.value: 2,
    NoticeEvent.MODEL_PROPOSED.value: 2,
    NoticeEvent.MODEL_PROMOTED.value: 2,
    NoticeEvent.MODEL_TAKEN_BACK.value: 1,
    NoticeEvent.MODEL_NOT_ASKED.value: 1,
}
"""If the limits do not allow all notices, those with the lowest number go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRecorder:
    """Compares chains with their stored situations, and stores a notice about each change."""

    channels: tuple[Channel, ...]
    """Where notices are sent; each piece of news is stored once for each channel."""
    interruption_s: float = HOUR_S
    """How many seconds an interruption lasts before there is a notice about it."""

    def record_news(self, tx: Transaction, cluster_id: int, now: int) -> None:
        """Store the news about the cluster's chains, once for each channel.

        What happened before notices were turned on is no news. `forget_situations` deletes the
        situations while notices are off. So if a chain has no situation, and it existed at the
        worker's last tick, its situation is stored without a notice.
        """
        situations = outbox.list_open_situations(tx, cluster_id)
        since = _find_last_tick_start(tx, cluster_id, now)
        live = {chain.chain_id: chain for chain in chains.list_live_chains(tx, cluster_id)}
        ended = [chain_id for chain_id in situations if chain_id not in live]
        ended += outbox.list_unseen_ended_chains(tx, cluster_id, since)
        compared = live | chains.find_chains(tx, cluster_id, ended)
        idle_since = outbox.find_idle_since(tx, cluster_id)
        changed: list[tuple[ChainId, Situation]] = []
        for chain_id, chain in compared.items():
            before = situations.get(chain_id)
            after = build_situation(chain, idle_since.get(chain_id), now, self.interruption_s)
            if after == before:
                continue
            changed.append((chain_id, after))
            if before is None and chain.created_at < since:
                continue
            was_active = before is not None and before.state is ChainState.ACTIVE
            has_ended = was_active and after.state.is_over
            if has_ended and _has_ended_long_ago(tx, cluster_id, chain, now):
                continue
            news = find_news(chain, before or Situation(), after, self.interruption_s)
            outbox.enqueue_notices(tx, list(self._build_notices(cluster_id, chain, news, now)))
        outbox.save_situations(tx, cluster_id, changed)

    def _build_notices(
        self, cluster_id: int, chain: Chain, news: Sequence[tuple[NoticeEvent, str]], now: int
    ) -> Iterator[Notice]:
        for event, says in news:
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


NO_CHAIN = ChainId("")
"""The chain of a notice about the service itself."""


def enqueue_admin_notice(
    tx: Transaction,
    cluster_id: int,
    channels: Sequence[Channel],
    event: NoticeEvent,
    says: str,
    now: int,
) -> None:
    """Store a notice about the service itself, for those of the channels that reach admins."""
    notices = [
        Notice(
            cluster_id=cluster_id,
            chain_id=NO_CHAIN,
            user="",
            channel=channel.value,
            event=event.value,
            says=says,
            at=now,
        )
        for channel in channels
        if channel is not Channel.OWNER
    ]
    outbox.enqueue_notices(tx, notices)


def forget_situations(tx: Transaction, cluster_id: int) -> None:
    """Delete the situations of chains, and give up the notices not yet sent: notices are off."""
    outbox.forget_situations(tx, cluster_id)
    outbox.give_up_notices(tx, cluster_id, _OFF)


def _find_last_tick_start(tx: Transaction, cluster_id: int, now: int) -> int:
    """Return when the worker's last good tick began; a day ago if none is known."""
    last = telemetry.find_last_tick(tx, cluster_id)
    if last is None or last.good_at is None:
        return now - _NEW_S
    return last.good_at - math.ceil(last.took_s)


def _has_ended_long_ago(tx: Transaction, cluster_id: int, chain: Chain, now: int) -> bool:
    """Return whether Slurm last showed a link of this ended chain days ago.

    An older release kept the situations while notices were off. So a stored situation may say that
    a chain is active though it ended long ago: that is no news.
    """
    seen_at = [link.seen_at for link in chains.list_links(tx, cluster_id, chain.chain_id)]
    return bool(seen_at) and max(seen_at) < now - _LONG_S


def build_situation(
    chain: Chain, idle_since: int | None, now: int, interruption_s: float = HOUR_S
) -> Situation:
    """Return the chain's situation.

    `idle_since`: when the chain's last link ended; None while one runs, or if none has ended.
    """
    is_idle = chain.state is ChainState.ACTIVE and idle_since is not None
    return Situation(
        state=chain.state,
        at_risk=chain.at_risk.word if chain.at_risk else "",
        interrupted=is_idle and now - (idle_since or 0) > interruption_s,
    )


def find_news(
    chain: Chain, before: Situation, after: Situation, interruption_s: float = HOUR_S
) -> list[tuple[NoticeEvent, str]]:
    """Return the news about one chain between two looks: the event, and a sentence on it."""
    news = []
    cause = explanations.explain_cause(chain)
    if after.state is not before.state and after.state.is_over:
        news.append((NoticeEvent.ENDED, _join_sentence(f"the chain is {after.state}", cause)))
    elif after.state is not before.state and after.state is ChainState.PAUSED:
        news.append((NoticeEvent.PAUSED, _join_sentence("the chain is paused", cause)))
    if after.at_risk and after.at_risk != before.at_risk:
        event = (
            NoticeEvent.STANDBY_VANISHED if after.at_risk == Risk.VANISHED else NoticeEvent.AT_RISK
        )
        risk = explanations.explain_risk(chain.at_risk) if chain.at_risk else after.at_risk
        news.append((event, _join_sentence(risk, link_risks.get_advice(after.at_risk), ". ")))
    if after.interrupted and not before.interrupted:
        hours = interruption_s / HOUR_S
        news.append((NoticeEvent.INTERRUPTED, f"no link has run for more than {hours:g} h"))
    if not news and _is_troubled(before) and not _is_troubled(after) and not after.state.is_over:
        news.append(
            (NoticeEvent.NORMAL, _join_sentence("a link is running, and nothing is at risk", cause))
        )
    return news


def _is_troubled(situation: Situation) -> bool:
    is_paused = situation.state is ChainState.PAUSED
    return bool(situation.at_risk) or situation.interrupted or is_paused


def _join_sentence(first: str, second: str, separator: str = ": ") -> str:
    return f"{first}{separator}{second}" if second else first
