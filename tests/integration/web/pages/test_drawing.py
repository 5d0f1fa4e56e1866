"""Scales, words and marks, without a browser."""

import pytest

from mirage.domain.chain import Chain, ChainId, LinkState
from mirage.reports.chain_timeline import (
    ChainTimeline,
    ForecastHistory,
    ForecastPoint,
    TimelineHandover,
)
from mirage.web import formatting
from mirage.web.charts import chain_charts, forecast_chart, svg
from mirage.web.charts.scales import HoursScale, LinearScale, TimeScale, WaitScale
from tests.support.chains import make_link

NOON = 1_772_452_800  # 2026-03-02 12:00 UTC


def test_a_scale_keeps_proportions() -> None:
    scale = LinearScale(10, 20, 100, 300)
    assert [scale(v) for v in (10, 15, 20)] == [100, 200, 300]
    assert scale.clamp_to_pixel(99) == 300
    assert LinearScale(5, 5, 0, 100)(5) == 0, "nothing wide is no division by nothing"


def test_waits_take_equal_steps_for_equal_factors() -> None:
    scale = WaitScale(60, 6000, 0, 100)
    assert scale(600) == pytest.approx(50)
    assert scale(1) == 0
    assert [written for _, written in scale.list_ticks()] == ["1 min", "10 min", "1 h"]


@pytest.mark.parametrize("span", [0.5, 3, 47, 400, 9000])
def test_ticks_are_round_few_and_within(span: float) -> None:
    for scale in (
        LinearScale(-span, span, 0, 1),
        HoursScale(0, span, 0, 1),
        TimeScale(NOON, NOON + span * 3600, 0, 1),
    ):
        ticks = scale.list_ticks(8)
        assert 1 <= len(ticks) <= 9
        assert all(scale.low - 1e-6 <= value <= scale.high + 1e-6 for value, _ in ticks)
        assert len(set(ticks)) == len(ticks)


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (12_000, "3 h 20 min"),
        (7200, "2 h"),
        (187_200, "2 d 4 h"),
        (-600, "-10 min"),
        (10**7, "115 d"),
    ],
)
def test_spans_are_as_people_say_them(seconds: int, written: str) -> None:
    assert formatting.format_duration(seconds) == written


def test_instants_are_utc() -> None:
    assert formatting.format_day(NOON, NOON) == "2 Mar 12:00"
    assert formatting.format_day(NOON, NOON + 365 * 86400) == "2 Mar 2026 12:00"
    assert formatting.format_day(NOON) == "2 Mar 2026 12:00"
    assert "2026-03-02T12:00:00Z" in formatting.render_instant(NOON)
    assert "34 s ago" in formatting.render_span(NOON - 34, NOON)
    assert "in 34 min" in formatting.render_span(NOON + 2040, NOON)
    assert "0 s ago" in formatting.render_span(NOON + 5, NOON), "clocks differ by a little"


def test_hours_lose_what_says_nothing() -> None:
    assert [formatting.format_hours(v) for v in (0, 0.25, 12.5, 100.0, 340.4)] == [
        *("0 h", "0.25 h", "12.5 h", "100 h", "340 h")
    ]


def test_marks_escape_what_they_are_given() -> None:
    evil = "</title><script>"
    drawn = svg.draw_figure(
        10,
        10,
        [svg.draw_bar(0, 0, 1, 1, tooltip=evil), svg.draw_text(0, 0, evil)],
        name="x",
        title=evil,
        desc=evil,
    )
    assert "<script>" not in drawn
    assert drawn.count("&lt;script&gt;") == 4


def test_a_bar_of_nothing_is_seen_and_a_line_of_one_point_is_none() -> None:
    assert "width='1'" in svg.draw_bar(0, 0, 0, 5)
    assert svg.draw_line([(0, 0)]) == ""


def test_commands_are_set_apart_and_nothing_else_is_markup() -> None:
    said = formatting.render_code("`scontrol release 7` lets <b>it</b> go")
    assert said == "<code>scontrol release 7</code> lets &lt;b&gt;it&lt;/b&gt; go"


def test_nothing_is_no_less_than_nothing() -> None:
    assert [formatting.format_hours(value) for value in (-0.001, 0.0, -0.25)] == [
        "0 h",
        "0 h",
        "-0.25 h",
    ]


def handed_over(late_s: int, returned_s: int = 0) -> TimelineHandover:
    before, after = (
        make_link(
            "abcdefgh",
            index,
            index,
            submit=NOON,
            state=state,
            start=start,
            end=end,
            returned_s=returned_s if index > 1 else 0,
        )
        for index, state, start, end in (
            (1, LinkState.ENDED, NOON, NOON + 3600),
            (2, LinkState.RUNNING, NOON + 3600 + late_s, None),
        )
    )
    return TimelineHandover(predecessor=before, successor=after, forecast=None)


@pytest.mark.parametrize(
    ("late_s", "cls", "said"),
    [
        (0, "even", "hand-over to link 2: neither interruption nor overlap"),
        (900, "gap", "hand-over to link 2: 0.25 h of interruption"),
        (-900, "lap", "hand-over to link 2: 0.25 h of overlap"),
    ],
)
def test_a_hand_over_to_the_second_is_neither_interruption_nor_overlap(
    late_s: int, cls: str, said: str
) -> None:
    one = handed_over(late_s)
    chain = Chain(chain_id=ChainId("abcdefgh"), uid=1001)
    links = (one.predecessor, one.successor)
    found = ChainTimeline(chain=chain, links=links, handovers=(one,), course=None)
    point = ForecastPoint(at=NOON, p10=NOON, p50=NOON + 60, p90=NOON + 7200)
    close_up = chain_charts.draw_handovers(found)
    went = forecast_chart.draw_forecast_course(
        ForecastHistory(handover=one, points=(point,)), NOON + 7200
    )
    assert said in close_up
    drawn = {name for name in ("even", "gap", "lap") if f"class='{name}'" in close_up}
    assert drawn == {cls} - {"even"}, "there is no bar of nothing"
    for dots in (close_up, went):
        assert {name for name in ("even", "gap", "lap") if f"dot {name}" in dots} == {cls}


def test_an_interruption_after_nodes_that_were_given_back_is_told_with_both() -> None:
    one = handed_over(900, returned_s=1800)
    chain = Chain(chain_id=ChainId("abcdefgh"), uid=1001)
    links = (one.predecessor, one.successor)
    found = ChainTimeline(chain=chain, links=links, handovers=(one,), course=None)
    both = "hand-over to link 2: 0.25 h of interruption and 0.5 h of overlap"
    assert both in chain_charts.draw_handovers(found)
