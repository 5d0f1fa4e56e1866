"""Calls the parsers of Slurm's answers, and logs what they could not parse.

An answer that cannot be parsed counts as no answer. A row that cannot be parsed is left out.
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

_ROWS_PER_ANSWER = 100
"""The most rows of one answer that are named in the log. The others are named at later answers."""
_EXAMPLES = 8
_ROWS_PER_MINUTE = 20
"""The most rows that are named in a minute. Any user may submit as many odd jobs as they like."""
_MOST_REMEMBERED = 100_000
"""The most rows that are remembered, so that they are not named again."""


class AnswerReader:
    """Calls parsers. A caller must conclude nothing from an answer that cannot be parsed."""

    def __init__(self, alarms: ForgeryAlarms, meter: CallStats) -> None:
        """`meter` counts the rows that are left out."""
        self._alarms, self._meter = alarms, meter
        self._logged_rows: dict[tuple[str, str], None] = {}
        self._throttled_log = ThrottledLog(_ROWS_PER_MINUTE)

    def __call__(self, command: str, parse: Callable[[], T]) -> T:
        """Return `parse()`, the value read from the answer of `command`.

        Raises UnreadableAnswer for text that cannot be parsed. For text that Slurm did not write,
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
        """Return the value without the rows that cannot be parsed.

        Such rows are added to `unread`, counted under `kind` (by default `command`), and each is
        logged once. Raises like `__call__`.
        """
        rejects = Unread() if unread is None else unread
        value = self(command, lambda: parse(rejects))
        self._log_missing_figures(kind or command, rejects.without_gpus)
        if rejects.rows:
            self._meter.count_unread(kind or command, len(rejects.rows))
            self._log_unread(kind or command, rejects.rows)
        return value

    def _log_missing_figures(self, command: str, jobs: Sequence[JobId]) -> None:
        """Log one line for the jobs that no earlier line counted."""
        new = [job_id for job_id in jobs if (command, f"gpus {job_id}") not in self._logged_rows]
        if new:
            self._remember((command, f"gpus {job_id}") for job_id in new)
            _log.warning(
                "the GPUs of jobs do not read, and count as not known",
                command=command,
                jobs=len(new),
                first=new[:_EXAMPLES],
            )

    def _log_unread(self, command: str, rows: Sequence[UnreadRow]) -> None:
        new = [row for row in rows if (command, row.name) not in self._logged_rows]
        self._remember((command, row.name) for row in new[:_ROWS_PER_ANSWER])
        for row in new[:_ROWS_PER_ANSWER]:
            self._throttled_log.log_event(
                _log.warning,
                "a row does not read and is left out",
                command=command,
                row=row.name,
                error=row.why,
            )
        if len(new) > _ROWS_PER_ANSWER:
            self._throttled_log.log_event(
                _log.warning,
                "more rows do not read and are left out",
                command=command,
                rows=len(new) - _ROWS_PER_ANSWER,
            )

    def _remember(self, keys: Iterable[tuple[str, str]]) -> None:
        self._logged_rows.update(dict.fromkeys(keys))
        while len(self._logged_rows) > _MOST_REMEMBERED:
            del self._logged_rows[next(iter(self._logged_rows))]
