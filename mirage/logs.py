"""Logging, set up once: a fixed sentence and fields, JSON for machines, colours on a terminal."""

import logging
import sys
from typing import Literal

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from mirage.domain.printable import printable


def set_up(log_format: Literal["auto", "json", "console"], *, warnings_only: bool = False) -> None:
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
            _harmless,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _harmless(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """What fields quote of users stays in its line, and moves no terminal."""
    return {
        name: printable(value) if isinstance(value, str) else value for name, value in event.items()
    }
