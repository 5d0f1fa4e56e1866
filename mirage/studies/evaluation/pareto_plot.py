"""The plot of interruption against overlap. matplotlib is an extra: it is imported to draw."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mirage.episodes.judge.evaluation import Figures
from mirage.errors import InputError
from mirage.studies.output_check import check_writable

Point = tuple[float, float]

_SUFFIXES = (".png", ".svg")


def check_plot_path(path: Path) -> None:
    """Raises InputError if no plot can be written there. Called before the long work, not after
    it."""
    if path.suffix.lower() not in _SUFFIXES:
        raise InputError(f"{path}: a plot is a .png or a .svg file")
    check_writable(path)
    try:
        import matplotlib  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise InputError(
            "--plot needs matplotlib: pip install 'mirage-provisioner[plot]'"
        ) from None


def compute_pareto_front(points: Sequence[Point]) -> list[Point]:
    """Return the points that no other point beats in both overlap and interruption, sorted by
    overlap."""
    kept: list[Point] = []
    for point in sorted(points):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return kept


def draw_plot(path: Path, figures: Figures, constant_leads: Sequence[Point]) -> None:
    """Draw the policies (all hand-overs) with their intervals, over the curve of constant leads."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    _draw_line(axes, constant_leads, color="0.7", label="constant lead, known afterwards")
    judged = {name: by_class["all"] for name, by_class in figures.items()}
    # The oracle beats every policy, but its choices are known only afterwards.
    rules = [_get_point(told) for name, told in judged.items() if name != "oracle"]
    _draw_line(axes, compute_pareto_front(rules), color="0.4", linestyle=":")
    for name, told in judged.items():
        overlap, interruption = _get_point(told)
        axes.errorbar(
            overlap,
            interruption,
            xerr=_compute_error_bars(told, "overlap_h"),
            yerr=_compute_error_bars(told, "interruption_h"),
            fmt="o",
            capsize=2,
            clip_on=False,
            label=name,
        )
    axes.set_xlabel("mean overlap per hand-over, h")
    axes.set_ylabel("mean interruption per hand-over, h")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    # at-once overlaps by a whole link. The interesting part is the first hours.
    axes.set_xscale("symlog", linthresh=1.0)
    axes.legend(fontsize="small")
    try:
        figure.savefig(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


def _draw_line(axes: Any, points: Sequence[Point], **style: Any) -> None:
    axes.plot([x for x, _ in points], [y for _, y in points], zorder=1, **style)


def _get_point(told: dict[str, Any]) -> Point:
    return told["overlap_h"], told["interruption_h"]


def _compute_error_bars(told: dict[str, Any], figure: str) -> list[list[float]]:
    """Return how far the interval reaches below and above the figure, as two lists of one."""
    low, high = told[f"{figure}_ci"]
    return [[max(0.0, told[figure] - low)], [max(0.0, high - told[figure])]]
