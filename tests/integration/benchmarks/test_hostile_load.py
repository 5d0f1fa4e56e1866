"""The benchmark of hostile load, for some seconds: moves are made, and the log stays small."""

import json
from typing import Any

import pytest

from benchmarks import hostile_load

SHORT = ["--seconds", "12", "--idle", "4", "--every", "1", "--chains", "5"]
FEW = ["--halves", "120", "--tokens", "4", "--exports", "2", "--events", "40", "--ahead", "2"]


def test_no_move_is_lost_and_the_log_is_small(capsys: pytest.CaptureFixture[str]) -> None:
    code = hostile_load.main([*SHORT, *FEW, "--json"])
    result = json.loads(capsys.readouterr().out)
    phases = result["phases"]
    assert [phases[name]["moves_lost"] for name in ("idle", "load")] == [0, 0]
    idle, load = (phases[name]["moves"] for name in ("idle", "load"))
    # A busy machine may come to fewer of them in the seconds that there are.
    assert 1 <= idle <= load <= 4
    assert phases["load"]["ticks"] > 0
    assert phases["load"]["answers"] > 0
    assert result["samples"][-1]["log_bytes"] < hostile_load.LOG_BYTES
    assert result["exit_code"] == 0
    faults = hostile_load.find_faults(result)
    assert code == bool(faults)
    # A tick takes as long as the machine lets it, and callers come for as long.
    busy = ("ticks were late", "descriptors grew")
    assert [fault for fault in faults if not fault.startswith(busy)] == []
    said = hostile_load.format_table(result)
    assert f"| moves; lost | {idle}; 0 | {load}; 0 |" in said


def test_each_thing_that_is_to_be_flat_has_a_bound() -> None:
    calm = {"memory_mib": 150.0, "descriptors": 190, "log_bytes": 20_000}
    phase = {"moves_lost": 0, "seconds": 600.0, "late_s": {"p99": 0.9}}
    grown = {"memory_mib": 154.0, "descriptors": 250, "log_bytes": 1_000_001}
    late = phase | {"moves_lost": 1, "late_s": {"p99": 10.5}}

    def faults(load: dict[str, Any], last: dict[str, Any]) -> list[str]:
        samples = [calm | {"at": "half"}, last | {"at": "end"}, last | {"at": "after"}]
        phases = {"idle": phase, "load": load}
        return hostile_load.find_faults({"every_s": 10, "phases": phases, "samples": samples})

    assert faults(phase, calm) == []
    assert faults(late, grown) == [
        "1 moves were lost",
        "the log is over 1000000 bytes",
        "ticks were late by 10.5 s (p99)",
        "descriptors grew",
        "memory grew by a factor of 1.027",
    ]
    assert faults(phase | {"seconds": 12.0}, calm | {"memory_mib": 300.0}) == []
