"""Find out whether the holder of a lease still runs. Only Slurm's answer can say that it does not.

A heartbeat that changes proves that the holder runs, and saves a question to Slurm. A heartbeat
that stands still proves nothing: a step may be long, a process stopped, a file server slow. Each
node measures the standstill on its own monotonic clock, so the clocks of nodes may differ.
"""

import os
import subprocess
import time

import mirage_forecast
import mirage_lease

ENDED = frozenset(["COMPLETED", "DEADLINE", "FAILED", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"])
"""The run is over and slurmstepd has seen its processes end; so too with CANCELLED."""
CUT_OFF = frozenset(
    "BOOT_FAIL EXPEDITING NODE_FAIL PENDING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD"
    " REVOKED SPECIAL_EXIT".split()
)
"""Slurm has given the run up, or put it back; on a lost node its processes may live on a while."""
ASK_TIMEOUT_S = 30.0
LONGEST_PAUSE_S = 30.0


def ask_slurm(holder):
    """`ended`, `cancelled`, `cut off`, `there`, or None: no answer that can be read."""
    argv = ["squeue", "-h", "-t", "all", "-j", holder.job, "-O", "State:32,RestartCnt:16"]
    # By which a user's environment narrows the answer.
    unfiltered = {n: value for n, value in os.environ.items() if not n.startswith("SQUEUE_")}
    try:
        done = subprocess.run(  # noqa: S603 - squeue, and a number of ours
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(unfiltered, LC_ALL="C"),
            timeout=ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode != 0:
        # Of a job that it has purged slurmctld says so; any other error says nothing of the job.
        return "cut off" if b"Invalid job id" in done.stderr else None
    rows = [row.split() for row in done.stdout.decode("ascii", "replace").split("\n")]
    words = [_judge_row(row, holder) for row in rows if row]
    for word in (None, "there", "cut off", "cancelled"):  # a row for each het component
        if word in words:
            return word
    return "ended" if words else None


def _is_passed(chain, holder):
    passed = mirage_lease.read_file(os.path.join(chain, "passed.%d" % (holder.link,))) or ""
    return passed.strip() == holder.job


def _judge_row(columns, holder):
    if len(columns) != 2 or not columns[1].isdigit():
        return None
    state, restart = columns[0], int(columns[1])
    if state == "CANCELLED":
        return "cancelled"
    if state in ENDED:
        return "ended"
    return "cut off" if state in CUT_OFF or restart > holder.restart else "there"


class Watch(object):
    """One holder, watched until it is gone."""

    def __init__(self, leases, lease, stale_s):
        self.lease = lease
        self._leases = leases
        self._stale_s = stale_s
        self._chain = chain = os.path.dirname(leases.root)
        link = str(lease.holder.link)
        self._beats = [leases.get_path("beat", lease.number), os.path.join(chain, "beat", link)]
        self._end = os.path.join(chain, "ends", link)
        self._seen = self._read_beats()
        self._still_since = self._ask_at = time.monotonic()
        self._pause_s = min(1.0, stale_s)
        self._word = None
        self.floor_s = self._read_floor()
        self._young_until = time.monotonic() + self._measure_youth()

    def is_young(self):
        """True until the holder has worked for its floor: it is not asked to end before that."""
        return time.monotonic() < self._young_until

    def _read_floor(self):
        """In seconds, from the start of the holder's work; 0 in a chain of an older wrapper."""
        least = mirage_forecast.parse_whole(os.environ.get("MIRAGE_FLOOR"))
        if least is None:
            return 0
        holder = str(self.lease.holder.link)
        texts = [mirage_lease.read_file(os.path.join(self._chain, folder, holder))
                 for folder in ("began", "deadline")]  # fmt: skip
        began, deadline = [mirage_forecast.parse_whole((text or "").strip()) for text in texts]
        limit_s = 0 if began is None or deadline is None else max(0, deadline - began)
        return mirage_forecast.compute_floor(least, limit_s)

    def _measure_youth(self):
        """Return the seconds that are left of the floor, and never more: clocks may differ. What
        the holder took back is no new start."""
        age_s = time.time() - self._leases.find_start(self.lease)
        return self.floor_s - min(max(0, age_s), self.floor_s)

    def is_gone(self):
        """True once Slurm says that the run is over; where it was cut off, also without a beat."""
        now = time.monotonic()
        seen = self._read_beats()
        if seen != self._seen:
            self._ask_at = now + self._stale_s
            if seen[-1] != self._seen[-1]:  # the link's own word on its end: nearly gone
                self._ask_at, self._pause_s = now, min(1.0, self._stale_s)
            self._seen, self._still_since = seen, now
        if now >= self._ask_at and self._word not in ("ended", "cancelled"):
            self._word = self._ask_slurm()
            self._ask_at = self._schedule_question()
        if self._word in ("ended", "cancelled"):
            return True
        return self._word == "cut off" and now - self._still_since >= self._stale_s

    def is_cancelled(self):
        """Gone by somebody's scancel: that is meant for the chain."""
        return self._word == "cancelled"

    def _ask_slurm(self):
        """A requeued job that its successor cancelled was cut off: nobody meant the chain by it."""
        holder = self.lease.holder
        word = ask_slurm(holder)
        if word == "cancelled" and _is_passed(self._chain, holder):
            return "cut off"
        return word

    def _schedule_question(self):
        """Return when to ask next.

        No question is asked while the beat moves, unless a link has written its end: it is about to
        go.
        """
        now = time.monotonic()
        if self._word == "there" and self._seen[-1] is None:
            until = self._still_since + self._stale_s
            if now < until:
                return until
        pause, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        return now + pause

    def _read_beats(self):
        beats = [mirage_lease.read_file(path) for path in self._beats]
        return beats + [mirage_lease.read_file(self._end)]
