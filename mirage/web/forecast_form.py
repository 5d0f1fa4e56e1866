"""The form "If I submitted this now": the fields as the user wrote them, and what is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from mirage.domain.job_shape import JobShape
from mirage.domain.timelimit import parse_time_limit
from mirage.errors import MalformedText

MOST_NODES = 1_000_000
MOST_GPUS = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastForm:
    """The fields as they were written, and the job shape if the fields describe a job."""

    fields: Mapping[str, str]
    faults: Mapping[str, str] = field(default_factory=dict)
    """A sentence on what is wrong, by field."""
    shape: JobShape | None = None

    @classmethod
    def from_fields(cls, **written: str) -> "ForecastForm":
        """Build the form from its fields: `to` (the partition), nodes, time, gpus, account.

        If partition, nodes and time are empty, the form has neither faults nor a shape.
        """
        fields = {name: text.strip() for name, text in written.items()}
        if not any(fields[name] for name in ("to", "nodes", "time")):
            return cls(fields=fields)
        nodes, gpus = (
            _parse_number(fields["nodes"], MOST_NODES),
            _parse_number(fields["gpus"] or "0", MOST_GPUS),
        )
        limit_s = _parse_seconds(fields["time"])
        faults = {}
        if not fields["to"] or "," in fields["to"] or not fields["to"].isprintable():
            faults["to"] = "Name one partition."
        if not nodes:
            faults["nodes"] = "Give a whole number of nodes, 1 or more."
        if not limit_s:
            faults["time"] = "Give a time limit in sbatch's format: 48:00:00, or 2-0 for 2 days."
        if gpus is None:
            faults["gpus"] = "Give a whole number of GPUs, or leave it empty for whole nodes."
        if not fields["account"].isprintable():
            faults["account"] = "Give the name of a Slurm account, or leave the field empty."
        if faults:
            return cls(fields=fields, faults=faults)
        shape = JobShape(
            partition=fields["to"],
            nodes=nodes or 1,
            time_limit_s=limit_s or 1,
            gpus=gpus or 0,
            account=fields["account"],
        )
        return cls(fields=fields, shape=shape)


def _parse_number(text: str, most: int) -> int | None:
    """Return the number; None if the text is not a whole number from 0 to `most`."""
    if not text.isascii() or not text.isdigit() or len(text) > len(str(most)):
        return None
    found = int(text)
    return found if found <= most else None


def _parse_seconds(text: str) -> int | None:
    try:
        return parse_time_limit(text)
    except MalformedText:
        return None
