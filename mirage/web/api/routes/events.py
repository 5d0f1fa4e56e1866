"""The stream of server-sent events. Events are numbered, and a client resumes where it left off."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mirage.database.events.changes import Topic
from mirage.domain.callers.caller import Principal
from mirage.web.api.openapi import describe_read_errors
from mirage.web.api.streaming.change_feed import (
    ChangeBatch,
    ChangeFeed,
    Ending,
    Listener,
    serialize_change,
)
from mirage.web.shared.dependencies import Reader

router = APIRouter(tags=["events"])

MEDIA_TYPE = "text/event-stream"
HEARTBEAT_S = 15.0
"""Shorter than a minute, after which a proxy closes a connection that carries nothing."""
LONGEST_S = 600
"""After this time the stream ends. The client reconnects and identifies itself again."""
SEND_S = 30.0
"""A client that reads nothing for this time loses its connection."""
_RETRY_MS = 2000
_LARGEST = 2**53

_ANSWERS = describe_read_errors(401, 403, 429) | {
    200: {
        "description": "Server-sent events. `id` is the number to resume from. `event` is chains, "
        "decisions, queue or mode; health (ok, stale, unavailable), which comes first and at each "
        "change; or reset, if events were lost: read everything again. `data` is JSON; if its "
        "`chain_ids` is null, many chains changed.",
        "content": {
            MEDIA_TYPE: {
                "schema": {"$ref": "#/components/schemas/LiveEvent"},
                "example": 'id: 4711\nevent: chains\ndata: {"id": 4711, "topic": "chains", '
                '"chain_ids": ["k3v9x2m7q1zt"]}\n\n',
            }
        },
    }
}


@router.get("/events", operation_id="streamEvents", response_class=Response, responses=_ANSWERS)
def stream_events(
    request: Request,
    reader: Reader,
    last_event_id: Annotated[
        int | None,
        Header(ge=0, le=_LARGEST, description="The number of the last event that you received."),
    ] = None,
    since: Annotated[
        int | None,
        Query(
            ge=0,
            le=_LARGEST,
            description="The number of the last event that you received, for a client that cannot "
            "set the header.",
        ),
    ] = None,
    topic: Annotated[list[Topic] | None, Query(description="Only events of these topics.")] = None,
    for_s: Annotated[
        int,
        Query(
            ge=0,
            le=LONGEST_S,
            description="The stream ends after this time; 0: after the events that exist now.",
        ),
    ] = LONGEST_S,
) -> Response:
    """Stream an event for each change as it happens.

    An event says that something changed. Read the new state from the other addresses.
    """
    return EventStream(
        request.app.state.live,
        reader,
        # A browser resumes with its header, whatever address it began with.
        after=since if last_event_id is None else last_event_id,
        topics=set(topic or Topic),
        for_s=for_s,
        at_ending=getattr(request.state, "at_ending", None),
        client=getattr(request.state, "client", None),
    )


class EventStream(Response):
    """A stream of events, which ends after `for_s` seconds or with the server.

    It also ends when the client leaves or stops reading.
    """

    def __init__(
        self,
        feed: ChangeFeed,
        principal: Principal,
        *,
        after: int | None,
        topics: set[Topic],
        for_s: float,
        at_ending: Ending | None = None,
        client: str | None = None,
    ) -> None:
        # X-Accel-Buffering: nginx passes each event on at once.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(media_type=MEDIA_TYPE, headers=headers)
        del self.headers["content-length"]
        self._feed, self._principal, self._after, self._topics = feed, principal, after, topics
        self._until = time.monotonic() + for_s
        self._at_ending, self._client = at_ending, client

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        with self._feed.open_listener(self._principal, self._client) as listener:
            if self._at_ending is not None:
                self._at_ending(listener.end_listening)
            head = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **head})
            disconnect_task = asyncio.create_task(_wait_for_disconnect(receive, listener))
            try:
                async for text in self._iter_events(listener):
                    body = {"type": "http.response.body", "body": text.encode(), "more_body": True}
                    await asyncio.wait_for(send(body), SEND_S)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            except (TimeoutError, OSError):
                return  # nobody reads
            finally:
                disconnect_task.cancel()

    async def _iter_events(self, listener: Listener) -> AsyncIterator[str]:
        batch = await self._feed.read_missed_changes(self._after)
        at = batch.newest if self._after is None or batch.changes is None else self._after
        health = _format_health(batch.health, at)
        yield f"retry: {_RETRY_MS}\n\n{health}{self._format_changes(batch)}"
        beat = time.monotonic() + HEARTBEAT_S
        while not listener.has_ended and (now := time.monotonic()) < self._until:
            await listener.wait_for_change(min(self._until, beat) - now)
            previous, batch = batch, self._collect_changes(batch, listener)
            text = (
                ""
                if batch.health == previous.health
                else _format_health(batch.health, batch.newest)
            )
            text += self._format_changes(batch)
            # Not for each change: a heartbeat must not reveal changes that this caller may not see.
            if text or time.monotonic() >= beat:
                yield text or ": still here\n\n"
                beat = time.monotonic() + HEARTBEAT_S

    def _collect_changes(self, previous: ChangeBatch, listener: Listener) -> ChangeBatch:
        feed = self._feed
        changes = None if listener.is_reset else feed.get_changes_after(previous.newest)
        listener.is_reset = False
        newest = feed.last if changes is None else max(feed.last, previous.newest)
        return ChangeBatch(changes, feed.owners, newest, feed.health)

    def _format_changes(self, batch: ChangeBatch) -> str:
        if batch.changes is None:
            return _format_event("reset", batch.newest, {"id": batch.newest, "topic": "reset"})
        events = [
            serialize_change(change, self._principal, batch.owners, self._topics)
            for change in batch.changes
        ]
        return "".join(_format_event(str(d["topic"]), int(str(d["id"])), d) for d in events if d)


async def _wait_for_disconnect(receive: Receive, listener: Listener) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    listener.end_listening()


def _format_health(status: str, number: int) -> str:
    return _format_event("health", number, {"topic": "health", "status": status})


def _format_event(name: str, number: int, data: Mapping[str, object]) -> str:
    return f"id: {number}\nevent: {name}\ndata: {json.dumps(data)}\n\n"
