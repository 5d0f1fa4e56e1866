"""The benchmark of hostile load, for some seconds: moves are made, and the log stays small."""

import json

import pytest

from benchmarks import hostile_load

SHORT = ["--seconds", "12", "--idle", "4", "--every", "1", "--chains", "5"]
FEW = ["--halves", "120", "--tokens", "4", "--exports", "2", "--events", "40"]


def test_no_move_is_lost_and_the_log_is_small(capsys: pytest.CaptureFixture[str]) -> None:
    assert hostile_load.main([*SHORT, *FEW, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    phases = result["phases"]
    assert [phases[name]["moves_lost"] for name in ("idle", "load")] == [0, 0]
    assert [phases[name]["moves"] for name in ("idle", "load")] == [1, 4]
    assert phases["load"]["ticks"] > 0
    assert phases["load"]["answers"] > 0
    assert result["samples"][-1]["log_bytes"] < hostile_load.LOG_BYTES
    assert result["exit_code"] == 0
    said = hostile_load.table(result)
    assert "| moves; lost | 1; 0 | 4; 0 |" in said
