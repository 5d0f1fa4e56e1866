"""`mirage demo`: the service on a simulated cluster, and what each policy saves there."""

import json
import math
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, NoReturn

import typer
import uvicorn
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from mirage import logs
from mirage.api.app import create_app
from mirage.bootstrap import wiring
from mirage.bootstrap.api_wiring import build_api_context
from mirage.bootstrap.wiring import Service
from mirage.cli.simulation.scenario import PRESET, SEED, WARM_UP_DAYS, build_scenario, choose_window
from mirage.cli.ui.compile_notice import warn_if_compiling
from mirage.cli.ui.signals import StopSignal, watch_signals
from mirage.cluster.simulated.cluster import SimulatedCluster
from mirage.config.paths import DEFAULT_PORT
from mirage.config.settings import Settings
from mirage.domain.handover import OVERLAP_PRICE
from mirage.domain.snapshot import Snapshot
from mirage.errors import InputError
from mirage.http.auth import unix_peer
from mirage.policy import registry
from mirage.services.forecasts.shape_forecaster import ShapeForecaster
from mirage.services.observation.cluster_observer import Observer
from mirage.services.observation.twin_cache import TwinCache
from mirage.studies import policy_comparison
from mirage.studies.policy_comparison import BASELINE, ComparisonPlan, PolicyOutcome
from mirage.web.app import mount_pages
from mirage.worker import Intervals, Worker

_PORT = DEFAULT_PORT + 1
"""Not the service's: sbatch on this host must not register its chains with a demo."""

app = typer.Typer()

_LEFT_OUT = registry.MOVES_OFTEN | {"twin"}
"""`auto` decides by them. All sets of chains share one queue: three more would make it another."""
_PLAN = ComparisonPlan(policies=tuple(n for n in registry.NAMES if n not in _LEFT_OUT))
_LOAD = "What the users of the cluster submit"
_CHAINS = "The chains"
_DAY_S = 86400
_HOUR_S = 3600
_HISTORY_S = 6 * _HOUR_S
_LOOK_S = 1.0


@app.command("demo")
def run_demo(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="Exit after the result. Default: the API stays up.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON on stdout.")] = False,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Of the API; another one if it is taken, or for 0."),
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
            help=f"Of the synthetic load: the same seed, the same jobs. Default: {SEED}.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Replay this log (parquet, sacct, swf, tacc) instead; with --cluster.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(
            help="Cluster file of the machine, as docs/traces.md describes it. "
            "Default: 76 nodes, for a synthetic load.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    begin: Annotated[
        datetime | None,
        typer.Option(
            "--from",
            help="Submit the first chains then (UTC): 2026-02-01, or '2026-02-01 12:00:00'. "
            f"Default: {WARM_UP_DAYS} days into the load, when a queue has built up.",
            rich_help_panel=_CHAINS,
        ),
    ] = None,
    until: Annotated[
        datetime | None,
        typer.Option(
            help="Stop then (UTC). Default: when all chains have ended, at the latest after "
            f"{_PLAN.longest_s // _DAY_S} days or where the load ends.",
            rich_help_panel=_CHAINS,
        ),
    ] = None,
    chains: Annotated[
        int,
        typer.Option(
            min=1,
            max=50,
            help=f"Of each policy, {_PLAN.spread_s // _HOUR_S} h apart.",
            rich_help_panel=_CHAINS,
        ),
    ] = _PLAN.chains,
    links: Annotated[
        int,
        typer.Option(
            min=2,
            max=100,
            help=f"Jobs of each chain, {_PLAN.time_limit_s // _HOUR_S} h each.",
            rich_help_panel=_CHAINS,
        ),
    ] = _PLAN.links,
    nodes: Annotated[
        int,
        typer.Option(min=1, help="Of each link; at most the cluster's.", rich_help_panel=_CHAINS),
    ] = _PLAN.nodes,
    pin: Annotated[
        bool,
        typer.Option(
            "--pin/--no-pin",
            help="Whether auto may pin: no is a site with provision.allow_pin = false.",
            rich_help_panel=_CHAINS,
        ),
    ] = True,
) -> None:
    """Run the real service on a simulated cluster, on an accelerated clock.

    A chain is a long job cut into links that queue one after another. Chains of every policy run
    side by side with identical chains that are left to plain Slurm (reactive). The result, per
    hand-over from one link to the next: interruption (hours with no link running) and overlap
    (hours with two).

    Needs no Slurm, and touches none: all is kept in a directory of its own under /tmp, which goes
    with the demo. `mirage demo --once` takes two minutes on two cores. Ctrl-C or SIGTERM ends it at
    any time, with exit code 130 or 143.
    """
    logs.setup_logging("auto", warnings_only=True)
    plan = replace(_PLAN, chains=chains, links=links, nodes=nodes)
    stage = build_scenario(preset, seed, trace, cluster)
    start, stop = choose_window(stage, plan, begin, until)
    plan = replace(plan, longest_s=stop - start)
    warn_if_compiling()
    with ExitStack() as stack:
        ending = stack.enter_context(watch_signals())
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mirage-demo-")))
        world = stage.build_cluster(plan, start)
        service = _build_service(state, world, pin=pin)
        url = stack.enter_context(_serve_api(service, port))
        console = Console(stderr=True)
        cluster_name = f"simulated cluster {world.params.name}"
        console.print(f"API: {url}/api/v1/chains ({cluster_name})")
        console.print(f"Pages: {url}/")
        with console.status(f"letting the cluster fill up to {_format_instant(start)}"):
            _advance_to_start(world, start, ending)
        _compare_policies(plan, service, world, console, ending)
        ending.exit_if_requested()
        _print_results(_collect_results(plan, service, world, console), as_json=as_json)
        if not once:
            console.print(f"The API stays at {url} until Ctrl-C.")
            _serve_until_ended(service, world, ending)


class _DemoSettings(Settings):
    """A demo acts on chains and a cluster that do not exist: never where real ones are kept."""

    @property
    def database_url(self) -> str:
        """Not MIRAGE_DATABASE_URL, which an admin's shell may well have set."""
        return f"sqlite:///{self.service.state_dir / 'mirage.db'}"


def _build_service(state: Path, world: SimulatedCluster, *, pin: bool) -> Service:
    settings = _DemoSettings.model_validate(
        {
            "cluster": {"name": world.params.name},
            "service": {"state_dir": state, "admins": []},
            # at-once is shown as it is, and no policy's forecasts stop the others.
            "provision": {"max_lead_h": 1000, "demote_error_h": 1e6, "allow_pin": pin},
        }
    )
    wiring.upgrade_database(settings)
    return wiring.build_service(settings, world)


@contextmanager
def _serve_api(service: Service, port: int) -> Iterator[str]:
    """Serve the API in a thread of its own; its clock is the last tick's."""
    listening = _bind_port(port)
    served = create_app(build_api_context(service))
    mount_pages(served)
    server = uvicorn.Server(
        uvicorn.Config(served, http=unix_peer.PeerProtocol, log_config=None, access_log=False)
    )
    thread = threading.Thread(target=server.run, args=([listening],), name="api", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        service.store.close()


def _bind_port(port: int) -> socket.socket:
    for candidate in (port, 0):
        try:
            return socket.create_server(("127.0.0.1", candidate))
        except OSError:
            continue
    raise InputError("no port of 127.0.0.1 is free")


def _advance_to_start(world: SimulatedCluster, start: int, ending: StopSignal) -> None:
    """Let the load alone run until `start`, a day at a time."""
    while world.read_clock() < start:
        ending.exit_if_requested()
        world.advance(min(_DAY_S, start - world.read_clock()))


def _compare_policies(
    plan: ComparisonPlan,
    service: Service,
    world: SimulatedCluster,
    console: Console,
    ending: StopSignal,
) -> None:
    intervals = Intervals(queue_s=plan.tick_s, nodes_s=2 * plan.tick_s, history_s=_HISTORY_S)
    # A tick is an instant here, however long the twin is asked.
    observer = Observer(params=world.params, foresight=TwinCache(budget_s=math.inf))
    rules = replace(
        wiring.build_rules(service),
        observer=observer,
        accrues_always=lambda: world.params.accrue_always,
    )
    worker = Worker(service.store, world, service.cluster_id, rules=rules, intervals=intervals)
    total = plan.handovers * len(plan.policies)
    console.print(
        f"the first chains are submitted, simulated {_format_instant(world.read_clock())}"
    )
    with _show_progress(console, total) as told:
        for progress in policy_comparison.run_comparison(plan, service, world, worker):
            ending.exit_if_requested()
            told(progress.done, _format_instant(progress.now))


def _serve_until_ended(service: Service, world: SimulatedCluster, ending: StopSignal) -> NoReturn:
    """The clock stands: what a job would wait that is submitted now is asked of the twin."""
    foreteller, observer = ShapeForecaster(), Observer(params=world.params)
    snapshot = Snapshot(queue=world.fetch_queue(), nodes=world.fetch_nodes())
    while True:
        foreteller.run_tick(service.store, service.cluster_id, snapshot, observer)
        ending.wait(_LOOK_S)


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
        yield lambda done, day: bar.update(task, completed=done, day=day)


class _LogProgress:
    """A line for every tenth of the way, where there is no terminal to draw on."""

    def __init__(self, console: Console, total: int) -> None:
        self._console, self._total, self._told = console, total, 0

    def __call__(self, done: int, day: str) -> None:
        tenths = 10 * done // self._total
        if tenths > self._told:
            self._told = tenths
            self._console.print(f"{10 * tenths} % of {self._total} hand-overs, simulated {day}")


def _collect_results(
    plan: ComparisonPlan, service: Service, world: SimulatedCluster, console: Console
) -> dict[str, PolicyOutcome]:
    """By policy; says so where the end came before all hand-overs were complete."""
    done, now = (
        policy_comparison.list_completed_handovers(service),
        _format_instant(world.read_clock()),
    )
    total = plan.handovers * len(plan.policies)
    results = policy_comparison.compute_outcomes(done, OVERLAP_PRICE)
    if not results:
        raise InputError(
            f"no hand-over of {BASELINE} was complete at the end, {now}, so nothing can be "
            "compared: choose a later --until, fewer --nodes or a lighter load"
        )
    if len(done) < total:
        console.print(f"stopped at {now}: {len(done)} of {total} hand-overs are complete")
    return results


def _print_results(results: dict[str, PolicyOutcome], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"policies": {n: asdict(o) for n, o in results.items()}}))
        return
    table = Table(title="Per hand-over, against identical chains left reactive (plain Slurm)")
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
    table.caption = f"cost = interruption + {OVERLAP_PRICE} x overlap; none: no interruption"
    Console().print(table)


def _format_instant(instant: int) -> str:
    return datetime.fromtimestamp(instant, tz=UTC).strftime("%Y-%m-%d %H:%M")
