"""Builds one message about one chain: all its new notices, oldest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mirage.chains.expected_start import ExpectedStart
from mirage.database.events.outbox import Notice
from mirage.domain.sanitize import escape_unprintable

_MAX_NOTICES = 40
"""The most notices in one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """Notices of one chain and channel, oldest first; never empty. Notices of no chain are about
    the service itself."""

    cluster: str
    notices: Sequence[Notice]
    standing: Sequence[str] = ()
    """Sentences on the chain's next link and its returns, as of the last look at the queue."""

    @property
    def first(self) -> Notice:
        return self.notices[0]

    @property
    def delivery(self) -> str:
        """Return an id that is the same for each try."""
        return f"{self.first.cluster_id}-{self.notices[-1].id}"

    def format_subject(self) -> str:
        last = self.notices[-1]
        more = f" and {len(self.notices) - 1} more" if len(self.notices) > 1 else ""
        about = f"chain {last.chain_id}: " if last.chain_id else ""
        return escape_unprintable(f"[mirage] {self.cluster}: {about}{last.event}{more}")

    def render_text(self) -> str:
        """Return the text of the message. Times are in UTC."""
        newest = self.notices[-_MAX_NOTICES:]
        left_out = len(self.notices) - len(newest)
        chain_id = self.first.chain_id
        about = f"Chain {chain_id} of {self.first.user}" if chain_id else "The service Mirage"
        lines = [f"{about} on {self.cluster}:", ""]
        lines += [f"({left_out} earlier events are left out)"] if left_out else []
        lines += [f"{_format_utc(n.at)} UTC  {n.event}: {n.says}" for n in newest]
        lines += ["", *self.standing] if self.standing else []
        lines += [""]
        if chain_id:
            lines += [f"Details: mirage chain show {chain_id}"]
            lines += [f"Reasons: mirage chain explain {chain_id}"]
        else:
            lines += ["Details: the page Admin of the dashboard"]
        return "\n".join(escape_unprintable(line) for line in lines) + "\n"

    def build_body(self) -> dict[str, Any]:
        """Return the body for a webhook; chat services show its `text` (`render_text`)."""
        return {
            "version": 1,
            "cluster": self.cluster,
            "chain_id": self.first.chain_id,
            "user": self.first.user,
            "text": self.render_text(),
            "events": [
                {"at": _format_rfc3339(n.at), "event": n.event, "says": escape_unprintable(n.says)}
                for n in self.notices
            ],
        }


def describe_standing(expected: ExpectedStart | None, returns: int, at: int) -> list[str]:
    """Return a digest's sentences on the next link's start and on links that gave nodes back.

    `expected` is as known at the instant `at`. The list is empty if there is nothing to say. Times
    are in UTC.
    """
    sentences = []
    if expected is not None:
        first, last = _format_utc(expected.p10), _format_utc(expected.p90)
        between = "" if first == last else f" (8 of 10 times between {first} and {last})"
        sentences.append(
            f"Link {expected.link} is expected to start at {_format_utc(expected.p50)}{between}, "
            f"as of {_format_utc(at)} UTC."
        )
    if returns:
        times = "once" if returns == 1 else f"{returns} times"
        sentences.append(f"Early links of this chain gave their nodes back {times}.")
    return sentences


def _format_utc(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def _format_rfc3339(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
