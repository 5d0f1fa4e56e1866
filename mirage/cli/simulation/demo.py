"""`mirage demo`: runs the service on a simulated cluster, and shows what each policy saves."""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from mirage.cli.cluster_file import load_site_params
from mirage.cli.simulation.demo_learning import show_learning
from mirage.cli.ui.compile_notice import warn_if_compiling
from mirage.cli.ui.signals import StopSignal, watch_signals
from mirage.config.paths import DEFAULT_PORT
from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.time_units import DAY_S, HOUR_S
from mirage.errors import InputError
from mirage.lab.demo.comparison_plan import (
    BASELINE,
    LEARNING,
    LEARNING_NODES,
    PINNED_TICK_S,
    PRESET,
    SEED,
    WARM_UP_DAYS,
    ComparisonPlan,
)

if TYPE_CHECKING:
    from mirage.lab.demo.demo_site import DemoSite
    from mirage.lab.demo.policy_comparison import PolicyOutcome

_PORT = DEFAULT_PORT + 1
"""Not the service's port, so that sbatch on this host registers no chain with a demo."""

app = typer.Typer()

_LOAD = "What the users of the cluster submit"
_CHAINS = "The chains"
_LEARNING = "Models of the site"
_CHECK_S = 1.0
_DEFAULT = ComparisonPlan(policies=())
"""For the options alone: `demo_site.PLAN` names the policies too, and takes seconds to import."""


@app.command("demo")
def run_demo(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="End after the result. Default: keep serving the pages.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    learn: Annotated[
        bool,
        typer.Option(
            "--learn",
            help="Let the site learn from its own history, for eight simulated weeks: "
            "`mirage learn` each night, and the hand-overs before and after.",
            rich_help_panel=_LEARNING,
        ),
    ] = False,
    says_yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="With --learn: promote the model that is proposed, as an admin would. "
            "Default: it waits, as by learn.promote = ask.",
            rich_help_panel=_LEARNING,
        ),
    ] = False,
    port: Annotated[
        int,
        typer.Option(
            min=0,
            max=65535,
            help="The port of API and pages. If it is in use, or 0, a free port is chosen.",
        ),
    ] = _PORT,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"Synthetic load: light, medium or heavy. Default: {PRESET}.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=f"The seed of the synthetic load: the same seed gives the same jobs. "
            f"Default: {SEED}.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Replay this log (Parquet, sacct, SWF or TACC) instead. Needs --cluster.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(
            help="The cluster file (docs/admin/clusters.md). "
            f"Default: 76 nodes, and {LEARNING_NODES} with --learn, for the synthetic load.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    begin: Annotated[
        datetime | None,
        typer.Option(
            "--from",
            help="Submit the first chains at this time (UTC): 2026-02-01, or "
            f"'2026-02-01 12:00:00'. Default: {WARM_UP_DAYS} days into the load, when a queue has "
            f"built up; with --learn {LEARNING.warm_up_days} days.",
            rich_help_panel=_CHAINS,
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(
            help="Stop at this time (UTC). Default: when all chains have ended, at most "
            f"{_DEFAULT.longest_s // DAY_S} days later or at the end of the load; with --learn "
            f"{LEARNING.longest_s // DAY_S} days later.",
            rich_help_panel=_CHAINS,
        ),
    ] = None,
    chains: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=50,
            help=f"The number of chains of each policy. They begin {_DEFAULT.spread_s // HOUR_S} h "
            f"apart. Default: {_DEFAULT.chains}, and {LEARNING.chains} with --learn.",
            rich_help_panel=_CHAINS,
        ),
    ] = None,
    links: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=200,
            help=f"The number of jobs of each chain, {_DEFAULT.time_limit_s // HOUR_S} h each, or "
            f"{LEARNING.time_limit_s // HOUR_S} h with --learn. Default: {_DEFAULT.links}; with "
            "--learn as many as there is time for.",
            rich_help_panel=_CHAINS,
        ),
    ] = None,
    nodes: Annotated[
        int,
        typer.Option(
            min=1,
            help="The nodes of each job, at most as many as the cluster has.",
            rich_help_panel=_CHAINS,
        ),
    ] = _DEFAULT.nodes,
    pin: Annotated[
        bool | None,
        typer.Option(
            "--pin/--no-pin",
            help="Whether the policy auto may pin a job to its predecessor's nodes "
            "(provision.allow_pin). Default: --pin; with --learn --no-pin, since no model is asked "
            "where a job is pinned.",
            show_default=False,
            rich_help_panel=_CHAINS,
        ),
    ] = None,
) -> None:
    """Run the real service on a simulated cluster, on an accelerated clock.

    A chain is a computation cut into links: jobs that run one after another. The demo runs chains
    of every policy beside identical chains that are left to plain Slurm (reactive). For each policy
    it prints the mean interruption (hours without a running link) and the mean overlap (hours with
    two running links) of a hand-over from one link to the next.

    The demo needs no Slurm and touches none. It keeps its files in a directory under /tmp, and
    removes the directory when it ends. `mirage demo --once` takes two minutes. With --no-pin it
    takes some ten minutes, because the policy auto then asks the twin. Ctrl-C or SIGTERM ends the
    demo at any time, with exit code 130 or 143.
    """
    from mirage import logs
    from mirage.lab.demo.demo_site import DemoSite
    from mirage.lab.demo.scenario import build_scenario, choose_window

    if says_yes and not learn:
        raise InputError("--yes promotes a model that was learned: give --learn too")
    if pin and learn:
        raise InputError("no model is asked where a job is pinned: leave --pin or --learn out")
    logs.setup_logging("auto", warnings_only=True)
    may_pin = not learn if pin is None else pin
    plan, default_nodes = _choose_plan(learn=learn, may_pin=may_pin)
    plan = replace(plan, chains=chains or plan.chains, links=links or plan.links, nodes=nodes)
    stage = build_scenario(preset, seed, trace, cluster, load_site_params, default_nodes)
    start, stop = choose_window(stage, plan, begin, until)
    plan = replace(plan, longest_s=stop - start)
    warn_if_compiling()
    with ExitStack() as stack:
        ending = stack.enter_context(watch_signals())
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mirage-demo-")))
        world = stage.build_cluster(plan, start)
        site = DemoSite.create_in(state, world, pin=may_pin, learns=learn)
        url = stack.enter_context(site.serve_api(port))
        console = Console(stderr=True)
        cluster_name = f"simulated cluster {world.params.name}"
        console.print(f"API: {url}/api/v1/chains ({cluster_name})")
        console.print(f"Pages: {url}/")
        with console.status(f"filling the cluster with jobs until {_format_instant(start)}"):
            site.fill_cluster(start, ending.exit_if_requested)
        if learn:
            show_learning(plan, site, console, ending, says_yes=says_yes, as_json=as_json)
        else:
            _compare_policies(plan, site, console, ending)
            ending.exit_if_requested()
            _print_results(_collect_results(plan, site, console), as_json=as_json)
        if not once:
            console.print(f"Pages and API stay at {url} until you press Ctrl-C.")
            site.keep_forecasting(partial(ending.wait, _CHECK_S))


def _choose_plan(*, learn: bool, may_pin: bool) -> tuple[ComparisonPlan, int]:
    """Return the plan and the nodes of the cluster that stand unless options say otherwise.

    Raises InputError if a demo that is to learn lacks packages.
    """
    if not learn:
        from mirage.lab.demo.demo_site import PLAN
        from mirage.simulator.types import Params

        plan = replace(PLAN, tick_s=PINNED_TICK_S) if may_pin else PLAN
        return plan, Params().nodes
    from mirage.lab.demo.learning_nights import FAMILIES
    from mirage.lab.learning.candidates import check_packages

    check_packages(FAMILIES)
    return LEARNING, LEARNING_NODES


def _compare_policies(
    plan: ComparisonPlan, site: "DemoSite", console: Console, ending: StopSignal
) -> None:
    steps = site.compare_policies(plan)
    total = plan.handovers * len(plan.policies)
    now = _format_instant(site.world.read_clock())
    console.print(f"the first chains are submitted, at the simulated time {now}")
    with _show_progress(console, total) as show_progress:
        for progress in steps:
            ending.exit_if_requested()
            show_progress(progress.completed, _format_instant(progress.now))


@contextmanager
def _show_progress(console: Console, total: int) -> Iterator[Callable[[int, str], None]]:
    columns = (
        TextColumn("hand-overs"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("simulated {task.fields[day]}"),
        TimeElapsedColumn(),
    )
    if not console.is_terminal:
        yield _LogProgress(console, total)
        return
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=total, day="")
        yield lambda count, day: bar.update(task, completed=count, day=day)


class _LogProgress:
    """Prints a line for every tenth of the hand-overs, if there is no terminal to draw on."""

    def __init__(self, console: Console, total: int) -> None:
        self._console, self._total, self._printed_tenths = console, total, 0

    def __call__(self, count: int, day: str) -> None:
        tenths = 10 * count // self._total
        if tenths > self._printed_tenths:
            self._printed_tenths = tenths
            self._console.print(f"{10 * tenths} % of {self._total} hand-overs, simulated {day}")


def _collect_results(
    plan: ComparisonPlan, site: "DemoSite", console: Console
) -> "dict[str, PolicyOutcome]":
    """Return the outcomes by policy.

    Prints a note if the demo stopped before all hand-overs were complete. Raises InputError if no
    hand-over of the baseline was complete.
    """
    from mirage.lab.demo.policy_comparison import compute_outcomes, list_completed_handovers

    handovers = list_completed_handovers(site.service)
    now = _format_instant(site.world.read_clock())
    total = plan.handovers * len(plan.policies)
    results = compute_outcomes(handovers, OVERLAP_PRICE)
    if not results:
        raise InputError(
            f"no hand-over of {BASELINE} was complete when the demo stopped at {now}, so nothing "
            "can be compared: choose a later --until, fewer --nodes or a lighter load"
        )
    if len(handovers) < total:
        console.print(f"stopped at {now}: {len(handovers)} of {total} hand-overs are complete")
    return results


def _print_results(results: "dict[str, PolicyOutcome]", *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"policies": {n: asdict(o) for n, o in results.items()}}))
        return
    table = Table(title="Mean per hand-over, beside identical chains under plain Slurm (reactive)")
    table.add_column("policy")
    for heading in (
        "hand-\novers",
        "inter-\nruption h",
        "overlap\nh",
        "none\n%",
        "cost\nh",
        "saved\n%",
    ):
        table.add_column(heading, justify="right")
    for name, o in sorted(results.items(), key=lambda item: item[1].cost_h):
        saved = o.less_than_reactive_pct
        table.add_row(
            name,
            str(o.handovers),
            f"{o.interruption_h:.2f}",
            f"{o.overlap_h:.2f}",
            f"{o.zero_interruption_pct:.0f}",
            f"{o.cost_h:.2f}",
            "" if name == BASELINE or saved is None else f"{saved:.0f}",
        )
    table.caption = (
        f"none: hand-overs without interruption; cost: interruption + {OVERLAP_PRICE} x overlap; "
        "saved: cost below reactive's"
    )
    Console().print(table)


def _format_instant(instant: int) -> str:
    return datetime.fromtimestamp(instant, tz=UTC).strftime("%Y-%m-%d %H:%M")
