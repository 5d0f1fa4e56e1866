"""Sends requests to slurmrestd in its API version, and tells success, refusal and no answer
apart."""

import threading
from collections.abc import Callable
from typing import TypeVar

from mirage.errors import AccountingOff, ClusterRefused, ClusterUnavailable
from mirage.slurm.clients.answer_reader import AnswerReader
from mirage.slurm.clients.restd.http import PathNotServed, Reply, RestHttp
from mirage.slurm.restd import envelope, history
from mirage.slurm.text.command_errors import is_accounting_off, is_refusal, is_unreachable

_FIRST_ERROR_STATUS = 400
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

    def send_query(self, request: DialectRequest) -> Reply:
        """Return the answer of a query, or raise its error. Only a clear refusal is
        ClusterRefused."""
        reply = self.send_in_dialect(request)
        complaint = self.format_complaints(reply, ignored=history.NOTHING_FOUND)
        if complaint is None:
            return reply
        if is_accounting_off(complaint):
            raise AccountingOff(complaint)
        raise ClusterRefused(complaint) if is_refusal(complaint) else ClusterUnavailable(complaint)

    def send_move(
        self, action: str, request: DialectRequest, *, ignored: int | None = None
    ) -> Reply:
        """Return the answer of a move, or raise its error. Every error that is not about reaching
        Slurm is a refusal."""
        reply = self.send_in_dialect(request)
        complaint = self.format_complaints(reply, ignored=ignored)
        if complaint is None:
            return reply
        message = f"slurmrestd, {action}: {complaint}"
        raise ClusterUnavailable(message) if self._is_unreached(reply) else ClusterRefused(message)

    def format_complaints(self, reply: Reply, *, ignored: int | None = None) -> str | None:
        """Return the complaints of a reply in one line; None for a good reply."""
        errors = self.list_complaints(reply)
        relevant = [error for error in errors if ignored is None or error.number != ignored]
        if not relevant and (reply.status < _FIRST_ERROR_STATUS or errors):
            return None
        texts = list(dict.fromkeys(map(str, relevant)))
        return f"{'; '.join(texts)[:500] or 'no word of why'} (HTTP {reply.status})"

    def send_in_dialect(self, request: DialectRequest) -> Reply:
        """Send a request. A 404 means that slurmrestd was replaced: it did nothing, and the request
        is sent once more in its version."""
        dialect = self.get_dialect()
        try:
            return request(dialect)
        except PathNotServed:
            self.forget_dialect()
            if self.get_dialect() == dialect:
                raise
            return request(self.get_dialect())

    def read_answer(self, parse: Callable[[], T]) -> T:
        """Return the value that `parse` reads. Raises ClusterUnavailable if it cannot."""
        return self._read("slurmrestd", parse)

    def list_complaints(self, reply: Reply) -> list[envelope.ReportedError]:
        return self.read_answer(lambda: envelope.list_errors(reply.body))

    def _is_unreached(self, reply: Reply) -> bool:
        """Return whether the reply means that Slurm was not reached.

        Only Slurm's own error texts count: a description may hold the socket's path, and so any
        word.
        """
        errors = self.list_complaints(reply)
        return (
            not errors
            or all(error.number == -1 for error in errors)
            or any(is_unreachable(error.error) for error in errors)
        )
