"""slurmrestd's `/slurm/<version>/diag`: the RPCs that slurmctld has served, by user."""

from typing import Any

from mirage.errors import MalformedText
from mirage.slurm.commands.sdiag import Diagnosis, UserCalls
from mirage.slurm.restd.envelope import (
    Payload,
    expect_mapping,
    parse_instant,
    parse_text,
    require_number,
    require_objects,
)


def parse_diagnosis(answer: Any) -> Diagnosis:
    statistics = expect_mapping(expect_mapping(answer).get("statistics"))
    at = parse_instant(statistics.get("req_time"))
    if at is None:
        raise MalformedText("statistics without their time: half an answer")
    return Diagnosis(
        at=at,
        since=parse_instant(statistics.get("req_time_start")),
        users=tuple(_parse_user_calls(row) for row in require_objects(statistics, "rpcs_by_user")),
    )


def _parse_user_calls(row: Payload) -> UserCalls:
    return UserCalls(
        user=parse_text(row.get("user")),
        calls=require_number(row, "count"),
        us=require_number(row, "total_time"),
    )
