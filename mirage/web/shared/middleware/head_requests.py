"""Answers HEAD as GET without the body (RFC 9110, 9.3.2)."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadMiddleware:
    """Answers each HEAD with the head of the answer to GET.

    An answer in parts ends after its head, so no export is made and no stream stays open.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        is_answered = False

        async def receive_until_answered() -> Message:
            return {"type": "http.disconnect"} if is_answered else await receive()

        async def send_head_only(message: Message) -> None:
            nonlocal is_answered
            if not is_answered:
                is_answered = True
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        # Under ASGI 2.3 an answer listens for a disconnect; since 2.4 the socket reports it.
        asgi = {**scope["asgi"], "spec_version": "2.3"}
        await self._app(
            {**scope, "method": "GET", "asgi": asgi}, receive_until_answered, send_head_only
        )
