"""The command tree of `mirage`. A command's module is imported when the command is called.

A login node runs `mirage chain` many times a day; all modules together take a second to import.
"""

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
    "chain": ("mirage.cli.chains.chain", "Chains: submit, look at, pause, resume, cancel."),
    "cluster": (
        "mirage.cli.admin.cluster_import",
        "Cluster files: describe a site to the simulator.",
    ),
    "serve": ("mirage.cli.admin.serve", "Run the service: REST API and worker."),
    "ingest": ("mirage.cli.admin.ingest", "Take the jobs of a trace file into the history."),
    "simulate": (
        "mirage.cli.simulation.simulate",
        "Replay a log on a simulated cluster: waits, speed, how near they are to the log's.",
    ),
    "calibrate": (
        "mirage.cli.simulation.calibrate",
        "Fit a cluster file to a log and say how sure that is.",
    ),
    "episodes": (
        "mirage.cli.policies.episodes",
        "Make the table of hand-overs of a trace: every decision instant, every outcome.",
    ),
    "train": ("mirage.cli.policies.train", "Train a policy on episode tables."),
    "models": ("mirage.cli.policies.models", "Trained policies: list, show, promote, recalibrate."),
    "evaluate": ("mirage.cli.policies.evaluate", "Judge policies on the same hand-overs."),
    "forecast": (
        "mirage.cli.chains.forecast",
        "How long a job would wait if it were submitted now: p10, p50 and p90",
    ),
    "report": (
        "mirage.cli.policies.shadow_report",
        "What Mirage would have saved a site, and whether it is needed.",
    ),
    "db": (
        "mirage.cli.admin.database",
        "The database: make it, or bring it to this program's schema.",
    ),
    "config": (
        "mirage.cli.admin.config",
        "The configuration file: check it, show it, list every key.",
    ),
    "doctor": (
        "mirage.cli.admin.doctor",
        "Say what works here and what does not, and what to do",
    ),
    "plugin": (
        "mirage.cli.chains.plugin",
        "The wrapped sbatch: the line for your shell's profile.",
    ),
    "handover": ("mirage.cli.chains.link", "Inside a link: hand over between links that overlap."),
    "done": ("mirage.cli.chains.link", "Inside a link: its chain's work is finished."),
    "token": ("mirage.cli.admin.token", "Bearer tokens: create, list, revoke."),
    "top": ("mirage.cli.chains.top", "Chains by risk and the next hand-overs, kept up to date."),
    "notify": ("mirage.cli.admin.notify", "Mail and webhook on chains: try what is configured."),
    "man": ("mirage.cli.shell.man", "Write the manual pages: mirage(1), and one for each command."),
    "mode": (
        "mirage.cli.admin.mode",
        "How far Mirage goes: observe, shadow (decide and log; the default) or act.",
    ),
}
"""By name: the module, and the line that `mirage --help` shows."""

PANELS = {
    "Your chains": ("chain", "top", "forecast", "plugin", "handover", "done"),
    "The service": (
        *("serve", "mode", "doctor", "config", "db", "token", "notify", "ingest", "cluster"),
    ),
    "Without Slurm": (
        *("demo", "report", "simulate", "calibrate", "episodes", "evaluate", "train", "models"),
        "man",
    ),
}
"""For whom a command is, as `mirage --help` groups them; all of COMMANDS, each once."""


class _LazyCommand(TyperCommand):
    """A command, or group, as `mirage --help` shows it; its module is imported to run it."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """The context of the real one: all that follows goes by `context.command`."""
        name = self.name or ""
        module, _ = COMMANDS[name]
        real = get_group(_import_command(module).app).commands[name]
        command_help.attach_manual_page(real, name)
        return real.make_context(info_name, args, parent=parent, **extra)


def _import_command(module: str) -> Any:
    # What imports make stays. To look through it for garbage, while it came and again at the end,
    # was a third of what a short command computed.
    gc.disable()
    found = import_module(module)
    gc.freeze()
    gc.enable()
    return found


class _LazyGroup(TyperGroup):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for panel, names in PANELS.items():
            for name in names:
                _, line = COMMANDS[name]
                self.add_command(_LazyCommand(name=name, help=line, rich_help_panel=panel))


_EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 bad input, 3 Slurm, 4 database, 5 the service does not answer."
)

app = typer.Typer(
    name="mirage",
    cls=_LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=_EXIT_CODES,
)


def _print_version(wanted: object) -> None:
    if wanted:
        typer.echo(f"mirage {version('mirage-provisioner')}")
        raise typer.Exit


@app.callback()
def run_mirage(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, help="Say which Mirage this is.")
    ] = False,
) -> None:
    """Keep long jobs alive on Slurm: each follow-on job becomes eligible at the moment that lets it
    start just as its predecessor ends.

    A user types `sbatch --mirage-chain=8 job.sh`, then `mirage chain list --me`. To see what that
    saves, without a Slurm: `mirage demo --once`. To set it up: `mirage db upgrade`, `mirage serve`,
    after a look `mirage mode act`; `mirage doctor` says what is missing.
    """
