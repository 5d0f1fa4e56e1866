"""Ends a long answer whose client reads it too slowly.

A time limit for each part alone is not enough: a client that takes a few bytes just before each
limit would hold a file open for hours.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import structlog
from starlette.types import Message, Scope, Send

_log = structlog.get_logger(__name__)

LEAST_BYTES_S = 16 * 1024
"""The slowest allowed rate in bytes a second. An old DSL line is faster."""
WINDOW_S = 30.0
"""Seconds for which a reader may pause, after reading at that rate for as long."""
PIECE = 64 * 1024
"""Bytes that are sent at a time: as many as uvicorn buffers before it waits for the reader."""


class ReadPace:
    """Measures how long a reader may still keep the sender waiting.

    Bytes that the reader takes earn time, and each wait uses time up.
    """

    def __init__(self, window_s: float, least_bytes_s: float) -> None:
        self._window_s, self._least_bytes_s = window_s, least_bytes_s
        self.left_s = window_s

    def record_sent(self, size: int, waited_s: float) -> None:
        """Record that the reader took `size` bytes after `waited_s` seconds."""
        earned_s = size / self._least_bytes_s - waited_s
        self.left_s = max(0.0, min(self._window_s, self.left_s + earned_s))


class _SlowReaderError(Exception):
    """A reader that is too slow.

    The class is our own, because Starlette takes a TimeoutError for a client that has gone.
    """


@asynccontextmanager
async def enforce_read_pace(scope: Scope, send: Send, *, total_s: float) -> AsyncIterator[Send]:
    """Yield a function that sends as `send` does, until the reader is too slow or `total_s` are
    over.

    Then the connection is cut, so that the client sees that the answer is incomplete, and one line
    is logged.
    """
    pace, clock = ReadPace(WINDOW_S, LEAST_BYTES_S), asyncio.get_running_loop().time

    async def send_paced(message: Message) -> None:
        for piece in _split_message(message):
            began = clock()
            try:
                async with asyncio.timeout(pace.left_s):
                    await send(piece)
            except TimeoutError:
                raise _SlowReaderError("its reader is too slow") from None
            pace.record_sent(len(piece.get("body", b"")), clock() - began)

    try:
        async with asyncio.timeout(total_s):
            yield send_paced
    except (_SlowReaderError, TimeoutError) as error:
        reason = str(error) or f"it took more than {total_s:g} s"
        _log.warning("an answer was not sent to its end", path=scope["path"], why=reason)
        cut_connection: Callable[[], None] | None = scope.get("state", {}).get("cut")
        if cut_connection is not None:
            cut_connection()
            await asyncio.sleep(0)  # lets the server notice the cut


def _split_message(message: Message) -> Iterator[Message]:
    body = message.get("body", b"")
    if len(body) <= PIECE:
        yield message
        return
    for begin in range(0, len(body), PIECE):
        more = message.get("more_body", False) or begin + PIECE < len(body)
        yield {**message, "body": body[begin : begin + PIECE], "more_body": more}
