"""Logging, set up once: a fixed sentence and fields, JSON for machines, colours on a terminal."""

import logging
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from mirage.domain.sanitize import escape_unprintable

_MINUTE_S = 60.0
_OF_LIBRARIES = 3
"""Lines in a minute of one place in a library: a traceback may have some kilobytes."""


class ThrottledLog:
    """Lines that whoever calls may cause: of each kind so many in a minute, and the next one says
    how many were left out. Kinds are the program's own words, so that they are few."""

    def __init__(self, a_minute: int = 1) -> None:
        self._a_minute = a_minute
        self._since: dict[str, float] = {}
        self._count: Counter[str] = Counter()
        self._lock = threading.Lock()

    def log_event(
        self, say: Callable[..., object], event: str, *, kind: str = "", **fields: Any
    ) -> None:
        """Log the line, unless there were too many of its kind.

        Without `kind`, the event is the kind.
        """
        left_out = self._count_left_out(kind or event)
        if left_out is not None:
            say(event, **fields, **({"left_out": left_out} if left_out else {}))

    def _count_left_out(self, kind: str) -> int | None:
        """Return how many lines of that kind were left out before this one.

        Returns None if this line is left out too.
        """
        now = time.monotonic()
        with self._lock:
            self._count[kind] += 1
            if self._count[kind] <= self._a_minute:
                self._since.setdefault(kind, now)
                return 0
            if now < self._since[kind] + _MINUTE_S:
                return None
            left_out = self._count[kind] - 1 - self._a_minute
            self._since[kind], self._count[kind] = now, 1
            return left_out


class _LineLogger(structlog.PrintLogger):
    """Standard error. A line that cannot be written (a full disk, a reader that is gone) is lost,
    and nothing else: whoever logs has no better place to say so, and the worker goes on."""

    def __init__(self, *_: object) -> None:
        super().__init__(sys.stderr)

    def msg(self, message: str) -> None:
        with suppress(OSError, ValueError):
            super().msg(message)

    log = debug = info = warn = warning = fatal = failure = err = error = critical = exception = msg


class _LibraryHandler(logging.Handler):
    """Logs as our own lines what uvicorn and asyncio report about their callers.

    Repeated reports are throttled.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seldom = ThrottledLog(_OF_LIBRARIES)

    def emit(self, record: logging.LogRecord) -> None:
        error = type(record.exc_info[1]).__name__ if record.exc_info else ""
        self._seldom.log_event(
            partial(structlog.get_logger(record.name).log, record.levelno),
            record.getMessage(),
            kind=f"{record.name}:{record.lineno}:{error}",
            logger=record.name,
            **({"exc_info": record.exc_info} if record.exc_info else {}),
        )


def setup_logging(
    log_format: Literal["auto", "json", "console"], *, warnings_only: bool = False
) -> None:
    """Send all log lines to standard error."""
    human = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    renderer: Processor = (
        structlog.dev.ConsoleRenderer() if human else structlog.processors.JSONRenderer()
    )
    level = logging.WARNING if warnings_only else logging.INFO
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _escape_fields,
            renderer,
        ],
        logger_factory=_LineLogger,
    )
    root = logging.getLogger()
    if not any(isinstance(handler, _LibraryHandler) for handler in root.handlers):
        root.addHandler(_LibraryHandler())


def _escape_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape the user text in fields, so that it stays on its line and moves no terminal."""
    return {
        name: escape_unprintable(value) if isinstance(value, str) else value
        for name, value in event.items()
    }
