"""A small real SMTP server, which keeps the mails that it gets, refuses a command, or hangs."""

import base64
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from email.policy import default


@dataclass
class Post:
    """The mails that a server got, and how the server behaves."""

    port: int = 0
    messages: list[Message] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    refuses: str = ""
    """The command that is answered with 550."""
    hangs: bool = False
    called: threading.Event = field(default_factory=threading.Event)
    """Is set once a client has connected."""
    go_on: threading.Event = field(default_factory=threading.Event)
    """Set it to end the hanging of `hangs`."""


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        post: Post = self.server.post  # type: ignore[attr-defined]
        post.called.set()
        if post.hangs:
            post.go_on.wait(60)
            return
        self._say("220 here")
        while line := self.rfile.readline().decode().rstrip("\r\n"):
            word = line.split(" ")[0].upper()
            if word == post.refuses:
                self._say(f"550 no {line}")
            elif word == "EHLO":
                self._say("250-here\r\n250 AUTH PLAIN")
            elif word == "AUTH":
                post.logins.append(base64.b64decode(line.split(" ")[2]).decode())
                self._say("235 welcome")
            elif word == "RCPT":
                post.recipients.append(line.partition(":")[2].split(" ")[0])
                self._say("250 known")
            elif word == "DATA":
                self._say("354 go on")
                post.messages.append(message_from_bytes(self._data(), policy=default))
                self._say("250 taken")
            elif word == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 fine")

    def _data(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line)
        return b"".join(lines)

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def serving(post: Post | None = None) -> Iterator[Post]:
    """Run a server on a free port of loopback."""
    post_office = post or Post()
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.post = post_office  # type: ignore[attr-defined]
        post_office.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield post_office
        finally:
            post_office.go_on.set()
            server.shutdown()
            thread.join()
