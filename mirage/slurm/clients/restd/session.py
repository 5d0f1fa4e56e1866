"""Talks to slurmrestd: finds its version, and tells success, refusal and no answer apart."""

import threading
from collections.abc import Callable
from typing import TypeVar

from mirage.errors import AccountingOff, ClusterRefused, ClusterUnavailable
from mirage.slurm.clients.answer_reader import AnswerReader
from mirage.slurm.clients.restd.http import PathNotServed, Reply, RestHttp
from mirage.slurm.restd import envelope, history
from mirage.slurm.text.command_errors import is_accounting_off, is_refusal, is_unreachable

_BAD = 400
T = TypeVar("T")
DialectRequest = Callable[[envelope.Dialect], Reply]


class RestSession:
    """A session with slurmrestd. Safe to use from several threads."""

    def __init__(self, http: RestHttp, read: AnswerReader) -> None:
        self.http = http
        self._read = read
        self._dialect: envelope.Dialect | None = None
        self._lock = threading.Lock()

    def get_dialect(self) -> envelope.Dialect:
        """Return the API version in use. slurmrestd is asked once, and again after it is
        forgotten."""
        with self._lock:
            if self._dialect is None:
                reply = self.http.get("/openapi/v3", "openapi")
                self._dialect = self.read_answer(lambda: envelope.choose_dialect(reply.body))
            return self._dialect

    def forget_dialect(self) -> None:
        """Forget the version, as slurmrestd may have been replaced."""
        with self._lock:
            self._dialect = None

    def send_query(self, ask: DialectRequest) -> Reply:
        """Return the answer of a query, or raise its error. Only a clear refusal is
        ClusterRefused."""
        reply = self.send_in_dialect(ask)
        said = self.format_complaints(reply, ignored=history.NOTHING_FOUND)
        if said is None:
            return reply
        if is_accounting_off(said):
            raise AccountingOff(said)
        raise ClusterRefused(said) if is_refusal(said) else ClusterUnavailable(said)

    def send_move(self, what: str, tell: DialectRequest, *, ignored: int | None = None) -> Reply:
        """Return the answer of a move, or raise its error. Every error that is not about reaching
        Slurm is a refusal."""
        reply = self.send_in_dialect(tell)
        said = self.format_complaints(reply, ignored=ignored)
        if said is None:
            return reply
        told = f"slurmrestd, {what}: {said}"
        raise ClusterUnavailable(told) if self._is_unreached(reply) else ClusterRefused(told)

    def format_complaints(self, reply: Reply, *, ignored: int | None = None) -> str | None:
        """Return the complaints of a reply in one line; None for a good reply."""
        found = self.list_complaints(reply)
        held = [each for each in found if ignored is None or each.number != ignored]
        if not held and (reply.status < _BAD or found):
            return None
        told = list(dict.fromkeys(map(str, held)))
        return f"{'; '.join(told)[:500] or 'no word of why'} (HTTP {reply.status})"

    def send_in_dialect(self, ask: DialectRequest) -> Reply:
        """Send a request. A 404 means that slurmrestd was replaced: it did nothing, and the request
        is sent once more in its version."""
        spoken = self.get_dialect()
        try:
            return ask(spoken)
        except PathNotServed:
            self.forget_dialect()
            if self.get_dialect() == spoken:
                raise
            return ask(self.get_dialect())

    def read_answer(self, parse: Callable[[], T]) -> T:
        """Return the value that `parse` reads. Raises ClusterUnavailable if it cannot."""
        return self._read("slurmrestd", parse)

    def list_complaints(self, reply: Reply) -> list[envelope.ReportedError]:
        return self.read_answer(lambda: envelope.list_errors(reply.body))

    def _is_unreached(self, reply: Reply) -> bool:
        """Return the error, judged by Slurm's own texts, as a description may hold the socket's
        path."""
        found = self.list_complaints(reply)
        return (
            not found
            or all(each.number == -1 for each in found)
            or any(is_unreachable(each.error) for each in found)
        )
