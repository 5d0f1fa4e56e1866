"""The command tree of `mirage`. A command's module is imported when the command is called.

A login node runs `mirage chain` many times a day; all modules together take a second to import.
"""

import atexit
import gc
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from mirage.cli import command_help

COMMANDS = {
    "demo": (
        "mirage.cli.simulation.demo",
        "Run the real service on a simulated cluster, on an accelerated clock.",
    ),
    "chain": ("mirage.cli.chains.client_commands", "Submit, show, pause, resume or cancel chains."),
    "cluster": (
        "mirage.cli.admin.cluster_import",
        "Write the cluster file, which describes a site to the simulator.",
    ),
    "serve": ("mirage.cli.admin.serve", "Run the service: REST API and worker."),
    "ingest": ("mirage.cli.admin.ingest", "Store the jobs of a trace file in the history."),
    "simulate": (
        "mirage.cli.simulation.simulate",
        "Replay a log on a simulated cluster, and compare the waits with the log's.",
    ),
    "calibrate": (
        "mirage.cli.simulation.calibrate",
        "Fit a cluster file to a log, and measure how well it fits.",
    ),
    "episodes": (
        "mirage.cli.policies.episodes",
        "Simulate hand-overs on a trace, and write them as a table to train and evaluate on.",
    ),
    "train": ("mirage.cli.policies.train", "Train a policy on episode tables."),
    "models": (
        "mirage.cli.policies.models",
        "List, show, promote or recalibrate trained policies.",
    ),
    "learn": (
        "mirage.cli.policies.learn",
        "Learn models from the service's own history, and judge them.",
    ),
    "evaluate": ("mirage.cli.policies.evaluate", "Compare policies on the same hand-overs."),
    "forecast": (
        "mirage.cli.chains.forecast",
        "Forecast how long a job would wait if you submitted it now.",
    ),
    "report": (
        "mirage.cli.policies.shadow_report",
        "Report what Mirage would have saved a site, and whether the site needs it.",
    ),
    "db": (
        "mirage.cli.admin.database",
        "Create the database, upgrade its schema, or copy it.",
    ),
    "config": (
        "mirage.cli.admin.config",
        "Check or show the configuration, or list every key.",
    ),
    "doctor": (
        "mirage.cli.admin.doctor",
        "Check this installation, and say for each fault what to do.",
    ),
    "plugin": (
        "mirage.cli.chains.client_commands",
        "Print the line for your shell's profile that finds the wrapped sbatch.",
    ),
    "handover": (
        "mirage.cli.chains.link",
        "Inside a job of a chain: hand over to the next job, or take over.",
    ),
    "done": (
        "mirage.cli.chains.link",
        "Inside a job of a chain: say that the chain's work is finished.",
    ),
    "token": ("mirage.cli.admin.token", "Create, list or revoke bearer tokens."),
    "top": ("mirage.cli.chains.top", "Watch chains, those at risk first, and the next hand-overs."),
    "notify": ("mirage.cli.admin.notify", "Try the mail and the webhook that carry notices."),
    "man": ("mirage.cli.admin.man", "Write the manual pages: mirage(1), and one for each command."),
    "mode": (
        "mirage.cli.admin.mode",
        "Show or set how far Mirage goes: observe, shadow (decide and log; the default) or act.",
    ),
}
"""By name: the command's module, and the line that `mirage --help` shows."""

PANELS = {
    "Your chains": ("chain", "top", "forecast", "plugin", "handover", "done"),
    "The service": (
        *("serve", "mode", "doctor", "config", "db", "token", "notify", "ingest", "cluster"),
        "learn",
    ),
    "Without Slurm": (
        *("demo", "report", "simulate", "calibrate", "episodes", "evaluate", "train", "models"),
        "man",
    ),
}
"""The groups of `mirage --help`: each command of COMMANDS stands in one group."""


_FEW_COLLECTIONS = 20_000
"""New objects between two searches for garbage; Python's default is 700."""


class _LazyCommand(TyperCommand):
    """A command or group in `mirage --help`. Its module is imported when the command runs."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return the context of the real command, which click then uses in place of this one."""
        name = self.name or ""
        module, _ = COMMANDS[name]
        command = get_group(_import_command(module).app).commands[name]
        command_help.attach_manual_page(command, name)
        return command.make_context(info_name, args, parent=parent, **extra)


def _import_command(module: str) -> Any:
    # Imported objects are never freed. Searching them for garbage, during imports (the command has
    # more of them when it runs) and at the end, took a third of a short command's time.
    gc.set_threshold(_FEW_COLLECTIONS)
    atexit.register(gc.freeze)
    return import_module(module)


class _LazyGroup(TyperGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.help = command_help.join_lines(self.help or "")
        for panel, names in PANELS.items():
            for name in names:
                _, line = COMMANDS[name]
                self.add_command(_LazyCommand(name=name, help=line, rich_help_panel=panel))


_EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong input, 3 Slurm did not answer or refused, "
    "4 the database cannot be used, 5 the service does not answer."
)

app = typer.Typer(
    name="mirage",
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=_EXIT_CODES,
)


def _print_version(is_wanted: object) -> None:
    if is_wanted:
        typer.echo(f"mirage {version('mirage-provisioner')}")
        raise typer.Exit


@app.callback()
def run_mirage(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, help="Print Mirage's version.")
    ] = False,
) -> None:
    """Keep a computation running on Slurm past the time limit, as a chain of jobs.

    Mirage forecasts how long each next job will wait, and makes it eligible so early that it starts
    just as the job before it ends.

    Try it without Slurm: `mirage demo --once`. Submit a chain of eight jobs:
    `sbatch --mirage-chain=8 job.sh`, then look at it with `mirage chain list --me`. Set up the
    service: `mirage db upgrade`, `mirage serve`, and `mirage mode act` once its decisions look
    right. `mirage doctor` says what is missing.
    """
