"""The timeline of `mirage chain show`: to scale, marked, and fit for every terminal."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from mirage.shipped_files import load_client_module

timeline_rows = load_client_module("command.timeline_rows")
timeline_text = load_client_module("command.timeline_text")

NOW = 1_800_000_000
HOUR = 3600
WIDE, NARROW = 140, 40
CELLS = WIDE - len("   1 101 ") - 34
"""That are drawn on, where notes stand beside."""


def iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()


def build_link_document(
    index: int, start: float | None, end: float | None, **more: Any
) -> dict[str, Any]:
    """Instants are hours from now."""
    begun, over = (None if h is None else NOW + h * HOUR for h in (start, end))
    state = "pending" if start is None else "running" if end is None else "ended"
    values = {
        "index": index,
        "job_id": 100 + index,
        "state": state,
        "position": "held",
        "eligible": None,
        "start": iso(begun),
        "end": iso(over),
        "end_state": None if end is None else "TIMEOUT",
        "time_limit_s": 20 * HOUR,
    }
    return values | more


def build_chain_document(
    *links: dict[str, Any], forecast: dict[str, Any] | None = None
) -> dict[str, Any]:
    """As the service serves it: each link hands over to the next; `forecast`: of the last start."""
    handovers = [
        {
            "link": after["index"],
            "predecessor_end": before["end"],
            "predecessor_ended": before["end"] is not None,
            "forecast": forecast if after is links[-1] else None,
        }
        for before, after in pairwise(links)
    ]
    return {"as_of": iso(NOW), "links": list(links), "handovers": handovers}


def lines(shown: Any, width: int = WIDE, *, ascii_only: bool = True) -> list[str]:
    return [line.plain for line in timeline_text.draw_lines(shown, width, ascii_only=ascii_only)]


def find_row(drawn: list[str], index: int) -> str:
    return next(line for line in drawn if line.startswith(f"{index:>4} {100 + index} "))


LATE = build_chain_document(build_link_document(1, -40, -20), build_link_document(2, -10, None))
EARLY = build_chain_document(build_link_document(1, -40, -20), build_link_document(2, -30, None))


def build_waiting(*hours: float) -> dict[str, Any]:
    """Link 2 waits, and `hours` from now are p10, p50 and p90 of its start."""
    instants = [iso(NOW + h * HOUR) for h in hours]
    return build_chain_document(
        build_link_document(1, -10, None),
        build_link_document(2, None, None, eligible=iso(NOW - 2 * HOUR)),
        forecast=dict(zip(("p10", "p50", "p90"), instants, strict=True)) if hours else None,
    )


def test_interruption_and_runs_are_to_scale() -> None:
    """40 h run and interrupted, 10 h left of the limit: 50 h in all."""
    drawn = find_row(lines(timeline_rows.build_timeline(LATE, newest=9)), 2)
    for mark in "!#-":
        assert drawn.count(mark) == pytest.approx(CELLS * 10 / 50, abs=1)
    assert drawn.endswith("runs, 10.00 h interrupted")


def test_overlap_is_marked_on_the_successor() -> None:
    drawn = find_row(lines(timeline_rows.build_timeline(EARLY, newest=9)), 2)
    assert drawn.count("%") == pytest.approx(CELLS * 10 / 40, abs=1)
    assert "10.00 h overlap" in drawn
    assert "!" not in drawn


def test_a_short_interruption_is_still_seen() -> None:
    brief = build_chain_document(
        build_link_document(1, -400, -20), build_link_document(2, -20 + 1 / 60, None)
    )
    assert find_row(lines(timeline_rows.build_timeline(brief, newest=9)), 2).count("!") == 1


def test_the_next_start_is_a_range() -> None:
    drawn = find_row(lines(timeline_rows.build_timeline(build_waiting(1, 3, 6), newest=9)), 2)
    left, middle, right = (drawn.index(mark) for mark in "[+]")
    assert middle - left == pytest.approx(2 * CELLS / 20, abs=1)
    assert right - middle == pytest.approx(3 * CELLS / 20, abs=1)
    assert set(drawn[left + 1 : middle]) == {"~"}


def test_a_start_that_is_overdue_is_expected_now() -> None:
    overdue = timeline_rows.build_timeline(build_waiting(-3, -1, 2), newest=9).rows[1].forecast
    assert overdue == (NOW, NOW, NOW + 2 * HOUR)


def test_without_a_forecast_none_is_drawn() -> None:
    assert timeline_rows.build_timeline(build_waiting(), newest=9).rows[1].forecast is None


def test_a_predecessor_that_ended_leaves_an_interruption_that_goes_on() -> None:
    open_gap = build_chain_document(
        build_link_document(1, -40, -5), build_link_document(2, None, None)
    )
    shown = timeline_rows.build_timeline(open_gap, newest=9).rows[1]
    assert shown.interruption == (NOW - 5 * HOUR, NOW)


def test_only_the_newest_links_are_drawn() -> None:
    many = build_chain_document(*(build_link_document(i, -100 + i, -99 + i) for i in range(1, 60)))
    drawn = lines(timeline_rows.build_timeline(many, newest=5))
    assert [line.split()[0] for line in drawn if " 1" in line[:9]] == ["55", "56", "57", "58", "59"]


@pytest.mark.parametrize("width", [20, NARROW, 60, 80, WIDE])
def test_no_line_of_the_drawing_is_wider_than_the_terminal(width: int) -> None:
    drawn = lines(timeline_rows.build_timeline(build_waiting(1, 2, 3), newest=9), width)
    assert max(map(len, drawn[:4])) <= width


def test_on_a_narrow_terminal_notes_stand_below() -> None:
    drawn = lines(timeline_rows.build_timeline(LATE, newest=9), NARROW)
    assert drawn[-1] == "link 2: runs, 10.00 h interrupted"
    assert len(find_row(drawn, 2)) == NARROW


def test_ascii_is_ascii() -> None:
    assert "".join(lines(timeline_rows.build_timeline(build_waiting(1, 3, 6), newest=9))).isascii()
    assert not "".join(
        lines(timeline_rows.build_timeline(LATE, newest=9), ascii_only=False)
    ).isascii()


def test_a_chain_without_links_draws_nothing() -> None:
    assert lines(timeline_rows.build_timeline(build_chain_document(), newest=9)) == []


PROGRAM = """
import os
from mirage.shipped_files import load_client_module
screen = load_client_module("command.terminal")
terminal = screen.find_terminal(os.environ)
screen.print_line(screen.Line(("x", "bold red"), f" {terminal.ascii_only}"), terminal)
"""


@pytest.mark.parametrize(
    ("locale", "plain"),
    [({"LC_ALL": "C"}, True), ({"LANG": "C"}, True), ({"LC_ALL": "C.UTF-8"}, False)],
)
def test_the_locale_decides_and_a_pipe_has_no_colour(locale: dict[str, str], plain: bool) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    program = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(program, env=kept | locale, capture_output=True, text=True, check=True)
    assert done.stdout == f"x {plain}\n"
