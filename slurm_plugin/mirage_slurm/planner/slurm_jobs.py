"""Ask Slurm about jobs, and change a job's dependency: the answers of squeue and scontrol.

Standard library, Python 3.6.
"""

import os
import re
import subprocess

from mirage_slurm.planner import lead_rules

RUNS = "RUNNING"
# Columns of squeue with their widths. None of them holds a user's text.
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
# Slurm was not reached: the same words as in mirage/slurm/text/command_errors.py.
NO_ANSWER = (
    r"unable to contact|connection|connect failure|timed out|socket|zero bytes"
    r"|send failure|receive failure|unexpected message|message received"
    r"|temporarily|try again|rate limit|presently disabled|standby mode"
    r"|authentication|credential|munge|slurmdbd|database|configuration file"
    r"|can't find an address|resolve|cannot allocate memory|plugin"
)
# Errors that pass by themselves. Any other error is a refusal of the site.
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
# The first 26 bits of a job id are a local id. A federation's job has its cluster's number above them
# (slurm.conf(5), MaxJobId).
LARGEST_LOCAL_ID = (1 << 26) - 1

# The end of squeue's line "COMMENT JOB DEPENDENCY": the comment may hold anything, over several lines.
QUEUED = re.compile(r"(?:mirage:([0-9a-z]+):([0-9]{1,9}) )?\b([0-9]{1,18})[^ ]* ([^ ]+)$")
# The same for "COMMENT JOB STATE REASON" of a job with a mark; `find_queued` in mirage-link has the rule.
LINK = re.compile(r".*mirage:([0-9a-z]+):([0-9]{1,9}) ([0-9]{1,18})[^ ]* ([A-Z_]+) (.*)$")
AWAITED = re.compile(r":([0-9]{1,18})")  # a job id, not the minutes after a `+`


class Unseen(Exception):
    """Slurm does not say what has to be known, so a later turn tries again. The message says why.

    The name stands in the log of chains."""


class Row(object):
    """A job as squeue shows it; times in seconds since 1970, None if Slurm states none."""

    __slots__ = ("dependency", "eligible", "end", "nodes", "start", "state")

    def __init__(self, state, dependency, eligible, start, end, nodes):
        self.state, self.dependency = state, dependency
        self.eligible, self.start, self.end, self.nodes = eligible, start, end, nodes

    @property
    def limit_s(self):
        return max(1, self.end - self.start)


def fetch_rows(jobs, environ):
    """Return the Rows of these jobs by job id. A job that squeue does not show is left out."""
    columns = ",".join("%s:%d" % column for column in COLUMNS)
    ids = ",".join(map(str, jobs))
    words = ["squeue", "-h", "--all", "-t", "all", "-j", ids, "-O", columns]
    text = _run_command(words, max(jobs), environ)[1]
    rows = {}
    for line in text.split("\n"):
        fields, start = [], 0
        for _, width in COLUMNS:
            fields.append(line[start : start + width].strip())
            start += width
        job = lead_rules.parse_whole(fields[0])
        if job is not None:
            rows[job] = Row(fields[1], fields[2], *map(lead_rules.parse_whole, fields[3:]))
    return rows


def find_waiting(partition, environ):
    """Return (whether a job waits for nodes there, whether another user's job is seen).

    Raises Unseen if Slurm does not answer.
    """
    words = ["squeue", "-h", "--all", "-t", "PENDING,RUNNING", "-p", partition, "-o", "%U %T %r"]
    code, text, errors = _run_command(words, 0, environ)
    if code != 0:
        raise Unseen(" ".join(errors.split())[:200] or "squeue ended with %d" % (code,))
    waits, own, sees_others = False, str(os.geteuid()), False
    for line in text.split("\n"):
        uid, _, rest = line.partition(" ")
        state, _, reason = rest.partition(" ")
        sees_others = sees_others or (uid.isdigit() and uid != own)
        waits = waits or (state == "PENDING" and IN_LINE.match(reason) is not None)
    return waits, sees_others


def list_queued(environ):
    """Return (chain, link, job, ids of the jobs that it depends on) for each queued job of this user.

    Chain and link are None for a job without a mark. Raises Unseen if Slurm does not answer.
    """
    queued = []
    for line in _ask_queue("%k %i %E", environ):
        match = QUEUED.search(line)
        if match is not None:
            chain, index, job, dependency = match.groups()
            awaited = frozenset(map(int, AWAITED.findall(dependency)))
            queued.append((chain, int(index) if index else None, int(job), awaited))
    return queued


def list_links(environ):
    """Return (chain, link, job, state, reason) for each job of this user's chains in the queue.

    Raises Unseen if Slurm does not answer.
    """
    matches = map(LINK.match, _ask_queue("%k %i %T %r", environ))
    rows = [match.groups() for match in matches if match is not None]
    return [(chain, int(link), int(job), state, why) for chain, link, job, state, why in rows]


def _ask_queue(columns, environ):
    """Return squeue's lines of this user's jobs. Raises Unseen if Slurm does not answer."""
    words = ["squeue", "-h", "--all", "-u", str(os.geteuid()), "-o", columns]
    code, text, errors = _run_command(words, 0, environ)
    if code != 0:
        raise Unseen(" ".join(errors.split())[:200] or "squeue ended with %d" % (code,))
    return text.split("\n")


def hides_jobs(environ):
    """Return whether PrivateData hides other users' jobs. Raises Unseen if Slurm does not say."""
    code, text, _ = _run_command(["scontrol", "show", "config"], 0, environ)
    match = re.search(r"^PrivateData *= *(\S+)", text, re.MULTILINE)
    if code != 0 or match is None:
        raise Unseen("scontrol does not say what PrivateData hides")
    return "jobs" in match.group(1).split(",")


def _run_command(words, job, environ):
    """Run one of Slurm's commands: (exit code, output, errors). SQUEUE_ variables of the user, which
    would narrow the answer, do not count.

    `job`: the largest job id in question. A local id saves an RPC to the federation.
    """
    variables = {name: value for name, value in environ.items() if not name.startswith("SQUEUE_")}
    variables["SLURM_TIME_FORMAT"] = "%s"
    if job <= LARGEST_LOCAL_ID:
        variables.update(SQUEUE_LOCAL="yes", SCONTROL_LOCAL="yes")  # one RPC less for each command
    return run_program(words, variables, ASK_S)


def run_program(words, environ, limit_s):
    """Run a program: (exit code, output, errors). The exit code is 124 if it took longer than `limit_s`."""
    process = subprocess.Popen(  # noqa: S603 - an argument vector
        ["timeout", str(limit_s)] + words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
    )
    output, errors = process.communicate()
    return process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")


def change_dependency(job, dependency, environ):
    """Change a job's dependency. Return None, or the site's refusal in words.

    Raises Unseen if Slurm does not answer: the change may or may not have been made.
    """
    code, _, errors = _run_command(
        ["scontrol", "update", "JobId=%d" % (job,), "Dependency=%s" % (dependency,)], job, environ
    )
    if code == 0:
        return None
    why = " ".join(errors.split())[:200]
    # A refusal has words. A command that a signal ended has none: perhaps this job is ending.
    if not why or not 0 < code < 124 or PASSING.search(why) is not None:
        raise Unseen(why or "scontrol ended with %d" % (code,))
    return why
