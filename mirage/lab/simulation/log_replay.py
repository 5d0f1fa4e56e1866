"""The replay of a log: which submissions are judged, and the document of the result."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from mirage.errors import InputError
from mirage.history.workloads.replay import Replay
from mirage.lab.simulation.fidelity import Window, choose_window
from mirage.lab.simulation.simulation import SimulationReport
from mirage.simulator.slurm_release import find_release, is_unchecked

_NAMED = 5
"""The most jobs that are named for each kind of bad row."""


def choose_judged_window(replay: Replay, begin: int | None, until: int | None) -> Window:
    """Choose the window of the judged submissions.

    `begin` and `until` are epoch seconds. Where one is None, `fidelity.choose_window` chooses that
    end. Raises InputError if one of them is set and the window is empty.
    """
    suggested = choose_window(replay.workload.submit, replay.logged)
    window = Window(
        begin=suggested.begin if begin is None else begin,
        end=suggested.end if until is None else until,
    )
    is_chosen = begin is not None or until is not None
    if is_chosen and window.begin >= window.end:
        raise InputError("--from must be before --until and before the trace's last submission")
    return window


def build_document(replay: Replay, report: SimulationReport, version: str) -> dict[str, Any]:
    """Build the document that `mirage simulate --json` prints. `version`: the cluster file's
    SLURM_VERSION."""
    document = asdict(report)
    window = document.pop("window")
    if document["fidelity"] is not None:
        document["fidelity"] |= {"from": window["begin"], "until": window["end"]}
    planner = {
        "slurm_version": version,
        "planned_as": str(find_release(version)),
        "planner_checked": not is_unchecked(version),
    }
    return document | planner | {"rows": summarize_rows(replay)}


def summarize_rows(replay: Replay) -> dict[str, Any]:
    """Count the log's rows. `read` is the sum of jobs, refused rows and skipped rows; the other
    rows are counted by kind and reason."""
    return {"read": replay.read, **count_rows_by_reason(replay)}


def count_rows_by_reason(replay: Replay) -> dict[str, dict[str, dict[str, Any]]]:
    """Count the rows that are not replayed exactly as logged, by kind and reason. The first rows of
    each reason are named."""
    kinds = {"refused": replay.refused, "skipped": replay.skipped, "assumed": replay.assumed}
    return {
        kind: {
            reason: {"rows": rows, "first": replay.rows_by_reason.get(reason, [])[:_NAMED]}
            for reason, rows in sorted(reasons.items())
        }
        for kind, reasons in kinds.items()
    }


def format_day(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")
