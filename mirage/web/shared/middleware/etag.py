"""Adds ETags, and answers 304 to a client that already has the newest answer.

The tag is a digest of the answer's content. It stays when only the instant moves at which Mirage
last looked, and whatever the order of the keys.
"""

import hashlib
import json
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_JSON = ("application/json", "application/problem+json")
_MOVING = frozenset({"as_of", "nodes_as_of"})
"""Keys whose values move with each look at Slurm, whether or not anything has changed. (`stale`
counts: it says that the looks have stopped.)"""
_OF_304 = {"etag", "cache-control", "vary", "date", "link"}


class ETagMiddleware:
    """Adds an ETag to answers to reads under `prefix`, and only there.

    It also says which answers a client may keep.
    """

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(self._prefix):
            await self._app(scope, receive, send)
            return
        if_none_match = Headers(scope=scope).get("if-none-match", "")
        is_read = scope["method"] in {"GET", "HEAD"}
        held_start: Message | None = None

        async def send_tagged(message: Message) -> None:
            nonlocal held_start
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                is_ours = is_read and message["status"] == HTTPStatus.OK
                # The caller alone may keep the answer, and must ask whether it is still good.
                cache_control = "private, no-cache" if is_ours else "no-store"
                headers.setdefault("Cache-Control", cache_control)
                headers.add_vary_header("Authorization, Cookie, Accept")
                if is_ours and headers.get("content-type", "").startswith(_JSON):
                    held_start = message
                    return
            elif held_start is not None:
                start, held_start = held_start, None
                if not message.get("more_body"):
                    tag = build_tag(message["body"])
                    MutableHeaders(scope=start)["ETag"] = tag
                    if has_tag(if_none_match, tag):
                        start, message = _build_not_modified(start), {**message, "body": b""}
                await send(start)
            await send(message)

        await self._app(scope, receive, send_tagged)


def build_tag(body: bytes) -> str:
    """Return the ETag of an answer in JSON."""
    content = json.loads(body)
    if isinstance(content, dict):
        content = {name: value for name, value in content.items() if name not in _MOVING}
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f'"{hashlib.blake2b(plain.encode(), digest_size=12).hexdigest()}"'


def has_tag(tag_list: str, tag: str) -> bool:
    """Return whether If-Match or If-None-Match names the tag.

    A proxy that compresses an answer makes its tag weak; the content is the same.
    """
    return any(
        candidate.strip().removeprefix("W/") in {tag, "*"} for candidate in tag_list.split(",")
    )


def _build_not_modified(start: Message) -> Message:
    headers = [pair for pair in start["headers"] if pair[0].decode().lower() in _OF_304]
    return {"type": "http.response.start", "status": 304, "headers": headers}
