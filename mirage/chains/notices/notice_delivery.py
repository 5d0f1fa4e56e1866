"""Delivers notices from the outbox in a thread of its own, so a dead mail server delays no tick.

A digest is claimed for a while, sent, and settled. If the process dies in between, another try
follows, so each digest is sent at least once. Limits count the digests that the database has as
sent, so a restart does not reset them.
"""

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import structlog

from mirage.chains.expected_start import read_expected_start
from mirage.chains.notices.digest import Digest, describe_standing
from mirage.chains.notices.notices import URGENCY
from mirage.database.chains import chains
from mirage.database.events import audit, outbox
from mirage.database.events.audit import AuditEntry
from mirage.database.events.outbox import Notice, NoticeState
from mirage.database.jobs import queue_sums
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.domain.time_units import HOUR_S
from mirage.errors import DeliveryError, MirageError
from mirage.logs import ThrottledLog

_log = structlog.get_logger(__name__)

CLAIM_S = 300
"""Seconds for which a claimed digest is not sent by another process; longer than one try takes."""
_FIRST_BACK_OFF_S, _LONGEST_BACK_OFF_S = 60, 3600
MAX_TRIES = 12
"""The most tries of a digest; they take about seven hours."""
_KEPT_S = 30 * 86400
"""Seconds for which notices that were sent or given up are kept."""
_STALE_S, _OLD = 7 * 86400, "it is older than a week"
"""Seconds after which a pending notice is given up. All tries take less time, so such a notice was
stored before notices were turned off and on again."""
_POLL_EVERY_S = 5.0

Send = Callable[[Digest, int], None]
"""Sends a digest; the number is the present instant. Raises DeliveryError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often digests are sent."""

    chain_every_s: int = 900
    """The least seconds between two digests of one chain on one channel."""
    max_per_hour: int = 60
    """The most digests of each channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Courier:
    """Gives each stored notice to its channel, several notices of a chain in one digest."""

    store: Store
    cluster_id: int
    cluster: str
    senders: Mapping[str, Send]
    """How to send, by channel; notices for other channels are given up."""
    clock: Callable[[], int]
    pace: Pace = Pace()
    _seldom: ThrottledLog = field(default_factory=ThrottledLog)

    def run(self, stop: threading.Event) -> None:
        """Deliver notices until `stop` is set; the present digest is still finished."""
        while not stop.is_set():
            try:
                self.deliver_due(stop)
            except MirageError as error:
                _log.warning("notices wait", error=str(error))
            except Exception:
                _log.exception("notices wait")
            stop.wait(_POLL_EVERY_S)

    def deliver_due(self, stop: threading.Event | None = None) -> int:
        """Send the due notices as far as the limits allow; return the number of digests sent."""
        now = self.clock()
        with self.store.begin() as tx:
            outbox.give_up_notices(tx, self.cluster_id, _OLD, before=now - _STALE_S)
            outbox.forget_settled_notices(tx, self.cluster_id, now - _KEPT_S)
        with self.store.read() as tx:
            waiting = outbox.list_due_deliveries(tx, self.cluster_id, now, URGENCY)
            earlier_count = outbox.count_digests_since(tx, self.cluster_id, now - HOUR_S)
        sent_count, late_count = Counter(earlier_count), Counter[str]()
        for channel, chain_id, owner in waiting:
            if stop is not None and stop.is_set():
                break
            if not self._has_room(sent_count, channel, owner):
                late_count[channel] += 1
            elif notices := self._claim_notices(channel, chain_id):
                sent_count[channel, owner] += self._deliver_digest(channel, notices)
        for channel, count in late_count.items():
            message = "notices wait: notify.max_per_hour is reached"
            self._seldom.log_event(
                _log.warning, message, kind=channel, channel=channel, waiting=count
            )
        return sent_count.total() - sum(earlier_count.values())

    def _has_room(
        self, sent_count: Mapping[tuple[str, str], int], channel: str, owner: str
    ) -> bool:
        """Return whether one more digest of the owner's chains is within the limit.

        An owner may use half of what the other owners have left of the limit. So there is always
        room for an owner whose notices come later.
        """
        own = sent_count.get((channel, owner), 0)
        others = sum(count for (name, _), count in sent_count.items() if name == channel) - own
        return 2 * own < self.pace.max_per_hour - others

    def _claim_notices(self, channel: str, chain_id: ChainId) -> list[Notice]:
        """Claim the notices of a chain that may be sent on a channel.

        If a digest of the chain was sent lately, the notices are put off and the list is empty. It
        is also empty if another process has claimed the notices.
        """
        now = self.clock()
        with self.store.begin() as tx:
            last = outbox.read_last_sent_at(tx, self.cluster_id, channel, chain_id)
            due_at = now if last is None else last + self.pace.chain_every_s
            if due_at > now:
                outbox.put_off_notices(tx, self.cluster_id, channel, chain_id, due_at)
                return []
            return outbox.claim_notices(
                tx, self.cluster_id, channel, chain_id, now=now, until=now + CLAIM_S
            )

    def _deliver_digest(self, channel: str, notices: list[Notice]) -> bool:
        """Send the claimed notices and store the result; return whether they were sent."""
        ids = [notice.id for notice in notices]
        send = self.senders.get(channel)
        if send is None:
            self._record_failure(
                notices, f"the channel {channel} is not configured any more", for_good=True
            )
            return False
        try:
            standing = self._describe_chain(notices[0].chain_id)
            send(Digest(cluster=self.cluster, notices=notices, standing=standing), self.clock())
        except DeliveryError as error:
            self._record_failure(notices, str(error), for_good=False)
            return False
        except Exception as error:
            # Only the error's type is stored, since its text might hold a secret. Other digests
            # are still sent.
            kind = type(error).__name__
            self._record_failure(notices, f"an unforeseen error in Mirage ({kind})", for_good=False)
            return False
        now = self.clock()
        with self.store.begin() as tx:
            outbox.settle_notices(tx, self.cluster_id, ids, NoticeState.SENT, sent_at=now)
        _log.info("notice sent", channel=channel, chain_id=notices[0].chain_id, events=len(notices))
        return True

    def _describe_chain(self, chain_id: ChainId) -> list[str]:
        """Describe the chain as of the last look at the queue; empty for an unknown chain."""
        with self.store.read() as tx:
            chain = chains.find_chains(tx, self.cluster_id, [chain_id]).get(chain_id)
            snapshot = queue_sums.find_latest_snapshot(tx, self.cluster_id)
            if chain is None or snapshot is None:
                return []
            links = chains.list_links(tx, self.cluster_id, chain_id)
            expected = read_expected_start(tx, self.cluster_id, chain, links, now=snapshot.taken_at)
        return describe_standing(expected, sum(link.returns for link in links), snapshot.taken_at)

    def _record_failure(self, notices: list[Notice], error: str, *, for_good: bool) -> None:
        """Store that a try failed: another one follows later, unless `for_good` or after the last.

        A notice that is given up is in the audit.
        """
        now, first = self.clock(), notices[0]
        tries = max(notice.tries for notice in notices)
        fields = {"channel": first.channel, "chain_id": first.chain_id, "error": error}
        over = for_good or tries >= MAX_TRIES
        state = NoticeState.GIVEN_UP if over else NoticeState.PENDING
        with self.store.begin() as tx:
            due_at = now + compute_backoff_s(tries)
            outbox.settle_notices(
                tx, self.cluster_id, [n.id for n in notices], state, due_at=due_at, error=error
            )
            if over:
                audit.write_entry(tx, self.cluster_id, _build_entry(first, now, error))
        if over:
            _log.error("notice given up", tries=tries, **fields)
        else:
            _log.warning("notice not sent: it is tried again", tries=tries, **fields)


def compute_backoff_s(tries: int) -> int:
    """Return the seconds until the next try: a minute at first, doubling up to an hour."""
    return int(min(_LONGEST_BACK_OFF_S, _FIRST_BACK_OFF_S * 2 ** max(0, tries - 1)))


def _build_entry(notice: Notice, now: int, error: str) -> AuditEntry:
    return replace(
        AuditEntry(at=now, actor="mirage", event="notice given up"),
        chain_id=notice.chain_id or None,
        detail={"channel": notice.channel, "event": notice.event, "error": error},
    )
