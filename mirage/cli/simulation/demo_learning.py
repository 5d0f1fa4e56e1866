"""`mirage demo --learn`: shows what a site learns by night, and the hand-overs before and after."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mirage.cli.ui.learning_text import print_document
from mirage.cli.ui.signals import StopSignal
from mirage.domain.time_units import DAY_S
from mirage.errors import MirageError
from mirage.lab.demo.comparison_plan import ComparisonPlan
from mirage.lab.study_output import StudyOutput

if TYPE_CHECKING:
    from mirage.lab.demo.demo_site import DemoSite
    from mirage.lab.demo.learning_nights import LearningNights, Night
    from mirage.lab.demo.policy_comparison import PolicyOutcome


def show_learning(
    plan: ComparisonPlan,
    site: "DemoSite",
    console: Console,
    ending: StopSignal,
    *,
    says_yes: bool,
    as_json: bool,
) -> None:
    """Run the weeks of a demo that learns, and print what came of them.

    `console` shows progress. `says_yes`: the demo's admin promotes what is proposed.
    """
    from mirage.lab.demo.learning_nights import LearningNights

    start = site.world.read_clock()
    console.print(
        f"the service watches the cluster from {_format_day(start)} on, and "
        "looks each night whether there is something to learn",
        soft_wrap=True,
    )
    with _show_bars(console, start, plan.longest_s) as (show_day, output):
        demo = LearningNights(site=site, plan=plan, output=output, says_yes=says_yes)
        nights = _watch_nights(demo, console, ending, show_day)
    result = _Result(demo, nights)
    if as_json:
        typer.echo(json.dumps(result.build_document()))
    else:
        result.print_story(Console(), was_watched=console.is_terminal)


def _watch_nights(
    demo: "LearningNights",
    console: Console,
    ending: StopSignal,
    show_day: Callable[[int], None],
) -> "list[Night]":
    """Run to the end, and return the nights."""
    from mirage.lab.demo.learning_nights import Night

    nights: list[Night] = []
    steps = demo.watch()
    while True:
        try:
            step = next(steps, None)
        except MirageError:
            ending.exit_if_requested()  # Ctrl-C ends the processes that learn, too
            raise
        ending.exit_if_requested()
        if step is None:
            return nights
        if isinstance(step, Night):
            nights.append(step)
            for sentence in _list_news(step):
                console.print(escape(f"{_format_day(step.now)}: {sentence}"), soft_wrap=True)
        else:
            show_day(step)


def _list_news(night: "Night") -> list[str]:
    """List what is worth a line of this night."""
    news = list(night.document.get("settled", ()))
    if night.document["state"] != "nothing-to-do":
        news.append(night.document["sentence"])
    if night.proposed is not None:
        news.append(f"Mirage asks an admin whether {night.proposed} may be used.")
    if night.promoted is not None:
        news.append(f"{night.promoted} is in use from now on.")
    return news


class _Result:
    """What came of the weeks."""

    def __init__(self, demo: "LearningNights", nights: "list[Night]") -> None:
        self._end = demo.explain_end(nights)
        self._turned_at = demo.turned_at
        self._learned = [night for night in nights if night.document["state"] == "done"]
        self._reported_nights = [night for night in nights if _list_news(night)] or nights[-1:]
        self._champion = next((night.promoted for night in nights if night.promoted), None)
        self._before, self._after = demo.compute_before(), demo.compute_after()

    def build_document(self) -> dict[str, Any]:
        nights = [
            {
                "at": night.now,
                "proposed": night.proposed,
                "promoted": night.promoted,
                **night.document,
            }
            for night in self._reported_nights
        ]
        return {
            "nights": nights,
            "sentence": self._end,
            "promoted": self._champion,
            "turned_at": self._turned_at,
            "before": {name: asdict(outcome) for name, outcome in self._before.items()},
            "after": {name: asdict(outcome) for name, outcome in self._after.items()},
        }

    def print_story(self, console: Console, *, was_watched: bool) -> None:
        """Print the nights, the newest run of learning in full, and the hand-overs.

        A terminal on which the nights were watched has their lines already.
        """
        for night in () if was_watched and console.is_terminal else self._reported_nights:
            for sentence in _list_news(night) or [str(night.document["sentence"])]:
                console.print(escape(f"{_format_day(night.now)}: {sentence}"), soft_wrap=True)
        if self._learned:
            newest = self._learned[-1]
            console.print(f"\nThe newest run of learning, {_format_day(newest.now)}:")
            print_document(newest.document, console)
        console.print(f"[bold]{escape(self._end)}[/bold]", soft_wrap=True)
        if self._champion is None:
            console.print(
                "No model of this site came in use: the twin and the rules decided all the time."
            )
        if self._before or self._after:
            console.print(self._render_table())

    def _render_table(self) -> Table:
        turn = "the demo's end" if self._turned_at is None else _format_day(self._turned_at)
        what = "the first verdict" if self._champion is None else "the model came in use"
        table = Table(
            box=box.SIMPLE_HEAD,
            title=f"mean per hand-over before and after {turn} ({what})",
            title_justify="left",
        )
        for heading in ("policy", "when"):
            table.add_column(heading)
        for heading in ("hand-overs", "interruption h", "overlap h", "cost h"):
            table.add_column(heading, justify="right")
        for name in dict.fromkeys((*self._before, *self._after)):
            for when, outcomes in (("before", self._before), ("after", self._after)):
                table.add_row(escape(name), when, *_format_outcome(outcomes.get(name)))
        return table


def _format_outcome(outcome: "PolicyOutcome | None") -> tuple[str, ...]:
    if outcome is None:
        return ("0", "", "", "")
    means = (outcome.interruption_h, outcome.overlap_h, outcome.cost_h)
    return (str(outcome.handovers), *(f"{mean:.2f}" for mean in means))


@contextmanager
def _show_bars(
    console: Console, start: int, longest_s: int
) -> Iterator[tuple[Callable[[int], None], StudyOutput]]:
    """Show a bar of simulated days, and below it the bars of what is learned, on one display."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as bars:
        task = bars.add_task("simulated days", total=longest_s // DAY_S)

        def show_day(now: int) -> None:
            bars.update(task, completed=(now - start) // DAY_S)

        @contextmanager
        def show_progress(name: str, total: int) -> Iterator[Callable[..., None]]:
            part = bars.add_task(name, total=total)
            try:
                yield lambda steps=1: bars.advance(part, steps)
            finally:
                bars.remove_task(part)

        # What a run warns of is among the notes of its document, which the story shows.
        yield show_day, StudyOutput(lambda _: None, show_progress)


def _format_day(instant: int) -> str:
    return f"{datetime.fromtimestamp(instant, tz=UTC):%Y-%m-%d}"
