"""Ask Slurm about jobs, and change a job's dependency: the answers of squeue and scontrol.

Standard library, Python 3.6.
"""

import os
import re
import subprocess

import mirage_forecast

RUNS = "RUNNING"
# Of squeue, in columns of a width: a user's text is in none of them.
COLUMNS = (
    ("JobID", 20),
    ("State", 20),
    ("Dependency", 160),
    ("EligibleTime", 24),
    ("StartTime", 24),
    ("EndTime", 24),
    ("NumNodes", 12),
)
ENDED = frozenset(
    "COMPLETED FAILED TIMEOUT PREEMPTED NODE_FAIL CANCELLED OUT_OF_MEMORY BOOT_FAIL DEADLINE".split()
)
# Slurm was not reached: the words of mirage/slurm/text/command_errors.py.
NO_ANSWER = (
    r"unable to contact|connection|connect failure|timed out|socket|zero bytes"
    r"|send failure|receive failure|unexpected message|message received"
    r"|temporarily|try again|rate limit|presently disabled|standby mode"
    r"|authentication|credential|munge|slurmdbd|database|configuration file"
    r"|can't find an address|resolve|cannot allocate memory|plugin"
)
# What is no word of the site's, but of the moment.
PASSING = re.compile(NO_ANSWER + "|pending execution|invalid job id|completed", re.IGNORECASE)
# Reasons of jobs that would start if nodes were free: waits_for_nodes of
# mirage/slurm/text/wait_explanations.py is the service's rule.
IN_LINE = re.compile(
    r"\(?(?:Constraints|PartitionBusy|Priority|Resources)\b"
    r"|\(?Nodes.required.for.job.are.DOWN|\(?ReqNodeNotAvail.*may.be.reserved.for.other.job"
    r"|Required.nodes.lack.available.resources|.*\btopology\b",
    re.IGNORECASE,
)
ASK_S = 20
# slurm.conf(5), MaxJobId: the first 26 bits are a local id; a federation's jobs have their cluster's above.
LARGEST_LOCAL_ID = (1 << 26) - 1

# The end of a line: a comment before it may hold anything, over several lines.
QUEUED = re.compile(r"(?:mirage:([0-9a-z]+):([0-9]{1,9}) )?\b([0-9]{1,18})[^ ]* ([^ ]+)$")
AWAITED = re.compile(r":([0-9]{1,18})")  # not the minutes after a +


class Unseen(Exception):
    """Slurm does not say what has to be known."""


class Row(object):
    __slots__ = ("dependency", "eligible", "end", "nodes", "start", "state")

    def __init__(self, state, dependency, eligible, start, end, nodes):
        self.state, self.dependency = state, dependency
        self.eligible, self.start, self.end, self.nodes = eligible, start, end, nodes

    @property
    def limit_s(self):
        return max(1, self.end - self.start)


def fetch_rows(jobs, environ):
    """Slurm's word on these jobs, by id."""
    form = ",".join("%s:%d" % column for column in COLUMNS)
    ids = ",".join(map(str, jobs))
    words = ["squeue", "-h", "--all", "-t", "all", "-j", ids, "-O", form]
    out = _run_command(words, max(jobs), environ)[1]
    found = {}
    for line in out.split("\n"):
        fields, at = [], 0
        for _, width in COLUMNS:
            fields.append(line[at : at + width].strip())
            at += width
        job = mirage_forecast.parse_whole(fields[0])
        if job is not None:
            found[job] = Row(fields[1], fields[2], *map(mirage_forecast.parse_whole, fields[3:]))
    return found


def find_waiting(partition, environ):
    """Return (whether a job waits for nodes there, whether another user's job is seen).

    Raises Unseen where Slurm does not answer.
    """
    words = ["squeue", "-h", "--all", "-t", "PENDING,RUNNING", "-p", partition, "-o", "%U %T %r"]
    code, out, errors = _run_command(words, 0, environ)
    if code != 0:
        raise Unseen(" ".join(errors.split())[:200] or "squeue ended with %d" % (code,))
    waits, own, sees_others = False, str(os.geteuid()), False
    for line in out.split("\n"):
        uid, _, rest = line.partition(" ")
        state, _, reason = rest.partition(" ")
        sees_others = sees_others or (uid.isdigit() and uid != own)
        waits = waits or (state == "PENDING" and IN_LINE.match(reason) is not None)
    return waits, sees_others


def list_queued(environ):
    """(chain, link, job, the jobs that it waits for) of each of this user's jobs in the queue; None
    as chain and link of a job without a mark. Raises Unseen where Slurm does not answer."""
    words = ["squeue", "-h", "--all", "-u", str(os.geteuid()), "-o", "%k %i %E"]
    code, out, errors = _run_command(words, 0, environ)
    if code != 0:
        raise Unseen(" ".join(errors.split())[:200] or "squeue ended with %d" % (code,))
    queued = []
    for line in out.split("\n"):
        match = QUEUED.search(line)
        if match is not None:
            chain, index, job, dependency = match.groups()
            awaited = frozenset(map(int, AWAITED.findall(dependency)))
            queued.append((chain, int(index) if index else None, int(job), awaited))
    return queued


def hides_jobs(environ):
    """Return whether PrivateData hides other users' jobs. Raises Unseen where Slurm does not say."""
    code, out, _ = _run_command(["scontrol", "show", "config"], 0, environ)
    told = re.search(r"^PrivateData *= *(\S+)", out, re.MULTILINE)
    if code != 0 or told is None:
        raise Unseen("scontrol does not say what PrivateData hides")
    return "jobs" in told.group(1).split(",")


def _run_command(words, job, environ):
    """(exit code, output, errors) of one of Slurm's commands, whatever narrows its answers."""
    own = {name: value for name, value in environ.items() if not name.startswith("SQUEUE_")}
    own["SLURM_TIME_FORMAT"] = "%s"
    if job <= LARGEST_LOCAL_ID:
        own.update(SQUEUE_LOCAL="yes", SCONTROL_LOCAL="yes")  # an RPC less each
    done = subprocess.Popen(  # noqa: S603 - an argument vector
        ["timeout", str(ASK_S)] + words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=own,
    )
    out, errors = done.communicate()
    return done.returncode, out.decode("utf-8", "replace"), errors.decode("utf-8", "replace")


def change_dependency(job, dependency, environ):
    """Change a job's dependency; None, or in words why the site refuses.

    Raises Unseen where Slurm does not answer: the change may or may not have been made.
    """
    code, _, errors = _run_command(
        ["scontrol", "update", "JobId=%d" % (job,), "Dependency=%s" % (dependency,)], job, environ
    )
    if code == 0:
        return None
    why = " ".join(errors.split())[:200]
    # A refusal has words. One that a signal ended says nothing: the job's own end may have come.
    if not why or not 0 < code < 124 or PASSING.search(why) is not None:
        raise Unseen(why or "scontrol ended with %d" % (code,))
    return why
