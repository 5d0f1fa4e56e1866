"""Renders the shadow report as one page without scripts, fonts or pictures from elsewhere."""

from collections.abc import Iterator
from html import escape
from typing import Any

from mirage.lab.evaluation.pareto_plot import STYLE, render_plot
from mirage.lab.shadow_report.report_text import (
    COLUMNS,
    describe_pairs,
    format_cell,
    format_saving,
    format_title,
)
from mirage.reports.recommendation import LABELS, list_plotted, list_shown

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
.advice { font-size: 1.3rem; font-weight: 600; border-left: .4rem solid #2a7; padding-left: 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8886; }
th:first-child, td:first-child { text-align: left; }
"""


def render_page(document: dict[str, Any]) -> str:
    """Render the whole page. Names from the log and the cluster file are escaped."""
    return "".join(_render_lines(document))


def _render_lines(document: dict[str, Any]) -> Iterator[str]:
    recommendation = document["recommendation"]
    yield "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
    yield "<meta name='viewport' content='width=device-width'>"
    yield f"<title>Mirage: shadow report of {escape(document['cluster'])}</title>"
    yield f"<style>{_STYLE}{STYLE}</style></head><body>\n"
    yield f"<h1>Had Mirage acted on {escape(document['cluster'])}</h1>\n"
    yield f"<p class='advice'>{escape(recommendation['advice'])}</p>\n"
    yield f"<p>{escape(recommendation['reason'])}</p>\n"
    for line in describe_pairs(document):
        yield f"<p>{escape(line)}</p>\n"
    for place, group in enumerate(document["groups"]):
        yield from _render_group(group, plot_name=f"plot{place}")
    yield _FOOT


def _render_group(group: dict[str, Any], *, plot_name: str) -> Iterator[str]:
    """`plot_name`: an id that is unique on the page."""
    yield f"<h2>{escape(format_title(group))}</h2>\n"
    if group["by"] != "all":
        yield f"<p>{escape(group['recommendation']['advice'])}</p>\n"
    plotted = {n: group["policies"][n]["all"] for n in list_plotted(group["policies"])}
    yield str(render_plot(plotted, name=plot_name, labels=LABELS))
    headings = [heading.replace("-\n", "").replace("\n", " ") for heading, _, _ in COLUMNS]
    yield "<table><thead><tr>"
    for heading in ("", *headings, "Mirage saves in total, h"):
        yield f"<th scope='col'>{escape(heading)}</th>"
    yield "</tr></thead><tbody>\n"
    for name in list_shown(group["policies"]):
        figures = group["policies"][name]["all"]
        cells = [format_cell(figures, figure, digits) for _, figure, digits in COLUMNS]
        yield f"<tr><th scope='row'>{escape(LABELS.get(name, name))}</th>"
        yield from (f"<td>{escape(text)}</td>" for text in (*cells, format_saving(group, name)))
        yield "</tr>\n"
    yield "</tbody></table>\n"


_FOOT = """<p>Interruption: hours with no link running. Overlap: hours with two links running. Cost:
interruption + price x overlap. None: share of hand-overs without interruption. The brackets hold
95 % intervals over resampled days. The hours saved are those of the simulated hand-overs, not of
all hand-overs of the site. The figures come from a simulation of a log, not from a measurement.</p>
</body></html>
"""
