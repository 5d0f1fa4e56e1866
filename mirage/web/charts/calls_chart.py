"""Draws Mirage's calls to Slurm by the hour, as bars."""

from markupsafe import Markup

from mirage.domain.time_units import HOUR_S
from mirage.reports.service_status import PollingCost
from mirage.web.charts import svg
from mirage.web.charts.scales import LinearScale, TimeScale

_WIDTH, _HEIGHT = 720, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 24, 24, 36


def draw_calls(polling: PollingCost, hours: int) -> Markup:
    """Draw the calls to Slurm in the last `hours` hours."""
    until = polling.until - polling.until % HOUR_S + HOUR_S
    x = TimeScale(until - hours * HOUR_S, until, _LEFT, _WIDTH - _RIGHT)
    most = max((calls for _, calls in polling.hours), default=1)
    y = LinearScale(0, most, _HEIGHT - _BOTTOM, _TOP)
    bars = [
        svg.draw_bar(
            x(at) + 1,
            y(calls),
            x(at + HOUR_S) - x(at) - 2,
            y(0) - y(calls),
            tooltip=f"{calls} calls",
        )
        for at, calls in polling.hours
    ]
    parts = [
        svg.draw_y_axis(y, left=_LEFT, right=_WIDTH - _RIGHT, label="calls an hour", max_ticks=4),
        svg.draw_x_axis(x, top=_TOP, bottom=_HEIGHT - _BOTTOM),
        *bars,
    ]
    total = polling.total
    return svg.draw_figure(
        _WIDTH,
        _HEIGHT,
        parts,
        name="calls",
        title="Calls to Slurm by the hour",
        desc=f"{total.calls} calls in {hours} hours, {total.failures} of them failed",
    )
