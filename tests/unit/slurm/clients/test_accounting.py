"""What sacct says where users write into its answers, about records that it cannot tell apart."""

from collections.abc import Sequence

import pytest

from mirage.domain.job import JobId
from mirage.errors import ClusterRefused
from mirage.slurm.clients.answer_reader import AnswerReader
from mirage.slurm.clients.call_stats import CallStats
from mirage.slurm.clients.cli.accounting import SacctClient
from mirage.slurm.clients.forgery_alarms import ForgeryAlarms
from mirage.slurm.commands import sacct
from tests.support.slurm.captured import answer

HELPFORMAT = answer("sacct-helpformat.txt")
FIELDS = sacct.choose_fields(HELPFORMAT)


def written(names: Sequence[str], separator: str, *records: dict[str, str]) -> str:
    rows = [list(names), *([record.get(name, "") for name in names] for record in records)]
    return "".join(separator.join([*row, "\n"]) for row in rows)


def build_record_cells(job_id: int, uid: str, comment: str) -> dict[str, str]:
    instants = dict.fromkeys(("Submit", "Eligible", "Start", "End"), "1795604561")
    counts = {"NNodes": "1", "NCPUS": "1", "TimelimitRaw": "5", "Priority": "1", "ExitCode": "0:0"}
    named = {"JobIDRaw": str(job_id), "JobID": str(job_id), "UID": uid, "State": "COMPLETED"}
    return {**instants, **counts, **named, "User": "somebody", "Comment": comment}


@pytest.mark.parametrize("uid", ["", "4711"])
def test_a_forged_text_about_somebody_who_has_left_costs_that_text_alone(uid: str) -> None:
    """Of an account that is gone sacct prints no uid, or does not take it as an option."""
    gone, bobs = build_record_cells(7, uid, "own"), build_record_cells(8, "1002", "bob's")
    forged = build_record_cells(7, uid, "mirage:bobs:2")

    def query(argv: Sequence[str]) -> str:
        if "--helpformat" in argv:
            return HELPFORMAT
        if "--uid=4711" in argv:
            raise ClusterRefused("sacct: error: Invalid user id: 4711")
        separator = next(word for word in argv if "delimiter=" in word).partition("=")[2]
        texts = "Comment" in " ".join(argv)
        names = FIELDS.texts if texts else FIELDS.facts
        return written(names, separator, gone, bobs, *([forged] if texts else []))

    alarms = ForgeryAlarms()
    accounting = SacctClient(query, AnswerReader(alarms, CallStats()), alarms)
    jobs = accounting.settle_records(
        accounting.fetch_answers(sacct.build_id_options([JobId(7), JobId(8)]))
    )
    assert {job.job_id: job.comment for job in jobs} == {7: "", 8: "bob's"}
    assert len(alarms.take_alarms()) == 1
