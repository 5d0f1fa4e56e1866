"""A cluster reached through the Slurm commands on this host.

What to say and how to read it lives in `mirage.slurm`.
"""

import os
import pwd
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from mirage.cluster.lane import SLOW_S, Lane, Patience
from mirage.cluster.meter import Usage
from mirage.cluster.runner import Runner
from mirage.domain.job import Job, JobId
from mirage.domain.snapshot import Node, Queue
from mirage.errors import ClusterError, ClusterRefused, ClusterUnavailable, MalformedText
from mirage.slurm import holds, rows, sacct, sacctmgr, scancel, scontrol, sdiag, sinfo, squeue
from mirage.slurm.complaints import move_complaint, query_complaint

T = TypeVar("T")

_JOBS_AT_ONCE = 200


class SlurmCli:
    """Implements `ports.Cluster`. Queries wait for each other and back off; moves do neither."""

    def __init__(
        self,
        *,
        timeout_s: float = 15.0,
        patience: Patience | None = None,
    ) -> None:
        self._runner = Runner(timeout_s=timeout_s)
        # Where the clock runs fast (the testbed), whoever allows more seconds means these as well.
        patience = patience or Patience(slow_s=max(SLOW_S, timeout_s / 10))
        self._controller = Lane(patience)
        self._accounting = Lane(patience)
        # slurmctld too, and by itself: nobody waits for the queue because this does not read.
        self._statistics = Lane(patience)
        self._sacct_fields: tuple[str, ...] | None = None
        self._pinned: set[JobId] = set()

    def now(self) -> int:
        return int(time.time())

    def usage(self) -> Mapping[str, Usage]:
        """Calls and seconds by command, since the start."""
        return self._runner.usage()

    def queue(self) -> Queue:
        return self._controller.ask("queue", self._queue)

    def nodes(self) -> tuple[Node, ...]:
        return self._controller.ask("nodes", self._nodes)

    def site_config(self) -> scontrol.SiteConfig:
        return self._controller.ask("config", self._site_config)

    def diagnosis(self) -> tuple[sdiag.Diagnosis, str]:
        """slurmctld's count of what it was asked, and who asks here."""
        return self._statistics.ask("diag", self._diagnosis), own_name()

    def roster(self) -> sacctmgr.Roster:
        """Who is Operator, and who coordinates which accounts. Asks slurmdbd."""
        return self._accounting.ask("roster", self._roster)

    def history(self, since: int, until: int) -> Iterator[Job]:
        """One question: who wants a long span asks for it in pieces."""
        yield from self._window(since, until) if since < until else ()

    def jobs(self, job_ids: Sequence[JobId]) -> list[Job]:
        wanted = sorted(set(job_ids))
        found: list[Job] = []
        for i in range(0, len(wanted), _JOBS_AT_ONCE):
            found += self._records(wanted[i : i + _JOBS_AT_ONCE])
        # The id of an array brings all its tasks.
        return [job for job in found if job.job_id in set(wanted)]

    def free(self, standby: JobId, *, dependency: str, unpin: bool = False) -> None:
        """`unpin` where an earlier process pinned it; a user's own node list stays otherwise."""
        pinned = unpin or standby in self._pinned
        self._move(scontrol.free_argv(standby, dependency, unpin=pinned))
        self._pinned.discard(standby)

    def pin(self, standby: JobId, *, dependency: str, node_list: str) -> None:
        own = "" if standby in self._pinned else self._asked_nodes(standby)
        if own:
            # A job has one list of nodes: the pin would replace it, and the unpin clear it.
            raise ClusterRefused(f"job {standby} asks for nodes itself ({own}): it is not pinned")
        self._move(scontrol.pin_argv(standby, dependency, node_list))
        self._pinned.add(standby)

    def hold(self, standby: JobId, *, dependency: str, unpin: bool = False) -> None:
        """`unpin` as in `free`."""
        pinned = unpin or standby in self._pinned
        self._move(scontrol.hold_argv(standby, dependency, unpin=pinned))
        self._pinned.discard(standby)

    def suspend(self, standby: JobId) -> None:
        """Looks before and after: slurmctld would make a user's hold of an admin's.

        An admin's hold that comes between the first look and the move (the time that scontrol
        takes: 20 ms, and more on a busy host) becomes a user's, and nothing in Slurm shows it. One
        that comes later stays, and is told.
        """
        holds.check_unheld(standby, self._hold_of(standby))
        self._move(scontrol.suspend_argv(standby))
        shown = self._hold_of(standby)
        if holds.started_held(shown):
            self._move(scontrol.resume_argv(standby))
        holds.check_made(standby, shown)

    def resume(self, standby: JobId) -> None:
        """Looks before: slurmctld would lift an admin's hold as well. One that takes the place of
        the user's between the look and the move (as in `suspend`) is lifted."""
        holds.check_users(standby, self._hold_of(standby))
        self._move(scontrol.resume_argv(standby))

    def cancel(self, job_id: JobId) -> None:
        """A job that is over already is left at that."""
        done = self._runner.run(scancel.argv(job_id))
        _raise_if(move_complaint("scancel", done.code, scancel.remarks(done.stderr)))

    def _asked_nodes(self, job_id: JobId) -> str:
        """Part of a move: it waits for no other query."""
        separator = _separator()
        answer = self._query(squeue.asked_nodes_argv(job_id, separator))
        return _read("squeue", lambda: squeue.asked_nodes(answer, separator))

    def _hold_of(self, job_id: JobId) -> list[holds.Shown]:
        """Part of a move, as `_asked_nodes`."""
        answer = self._query(squeue.hold_argv(job_id))
        return _read("squeue", lambda: squeue.hold(answer))

    def _queue(self) -> Queue:
        separator, taken_at = _separator(), self.now()
        answer = self._query(squeue.argv(separator))
        return _read("squeue", lambda: squeue.parse(answer, taken_at, separator))

    def _nodes(self) -> tuple[Node, ...]:
        separator = _separator()
        answer = self._query(sinfo.argv(separator))
        return _read("sinfo", lambda: sinfo.parse(answer, separator))

    def _site_config(self) -> scontrol.SiteConfig:
        answer = self._query(scontrol.show_config_argv())
        return _read("scontrol", lambda: scontrol.site_config(answer))

    def _diagnosis(self) -> sdiag.Diagnosis:
        answer = self._query(sdiag.argv())
        return _read("sdiag", lambda: sdiag.parse(answer))

    def _roster(self) -> sacctmgr.Roster:
        answer = self._query(sacctmgr.show_users_argv())
        return _read("sacctmgr", lambda: sacctmgr.parse_users(answer))

    def _window(self, since: int, until: int) -> list[Job]:
        return self._accounting.ask(
            f"history {since} {until}",
            lambda: self._sacct(lambda f, s: sacct.window_argv(f, since, until, s)),
        )

    def _records(self, job_ids: Sequence[JobId]) -> list[Job]:
        return self._accounting.ask(
            f"jobs {job_ids}",
            lambda: self._sacct(lambda f, s: sacct.jobs_argv(f, job_ids, s)),
        )

    def _sacct(self, argv: Callable[[Sequence[str], str], list[str]]) -> list[Job]:
        if self._sacct_fields is None:
            known = self._query(sacct.helpformat_argv())
            self._sacct_fields = _read("sacct", lambda: sacct.fields(known))
        fields, separator = self._sacct_fields, _separator()
        answer = self._query(argv(fields, separator))
        return _read("sacct", lambda: sacct.parse(answer, fields, separator))

    def _query(self, argv: Sequence[str]) -> str:
        done = self._runner.run(argv)
        _raise_if(query_complaint(argv[0], done.code, done.stderr))
        return done.stdout

    def _move(self, argv: Sequence[str]) -> None:
        done = self._runner.run(argv)
        _raise_if(move_complaint(argv[0], done.code, done.stderr))


def own_name() -> str:
    """As slurmctld names who runs this process; a number where nobody knows a name."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _raise_if(complaint: ClusterError | None) -> None:
    if complaint is not None:
        raise complaint


def _separator() -> str:
    """One that no job name or comment can hold: nobody knew it before."""
    return f"{rows.SEPARATOR}{secrets.token_hex(4)}{rows.SEPARATOR}"


def _read(command: str, parse: Callable[[], T]) -> T:
    """What cannot be read is no answer: nothing may be concluded from it."""
    try:
        return parse()
    except MalformedText as error:
        raise ClusterUnavailable(f"{command}'s answer does not read: {error}") from error
