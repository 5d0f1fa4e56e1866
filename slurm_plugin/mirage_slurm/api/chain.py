"""A chain as an object: its links, its state, the wait for its end, and its cancelling.

The facts come from the Mirage service, if one that is known to be it follows the chain. Otherwise
they come from `mirage-link status`, that is from the chain's directory and squeue.
"""

import json
import os
import pwd
import re
import subprocess
import time
from typing import Any, Dict, List, Optional, Tuple

from mirage_slurm.api import reports
from mirage_slurm.api.reports import ACTIVE, Link, Report
from mirage_slurm.client import request
from mirage_slurm.client.service import Unreachable
from mirage_slurm.planner import slurm_jobs
from mirage_slurm.wrapper.carrier import PLUGIN
from mirage_slurm.wrapper.resubmission import CurrentLink

__all__ = ["Chain", "ChainError", "Link"]

ASK_S = 60  # for mirage-link status, which asks squeue and perhaps sacct; and for scancel
FIRST_PAUSE_S, LONGEST_PAUSE_S = 10.0, 60.0  # between two looks of `wait`
DECISIONS = 5  # that `explain` shows
ID = re.compile(r"[0-9a-z]{8,32}\Z")
SETTING = r"(?m)^mirage_%s='([^']*)'$"  # in the head of a carrier


class ChainError(RuntimeError):
    """Something about a chain could not be done. The message says what to do."""


class NoAnswer(ChainError):
    """Slurm did not answer in time. The chain goes on, and a later call may succeed."""


class Chain(object):
    """A chain of this user.

    `chain_id`: the id that sbatch printed, or the path of the chain's directory. `id` and
    `directory` hold both. Raises ValueError for another text.
    """

    def __init__(self, chain_id: str) -> None:
        self.directory = _find_directory(chain_id)
        self.id = os.path.basename(self.directory)
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
        return "\n".join(map(_make_printable, lines))

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
            except NoAnswer:
                state = ACTIVE  # no answer never means that the job is gone
            if state != ACTIVE:
                return state
            left_s = pause_s if deadline is None else deadline - time.monotonic()
            if left_s <= 0:
                sentence = "chain %s still goes on after %g s: wait() again, or cancel() it"
                raise TimeoutError(sentence % (self.id, timeout))
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def cancel(self) -> None:
        """End the chain: cancel its running and its pending jobs, and let no further link begin.

        Does nothing to a chain that is over. Raises ChainError if a job could not be cancelled.
        """
        try:
            is_over = self._read_report().state not in (ACTIVE, reports.PAUSED)
            if is_over and not self._find_queued():
                return
        except NoAnswer:
            pass
        self._tell_service()
        self._run_link("stop")
        try:
            # The last link first: a standby would start as the link before it ends.
            jobs = [str(job) for _, job in reversed(self._find_queued())]
        except NoAnswer as error:
            sentence = "%s. No further link begins; cancel() again later ends the jobs in the queue"
            raise NoAnswer(sentence % (error,)) from None
        complaint = self._run_scancel(jobs) if jobs else ""
        if complaint and self._find_queued():
            raise ChainError(
                "%s; no further link begins, but jobs of the chain are in the queue: scancel %s"
                % (complaint, " ".join(jobs))
            )

    # --- the service -----------------------------------------------------------------------------

    def _fetch(self, rest: str) -> Optional[Dict[str, Any]]:
        """GET /chains/ID and `rest`. Return None if no service that is known to be it has an answer."""
        if self._read_setting("service") == "none":
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

    def _tell_service(self) -> None:
        """Tell a service that the user ends the chain. It may not exist: the jobs end all the same."""
        if self._read_setting("service") == "none":
            return
        path = "%s/%s/cancel" % (request.PATH, self.id)
        try:
            request.send_request("POST", path, b"", os.environ, ["Content-Length: 0"])
        except (Unreachable, OSError):
            pass

    # --- the chain's own files, and Slurm --------------------------------------------------------

    def _read_report(self) -> Report:
        answer = self._fetch("")
        try:
            report = None if answer is None else reports.read_answer(answer)
        except (KeyError, TypeError, ValueError):
            report = None  # of another release
        return self._read_own_report() if report is None else report

    def _read_own_report(self) -> Report:
        status = reports.read_status(self._run_link("status"))
        if not any(map(reports.is_alive, status.links)):
            # A link writes down its end before it sees to the next link.
            status = status._replace(links=reports.add_queued(status.links, self._find_queued()))
        planned = self._read_setting("links")
        return reports.judge_status(self.id, status, int(planned) if planned.isdigit() else None)

    def _find_queued(self) -> List[Tuple[int, int]]:
        """Return (link, job) of each of the chain's jobs in the queue. Raises NoAnswer.

        A link that has just given its nodes back has two jobs for a moment.
        """
        try:
            rows = slurm_jobs.list_queued(self._build_environment())
        except slurm_jobs.Unseen as error:
            raise NoAnswer(
                "Slurm does not say how chain %s stands: %s" % (self.id, error)
            ) from None
        return sorted((link, job) for chain, link, job, _ in rows if chain == self.id)

    def _read_setting(self, name: str) -> str:
        """Return a setting that the wrapper wrote into the chain's carrier; "" if it cannot be read."""
        try:
            carriers = CurrentLink(self.directory, 0, "", None).read_carriers()
        except OSError:
            return ""
        texts = [os.fsdecode(text) for text in carriers]
        matches = [re.search(SETTING % (name,), text) for text in texts]
        return next((match.group(1) for match in matches if match is not None), "")

    def _run_link(self, verb: str) -> str:
        """Run mirage-link on this chain. Return its output; raises NoAnswer, ChainError."""
        words = ["sh", os.path.join(PLUGIN, "mirage-link"), verb, self.directory]
        code, output, errors = _run(words, dict(os.environ))
        if code == 124:
            raise NoAnswer("Slurm does not say within %d s how chain %s stands" % (ASK_S, self.id))
        if code != 0:
            raise ChainError(errors.strip() or "mirage-link %s ended with %d" % (verb, code))
        return output

    def _run_scancel(self, jobs: List[str]) -> str:
        """Run scancel. Return "", or why it failed."""
        environ = self._build_environment()
        for name in [name for name in environ if name.startswith("SCANCEL_")]:
            del environ[name]  # such a variable would narrow what is cancelled
        code, _, errors = _run(["scancel"] + jobs, environ)
        if code == 0:
            return ""
        return errors.strip() or "scancel ended with %d" % (code,)

    def _build_environment(self) -> Dict[str, str]:
        """Build the environment in which Slurm's commands ask the chain's own cluster."""
        environ = dict(os.environ)
        try:
            with open(os.path.join(self.directory, "clusters")) as file:
                clusters = file.readline().strip()
        except OSError:
            clusters = ""
        if clusters:
            environ["SLURM_CLUSTERS"] = clusters
        return environ


def _find_directory(chain_id: str) -> str:
    """Return where a chain's files are; `_make_state_directory` in wrapper/carrier.py has the rule."""
    if "/" in chain_id:
        return os.path.abspath(chain_id)
    base = os.environ.get("MIRAGE_STATE_DIR")
    if not base:
        home = os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir
        base = os.path.join(home, ".local", "state", "mirage")
    return os.path.join(os.path.abspath(base), chain_id)


def _run(words: List[str], environ: Dict[str, str]) -> Tuple[int, str, str]:
    """Run a command for ASK_S at most. Return its exit code (124: it took too long) and its outputs."""
    process = subprocess.Popen(  # noqa: S603 - an argument vector
        ["timeout", str(ASK_S)] + words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
    )
    output, errors = process.communicate()
    return process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")


def _make_printable(line: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in line)
