"""The loop beside the script that plans: when it plans, by a clock that the test moves."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.paths import PLUGIN

NEVER = 1_000_000
RELEASE = 80_000
AWAY_S = 36_000
_PROGRAM = """
for piece in files loops plan; do . "$0/mirage_slurm/carrier/$piece.sh"; done
mirage_dir=$1 away_at=$2 away_s=$3 release=$4 failing=" $5 "
mirage_index=1 mirage_job=30 mirage_pace_s=30 mirage_beat_s=600
clock=0 tries=0
date() { echo "$clock"; }
spend() { # so many seconds, and once those for which the job is suspended in between
    clock=$((clock + $1))
    [ "$clock" -lt "$away_at" ] || clock=$((clock + away_s)) away_at=1000000
}
mirage_sleep() { spend "$1"; }
mirage_plan_once() { # as mirage_plan.py: Slurm's word on the job moves the release
    tries=$((tries + 1))
    echo "turn $mirage_turn${mirage_was_suspended:+ jumped} at $clock"
    [ -z "$mirage_was_suspended" ] || release=$((release + away_s))
    again=$((clock + 3 * (release - clock) / 4))
    [ "$mirage_turn" -lt 3 ] || again=$release
    spend 30
    case $failing in *" $tries "*) return 3 ;; esac
    mirage_put plans/1 "$again 2 - - - -"
}
mirage_plan_in_turns
echo "end at $clock"
"""


def plan(chain: Path, *, away_at: int = NEVER, failing: str = "") -> list[str]:
    """What the loop does in a link that is suspended at that instant, for ten hours.

    `failing`: which of its tries come to nothing, by number.
    """
    (chain / "plans").mkdir()
    words = [str(word) for word in (chain, away_at, AWAY_S, RELEASE, failing)]
    done = subprocess.run(
        ["/bin/sh", "-c", _PROGRAM, PLUGIN, *words], capture_output=True, check=True, text=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def instant(line: str) -> int:
    return int(line.rsplit(maxsplit=1)[-1])


def test_where_nothing_is_suspended_it_plans_three_times_and_ends_at_the_release(
    tmp_path: Path,
) -> None:
    assert plan(tmp_path) == [
        "turn 1 at 31",
        "turn 2 at 60007",
        "turn 3 at 75001",
        "end at 80000",
    ]


@pytest.mark.parametrize(("away_at", "turn"), [(5_000, 1), (60_500, 2), (75_100, 3), (79_500, 3)])
def test_a_suspension_before_the_release_takes_the_turn_anew(
    tmp_path: Path, away_at: int, turn: int
) -> None:
    """After the last turn too: until the release the plan's clock runs on in Slurm."""
    done = plan(tmp_path, away_at=away_at)
    (again,) = [line for line in done if "jumped" in line]
    assert again.startswith(f"turn {turn} jumped at ")
    assert instant(again) <= away_at + AWAY_S + 600, "with the nap that it ended"
    assert done[-1] == f"end at {RELEASE + AWAY_S}"


@pytest.mark.parametrize(("away_at", "turn"), [(60_010, 2), (75_010, 3)])
def test_a_suspension_while_it_plans_takes_the_turn_anew(
    tmp_path: Path, away_at: int, turn: int
) -> None:
    """What it was told of its end was told before."""
    done = plan(tmp_path, away_at=away_at)
    assert done[turn].startswith(f"turn {turn} jumped at ")
    assert done[-1] == f"end at {RELEASE + AWAY_S}"


@pytest.mark.parametrize("away_at", [60_010, 60_200])
def test_a_try_that_came_to_nothing_forgets_no_suspension(tmp_path: Path, away_at: int) -> None:
    done = plan(tmp_path, away_at=away_at, failing="2")
    assert done[1] == "turn 2 at 60007"
    assert done[2].startswith("turn 2 jumped at ")


def test_after_a_plan_a_try_that_comes_to_nothing_is_made_again_in_five_minutes(
    tmp_path: Path,
) -> None:
    """However long an earlier link has held up the first plan."""
    tries = [instant(line) for line in plan(tmp_path, failing="1 2 3 5 6")]
    pauses = [later - sooner - 30 for sooner, later in pairwise(tries)]
    assert pauses[:3] == [300, 600, 1200]
    assert pauses[4:6] == [300, 600]
