"""slurmrestd's `/slurm/<version>/diag`: what slurmctld has been asked, by user."""

from typing import Any

from mirage.errors import MalformedText
from mirage.slurm.commands.sdiag import Asked, Diagnosis
from mirage.slurm.rest.envelope import Payload, instant, listed, mapping, needed, text


def parse(answer: Any) -> Diagnosis:
    found = mapping(mapping(answer).get("statistics"))
    at = instant(found.get("req_time"))
    if at is None:
        raise MalformedText("statistics without their time: half an answer")
    return Diagnosis(
        at=at,
        since=instant(found.get("req_time_start")),
        users=tuple(_asked(row) for row in listed(found, "rpcs_by_user")),
    )


def _asked(row: Payload) -> Asked:
    return Asked(
        user=text(row.get("user")), calls=needed(row, "count"), us=needed(row, "total_time")
    )
