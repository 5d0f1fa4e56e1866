"""Turns Slurm's text into values.

An answer that cannot be read counts as no answer. A row that cannot be read is left out.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import structlog

from mirage.domain.job import JobId
from mirage.errors import ForgedAnswer, MalformedText, UnreadableAnswer
from mirage.logs import ThrottledLog
from mirage.slurm.clients.call_stats import CallStats
from mirage.slurm.clients.forgery_alarms import ForgeryAlarms
from mirage.slurm.text.unread_rows import Unread, UnreadRow

_log = structlog.get_logger(__name__)

T = TypeVar("T")

_AT_ONCE = 100
"""The most rows of one answer that are named in the log. The others are named at later answers."""
_SHOWN = 8
_A_MINUTE = 20
"""The most rows that are named in a minute: whoever submits jobs may make as many as they like."""
_REMEMBERED = 100_000
"""The most rows that are remembered, so that they are not named again."""


class AnswerReader:
    """Calls parsers. Nothing may be concluded from an answer that cannot be read."""

    def __init__(self, alarms: ForgeryAlarms, meter: CallStats) -> None:
        """`meter` counts the rows that are left out."""
        self._alarms, self._meter = alarms, meter
        self._named: dict[tuple[str, str], None] = {}
        self._seldom = ThrottledLog(_A_MINUTE)

    def __call__(self, command: str, parse: Callable[[], T]) -> T:
        """Return `parse()`, the value read from the answer of `command`.

        Raises UnreadableAnswer for text that does not read. For text that Slurm did not write,
        adds an alarm and raises ForgedAnswer.
        """
        try:
            return parse()
        except MalformedText as error:
            raise UnreadableAnswer(f"{command}'s answer does not read: {error}") from error
        except ForgedAnswer as error:
            self._alarms.add_alarm(f"{command}: {error}")
            raise

    def read_rows(
        self,
        command: str,
        parse: Callable[[Unread], T],
        *,
        kind: str = "",
        unread: Unread | None = None,
    ) -> T:
        """The same without the rows that do not read, which are added to `unread`: they are counted
        to `kind` of question, and each is named once in the log."""
        left_out = Unread() if unread is None else unread
        found = self(command, lambda: parse(left_out))
        self._log_missing_figures(kind or command, left_out.without_gpus)
        if left_out.rows:
            self._meter.count_unread(kind or command, len(left_out.rows))
            self._log_unread(kind or command, left_out.rows)
        return found

    def _log_missing_figures(self, command: str, jobs: Sequence[JobId]) -> None:
        """Log one line for the jobs that no earlier line counted."""
        new = [job_id for job_id in jobs if (command, f"gpus {job_id}") not in self._named]
        if new:
            self._remember((command, f"gpus {job_id}") for job_id in new)
            _log.warning(
                "the GPUs of jobs do not read, and count as not known",
                command=command,
                jobs=len(new),
                first=new[:_SHOWN],
            )

    def _log_unread(self, command: str, rows: Sequence[UnreadRow]) -> None:
        new = [row for row in rows if (command, row.name) not in self._named]
        self._remember((command, row.name) for row in new[:_AT_ONCE])
        for row in new[:_AT_ONCE]:
            self._seldom.log_event(
                _log.warning,
                "a row does not read and is left out",
                command=command,
                row=row.name,
                error=row.why,
            )
        if len(new) > _AT_ONCE:
            self._seldom.log_event(
                _log.warning,
                "more rows do not read and are left out",
                command=command,
                rows=len(new) - _AT_ONCE,
            )

    def _remember(self, named: Iterable[tuple[str, str]]) -> None:
        self._named.update(dict.fromkeys(named))
        while len(self._named) > _REMEMBERED:
            del self._named[next(iter(self._named))]
