"""A cluster reached through the Slurm commands on this host.

`mirage.slurm.commands` builds the commands and parses their answers; this module runs them.
"""

import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mirage.domain.job import Job, JobId
from mirage.domain.snapshot import Node, Queue, Records
from mirage.errors import ClusterError, ClusterRefused
from mirage.slurm.clients.answer_reader import AnswerReader
from mirage.slurm.clients.call_stats import CallTotals
from mirage.slurm.clients.cli.accounting import SacctClient, make_separator
from mirage.slurm.clients.cli.command_runner import CommandRunner
from mirage.slurm.clients.forgery_alarms import ForgeryAlarms
from mirage.slurm.clients.host_accounts import find_user_name
from mirage.slurm.clients.ownership import refuse_another_owner
from mirage.slurm.clients.query_gate import SLOW_S, BackoffSettings, QueryGate
from mirage.slurm.commands import (
    accrual_limits,
    sacct,
    sacctmgr,
    scancel,
    scontrol,
    sdiag,
    sinfo,
    squeue,
)
from mirage.slurm.text import dependency as dependency_text
from mirage.slurm.text import holds
from mirage.slurm.text.command_errors import classify_move_error, classify_query_error

_JOBS_AT_ONCE = 200
_DOUBTS = 100
"""The most accounts that are queried one by one. No site has so many ambiguous names."""


class SlurmCli:
    """Implements `ports.Cluster`. Queries wait for each other and back off; moves do neither."""

    def __init__(
        self,
        *,
        timeout_s: float = 15.0,
        backoff: BackoffSettings | None = None,
    ) -> None:
        self._runner = CommandRunner(timeout_s=timeout_s)
        # In the testbed the clock runs fast. A time-out that was raised for it raises this too.
        backoff = backoff or BackoffSettings(slow_s=max(SLOW_S, timeout_s / 10))
        self._controller = QueryGate(backoff)
        # A query of accounting is two calls of sacct (mirage.slurm.commands.sacct).
        self._accounting = QueryGate(replace(backoff, slow_s=2 * backoff.slow_s))
        # slurmdbd too, but with a gate of its own: permissions must not wait behind a query for a
        # week of accounting.
        self._permissions = QueryGate(backoff)
        # slurmctld too, but with a gate of its own: trouble with statistics must not delay the
        # queue.
        self._statistics = QueryGate(backoff)
        self.alarms = ForgeryAlarms()
        """Alarms about text in Slurm's answers that Slurm did not write."""
        self._read = AnswerReader(self.alarms, self._runner.meter)
        self._sacct = SacctClient(self._run_query, self._read, self.alarms)
        self._pinned: set[JobId] = set()

    def read_clock(self) -> int:
        return int(time.time())

    def get_usage(self) -> Mapping[str, CallTotals]:
        """Return calls and seconds by command since the start."""
        return self._runner.get_usage()

    def fetch_queue(self) -> Queue:
        return self._controller.ask("queue", self._query_queue)

    def fetch_jobs(self, job_ids: Sequence[JobId]) -> Queue:
        return self._query_queue(job_ids)

    def fetch_nodes(self) -> tuple[Node, ...]:
        return self._controller.ask("nodes", self._query_nodes)

    def fetch_site_config(self) -> scontrol.SiteConfig:
        return self._controller.ask("config", self._query_site_config)

    def fetch_diagnosis(self) -> tuple[sdiag.Diagnosis, str]:
        """Return slurmctld's count of RPCs, and the user as whom Mirage calls it."""
        return self._statistics.ask("diag", self._query_diagnosis), get_own_name()

    def fetch_roster(self) -> sacctmgr.Roster:
        """Fetch the Operators, and the coordinators with their accounts. Asks slurmdbd."""
        return self._permissions.ask("roster", self._query_roster)

    def fetch_accrue_limits(self) -> accrual_limits.AccrueLimits:
        """Fetch the limits on how many waiting jobs earn age. Asks slurmdbd."""
        return self._permissions.ask("accrual", self._query_accrue_limits)

    def fetch_history(self, since: int, until: int) -> Iterator[Job]:
        """Fetch the records of a span in one call. Callers divide a long span."""
        if since < until:
            yield from self._query_records(
                f"history {since} {until}", sacct.build_window_options(since, until)
            )

    def fetch_job_records(self, job_ids: Sequence[JobId]) -> Records:
        wanted_ids = sorted(set(job_ids))
        batches = (
            wanted_ids[i : i + _JOBS_AT_ONCE] for i in range(0, len(wanted_ids), _JOBS_AT_ONCE)
        )
        answers = [
            self._query_records(f"jobs {ids}", sacct.build_id_options(ids)) for ids in batches
        ]
        return Records.join_records(answers, wanted_ids)

    def fetch_requested_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        ids = sorted(set(job_ids))
        if not ids:
            return {}
        return self._controller.ask(f"asked nodes {ids}", lambda: self._query_requested_nodes(ids))

    def free_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        """Release the standby. `unpin`: an earlier process pinned it. Otherwise a user's own node
        list stays."""
        self._fetch_own_job(standby, owner, expected_dependency)
        unpin_now = unpin or standby in self._pinned
        self._run_move(scontrol.build_free_argv(standby, dependency, unpin=unpin_now))
        self._pinned.discard(standby)

    def pin_standby(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        node_list: str,
        expected_dependency: str | None = None,
    ) -> None:
        requested_nodes = self._fetch_own_job(standby, owner, expected_dependency).requested_nodes
        if requested_nodes and standby not in self._pinned:
            # A job has one list of nodes: the pin would replace it, and the unpin clear it.
            raise ClusterRefused(
                f"job {standby} asks for nodes itself ({requested_nodes}): it is not pinned"
            )
        self._run_move(scontrol.build_pin_argv(standby, dependency, node_list))
        self._pinned.add(standby)

    def set_dependency(
        self,
        standby: JobId,
        *,
        owner: int,
        dependency: str,
        unpin: bool = False,
        expected_dependency: str | None = None,
    ) -> None:
        """Set the standby's dependency again. `unpin` as in `free_standby`."""
        self._fetch_own_job(standby, owner, expected_dependency)
        unpin_now = unpin or standby in self._pinned
        self._run_move(scontrol.build_set_dependency_argv(standby, dependency, unpin=unpin_now))
        self._pinned.discard(standby)

    def hold_job(self, standby: JobId, *, owner: int) -> None:
        """Hold the job, with checks before and after: slurmctld would make a user's hold of an
        admin's.

        One gap is left. An admin's hold between the first check and the move becomes a user's, and
        nothing in Slurm shows it. The gap is as long as scontrol takes: 20 ms, and more on a busy
        host. An admin's hold after the move stays, and raises JobChanged.
        """
        holds.check_unheld(standby, self._fetch_own_job(standby, owner).components)
        self._run_move(scontrol.build_uhold_argv(standby))
        components = self._fetch_own_job(standby, owner).components
        if holds.is_hold_too_late(components):
            self._run_move(scontrol.build_release_argv(standby))
        holds.check_hold_made(standby, components)

    def release_job(self, standby: JobId, *, owner: int) -> None:
        """Release the job after checking its hold, as slurmctld would lift an admin's hold too. An
        admin's hold that comes between check and move (as in `hold_job`) is lifted."""
        holds.check_users_hold(standby, self._fetch_own_job(standby, owner).components)
        self._run_move(scontrol.build_release_argv(standby))

    def cancel_job(self, job_id: JobId, *, owner: int) -> None:
        """Cancel the job. A job that is already over stays as it is."""
        self._fetch_own_job(job_id, owner)
        result = self._runner.run(scancel.build_argv(job_id))
        _raise_complaint(
            classify_move_error("scancel", result.code, scancel.filter_remarks(result.stderr))
        )

    def _fetch_own_job(
        self, job_id: JobId, owner: int, expected_dependency: str | None = None
    ) -> squeue.MoveTarget:
        """Fetch the job before a move, without waiting for other queries.

        Raises ClusterRefused for another user's job, JobChanged for a dependency that is not the
        expected one. A change during the move itself (20 ms) is not noticed.
        """
        answer = self._run_query(squeue.build_move_target_argv(job_id))
        target = self._read("squeue", lambda: squeue.parse_move_target(answer))
        refuse_another_owner(job_id, target.uid, owner)
        dependency_text.check_unchanged(job_id, target.dependency, expected_dependency)
        return target

    def _query_queue(self, job_ids: Sequence[JobId] = ()) -> Queue:
        separator, taken_at = make_separator(), self.read_clock()
        answer = self._run_query(squeue.build_argv(job_ids), squeue.build_environment(separator))
        return self._read.read_rows(
            "squeue", lambda unread: squeue.parse_queue(answer, taken_at, separator, unread)
        )

    def _query_requested_nodes(self, job_ids: Sequence[JobId]) -> Mapping[JobId, str]:
        answer = self._run_query(squeue.build_requested_nodes_argv(job_ids))
        return self._read("squeue", lambda: squeue.parse_requested_nodes(answer))

    def _query_nodes(self) -> tuple[Node, ...]:
        answer = self._run_query(sinfo.build_argv())
        return self._read.read_rows("sinfo", lambda unread: sinfo.parse_nodes(answer, unread))

    def _query_site_config(self) -> scontrol.SiteConfig:
        answer = self._run_query(scontrol.build_show_config_argv())
        return self._read("scontrol", lambda: scontrol.parse_site_config(answer))

    def _query_diagnosis(self) -> sdiag.Diagnosis:
        answer = self._run_query(sdiag.build_argv())
        return self._read("sdiag", lambda: sdiag.parse_diagnosis(answer))

    def _query_roster(self) -> sacctmgr.Roster:
        levels = [
            self._run_query(sacctmgr.build_show_level_argv(level)) for level in sacctmgr.OPERATORS
        ]
        operators = self._read(
            "sacctmgr", lambda: [sacctmgr.parse_level(answer) for answer in levels]
        )
        everywhere = self._run_query(sacctmgr.build_show_coordinators_argv())
        coordinators = self._read("sacctmgr", lambda: sacctmgr.parse_coordinators(everywhere))
        # A random choice, so that an account that is left out now is queried another time.
        count = min(len(coordinators.doubtful), _DOUBTS)
        chosen = secrets.SystemRandom().sample(coordinators.doubtful, count)
        if coordinators.doubtful or coordinators.unsafe_count:
            left_out = coordinators.unsafe_count + len(coordinators.doubtful) - count
            self.alarms.add_alarm(
                "names of accounts look like rows of other accounts, such as "
                f"{', '.join(chosen[:8])}: "
                f"{count} are queried one by one, {left_out} are left out"
            )
        confirmed = {name: self._query_coordinators(name) for name in chosen}
        return sacctmgr.build_roster(
            frozenset().union(*operators), {**coordinators.by_account, **confirmed}
        )

    def _query_accrue_limits(self) -> accrual_limits.AccrueLimits:
        name = self.fetch_site_config().cluster_name
        qos = self._run_query(accrual_limits.build_show_qos_argv())
        associations = self._run_query(accrual_limits.build_show_associations_argv(name))
        return self._read("sacctmgr", lambda: accrual_limits.parse_accrue_limits(qos, associations))

    def _query_coordinators(self, account: str) -> frozenset[str]:
        answer = self._run_query(sacctmgr.build_show_coordinators_argv(account))
        return self._read("sacctmgr", lambda: sacctmgr.parse_account_coordinators(answer))

    def _query_records(self, key: str, selection: Sequence[str]) -> Records:
        return self._sacct.settle_records(
            self._accounting.ask(key, lambda: self._sacct.fetch_answers(selection))
        )

    def _run_query(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
        result = self._runner.run(argv, environment)
        _raise_complaint(classify_query_error(argv[0], result.code, result.stderr))
        return result.stdout

    def _run_move(self, argv: Sequence[str]) -> None:
        result = self._runner.run(argv)
        _raise_complaint(classify_move_error(argv[0], result.code, result.stderr))


def get_own_name() -> str:
    """Return this process's user name as slurmctld knows it; the uid if nobody knows a name."""
    uid = os.geteuid()
    return find_user_name(uid) or str(uid)


def _raise_complaint(complaint: ClusterError | None) -> None:
    if complaint is not None:
        raise complaint
