"""Questions as Mirage once put them to Slurm: the separator stood in the command line.

By them a test knows that its forger is good enough: a row of his is believed here.
"""

import secrets
import time
from collections.abc import Iterable, Sequence

from mirage.slurm.clients.cli.command_runner import PLAIN_ANSWERS
from tests.support.slurm_testbed import Testbed

Owner = tuple[int, int]
"""A job's id and its owner's uid."""

_QUEUE = ("JobID", "ArrayTaskID", "UserName", "UserID", "State", "SubmitTime", "Name", "Comment")
_RECORDS = ("JobIDRaw", "User", "UID", "State", "Submit", "JobName", "Comment", "SubmitLine")


def list_queue(testbed: Testbed) -> set[Owner]:
    separator = _separator()
    fields = ",".join(f"{name}:{separator}" for name in _QUEUE)
    argv = ["squeue", "--noheader", "--all", "--states=all", f"--Format={fields}"]
    return _owners(_said(testbed, argv), _QUEUE, separator, "UserID")


def records(testbed: Testbed) -> set[Owner]:
    """Of the last hour."""
    separator, now = _separator(), int(time.time())
    argv = ["sacct", "-n", "-X", "-D", "-p", "-a", f"-Suts{now - 3600}", f"-Euts{now + 60}"]
    argv += [f"--delimiter={separator}", f"--format={','.join(_RECORDS)}"]
    return _owners(_said(testbed, argv), _RECORDS, separator, "UID")


def _separator() -> str:
    return f"\x1f{secrets.token_hex(4)}\x1f"


def _said(testbed: Testbed, argv: Sequence[str]) -> str:
    return testbed.run(argv, user="mirage", env=PLAIN_ANSWERS).stdout


def _owners(answer: str, names: Sequence[str], separator: str, uid: str) -> set[Owner]:
    rows = (row.split(separator) for row in answer.split(f"{separator}\n"))
    at = names.index(uid)
    found = ((row[0], row[at]) for row in rows if len(row) == len(names))
    return {(int(job), int(owner)) for job, owner in found if job.isdigit() and owner.isdigit()}


def untrue(found: Iterable[Owner], true: Iterable[Owner]) -> set[Owner]:
    return set(found) - set(true)
