"""A chain as an object: its links, its state, the wait for its end, and its cancelling.

The facts come from the Mirage service, if one that is known to be it follows the chain. Otherwise
they come from the chain's directory and squeue (`chain_files`).
"""

import json
import os
import time
from typing import Any, Dict, List, Optional

from mirage_slurm.api import reports
from mirage_slurm.api.chain_files import ID, ChainError, ChainFiles, SlurmFailed
from mirage_slurm.api.reports import ACTIVE, Link, Report
from mirage_slurm.client import request
from mirage_slurm.client.printable import escape_unprintable
from mirage_slurm.client.service import Unreachable
from mirage_slurm.wrapper import carrier

__all__ = ["Chain", "ChainError", "Link"]

FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 60.0  # between two looks of `wait`
DECISIONS = 5  # that `explain` shows
REFUSALS = request.REFUSALS | {
    401,
    429,
}  # of a change; a service that knows no such chain answers 404


class Chain(object):
    """A chain of this user.

    `chain_id`: the id that sbatch printed, or the path of the chain's directory. `id` and
    `directory` hold both. Raises ValueError for another text.
    """

    def __init__(self, chain_id: str) -> None:
        self._files = ChainFiles(_find_directory(chain_id))
        self.directory, self.id = self._files.directory, self._files.id
        if ID.match(self.id) is None:
            raise ValueError(
                "%r is not a chain's id: `mirage-link status` lists yours" % (chain_id,)
            )

    def __repr__(self) -> str:
        return "Chain(%r)" % (self.id,)

    @property
    def links(self) -> List[Link]:
        """The links that have begun or are in the queue, by their numbers. Raises ChainError."""
        return self._read_report().links

    @property
    def state(self) -> str:
        """active, paused, finished, cancelled or failed. Raises ChainError.

        A paused chain begins no further link before somebody resumes it. A chain has failed if it
        does not go on after the end of its last link, or if no job of it is left in the queue.
        """
        return self._read_report().state

    def explain(self) -> str:
        """Say how the chain stands and why, in lines for people. Raises ChainError."""
        report = self._read_report()
        lines = ["chain %s is %s" % (self.id, report.state)]
        lines += report.sentences
        for link in report.links:
            job = "no job yet" if link.job_id is None else "job %d" % (link.job_id,)
            lines.append("link %d (%s): %s" % (link.number, job, link.note))
        lines += self._fetch_decisions()
        return "\n".join(map(escape_unprintable, lines))

    def wait(self, timeout: Optional[float] = None) -> str:
        """Wait until the chain is over or paused, and return its state.

        It looks once a minute, at first sooner; a service or a squeue that does not answer is asked
        again. `timeout`: in seconds, None for no limit; a look under way may take a minute longer.
        Raises TimeoutError after it, and ChainError.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                state = self._read_report().state
            except SlurmFailed:
                state = ACTIVE  # no answer never means that the job is gone
            if state != ACTIVE:
                return state
            left_s = pause_s if deadline is None else deadline - time.monotonic()
            if left_s <= 0:
                sentence = "chain %s still goes on after %g s: wait() again, or cancel() it"
                raise TimeoutError(sentence % (self.id, timeout))
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def cancel(self) -> List[int]:
        """End the chain: cancel its running and its pending jobs, and let no further link begin.

        Return the ids of the cancelled jobs. Does nothing to a chain that is over. Raises ChainError
        if a job could not be cancelled; and, after the jobs were cancelled, if the service refuses
        to end the chain.
        """
        try:
            is_over = self._read_report().state not in (ACTIVE, reports.PAUSED)
            if is_over and not self._files.find_queued():
                return []
        except SlurmFailed:
            pass
        refusal = self._tell_service()
        jobs = self._files.end()
        if refusal:
            sentence = "the chain is ended in Slurm (cancelled jobs: %s), but the service refuses to end chain %s: %s"
            raise ChainError(sentence % (", ".join(map(str, jobs)) or "none", self.id, refusal))
        return jobs

    # --- the service -----------------------------------------------------------------------------

    def _fetch(self, rest: str) -> Optional[Dict[str, Any]]:
        """GET /chains/ID and `rest`. Return None if no service that is known to be it has an answer."""
        if self._files.read_setting("service") == "none":
            return None
        path = "%s/%s%s" % (request.PATH, self.id, rest)
        try:
            code, body, is_known = request.fetch_answer(path, os.environ)
            answer = json.loads(body.decode("utf-8"))
        except (Unreachable, OSError, ValueError):
            return None
        return answer if code == 200 and is_known and isinstance(answer, dict) else None

    def _fetch_decisions(self) -> List[str]:
        answer = self._fetch("/decisions?limit=%d" % (DECISIONS,))
        try:
            rows = [] if answer is None else answer["items"]
            return ["%(last_at)s, link %(link)d: %(reason)s" % row for row in rows]
        except (KeyError, TypeError, ValueError):
            return []  # of another release

    def _tell_service(self) -> str:
        """Tell a service that the user ends the chain. Return its refusal; "" for none.

        There may be no service, or none that knows the chain: the jobs end all the same.
        """
        if self._files.read_setting("service") == "none":
            return ""
        path = "%s/%s/cancel" % (request.PATH, self.id)
        try:
            request.send_request("POST", path, b"", os.environ, ["Content-Length: 0"])
        except Unreachable as error:
            is_refusal = error.code in REFUSALS
            return escape_unprintable(str(error)) if is_refusal else ""
        except OSError:
            pass
        return ""

    def _read_report(self) -> Report:
        answer = self._fetch("")
        try:
            report = None if answer is None else reports.read_answer(answer)
        except (KeyError, TypeError, ValueError):
            report = None  # of another release
        return self._files.read_report() if report is None else report


def _find_directory(chain_id: str) -> str:
    """Return where a chain's files are."""
    if "/" in chain_id:
        return os.path.abspath(chain_id)
    return os.path.join(carrier.find_state_directory(os.environ), chain_id)
