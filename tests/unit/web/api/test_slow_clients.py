"""Who reads too slowly is ended: by a clock that goes on only where somebody waits for it."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from starlette.types import Message

from mirage.web.api.streaming.slow_clients import (
    LEAST_BYTES_S,
    PIECE,
    WINDOW_S,
    ReadPace,
    enforce_read_pace,
)

PART = 10 * PIECE


class Skipping(asyncio.SelectorEventLoop):
    """Where nothing is to be done before some instant, it is that instant at once."""

    _at = 0.0
    _ready: deque[Any]
    _scheduled: list[asyncio.TimerHandle]

    def time(self) -> float:
        return self._at

    def _run_once(self) -> None:
        awaited = [timer.when() for timer in self._scheduled if not timer.cancelled()]
        if not self._ready and awaited:
            self._at = max(self._at, min(awaited))
        super()._run_once()  # type: ignore[misc] # which the stubs do not know


def run(made: Callable[[], Coroutine[Any, Any, None]]) -> float:
    """Until it ends; how long that took by the loop's clock, seconds."""
    with asyncio.Runner(loop_factory=Skipping) as runner:
        runner.run(made())
        return runner.get_loop().time()


class Reader:
    """Takes each piece after a while."""

    def __init__(self, piece_s: float, then_s: float | None = None) -> None:
        self.piece_s, self.then_s = piece_s, then_s
        self.read = 0
        self.pieces: list[int] = []
        self.whole = False
        self.cut = False

    async def __call__(self, message: Message) -> None:
        if self.then_s is not None and self.read > 100 * PIECE:
            self.piece_s = self.then_s
        await asyncio.sleep(self.piece_s)
        self.read += len(message["body"])
        self.pieces.append(len(message["body"]))
        self.whole = not message.get("more_body", False)

    def cuts(self) -> None:
        self.cut = True


def sent(reader: Reader, parts: int, *, total_s: float = 1e9, made_s: float = 0.0) -> float:
    """So many parts and the end, each made within a while."""

    async def send() -> None:
        scope = {"path": "/x", "state": {"cut": reader.cuts}}
        async with enforce_read_pace(scope, reader, total_s=total_s) as steadily:
            for _ in range(parts):
                await asyncio.sleep(made_s)
                await steadily(
                    {"type": "http.response.body", "body": bytes(PART), "more_body": True}
                )
            await steadily({"type": "http.response.body", "body": b"", "more_body": False})

    return run(send)


def at_rate(bytes_s: float) -> float:
    return PIECE / bytes_s


def test_who_reads_gets_all() -> None:
    reader = Reader(at_rate(1.1 * LEAST_BYTES_S))
    sent(reader, 300)
    assert (reader.whole, reader.cut, reader.read) == (True, False, 300 * PART)


def test_who_reads_too_slowly_is_ended() -> None:
    """Each piece is taken in time, and none of those who did so was ended before."""
    reader = Reader(WINDOW_S - 1)
    took_s = sent(reader, 300)
    assert (reader.whole, reader.cut) == (False, True)
    assert took_s < 3 * WINDOW_S


def test_who_reads_nothing_is_ended() -> None:
    reader = Reader(1e6)
    assert sent(reader, 3) == WINDOW_S
    assert (reader.cut, reader.read) == (True, 0)


def test_what_was_read_fast_does_not_pay_for_hours_of_trickling() -> None:
    reader = Reader(0.0, then_s=WINDOW_S - 1)
    assert sent(reader, 300) < 3 * WINDOW_S
    assert reader.cut


def test_a_pause_is_nothing() -> None:
    pace = ReadPace(WINDOW_S, LEAST_BYTES_S)
    for _ in range(100):
        pace.record_sent(PIECE, 0.9 * WINDOW_S)
        assert pace.left_s > 0
        for _ in range(50):
            pace.record_sent(PIECE, 0.0)


def test_who_waits_for_us_is_not_blamed() -> None:
    """For a database that is slow."""
    reader = Reader(0.0)
    sent(reader, 20, made_s=10 * WINDOW_S)
    assert (reader.whole, reader.cut) == (True, False)


def test_all_of_it_has_an_end() -> None:
    reader = Reader(at_rate(2 * LEAST_BYTES_S))
    assert sent(reader, 10_000, total_s=900) == pytest.approx(900)
    assert (reader.whole, reader.cut) == (False, True)


def test_it_is_sent_in_pieces_that_a_rate_can_be_told_of() -> None:
    reader = Reader(0.0)
    sent(reader, 2)
    assert reader.pieces == [PIECE] * 20 + [0]


def test_what_goes_wrong_in_between_is_nobodys_reading() -> None:
    async def fails() -> None:
        reader = Reader(0.0)
        with pytest.raises(RuntimeError):
            async with enforce_read_pace({"path": "/x"}, reader, total_s=9):
                raise RuntimeError
        assert not reader.cut

    run(fails)
