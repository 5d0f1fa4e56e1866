"""Adds examples, units and exit codes to every command's help.

`mirage CMD --help` and the manual pages (`mirage.cli.admin.man`) both use this module.
"""

from dataclasses import dataclass
from typing import Any

from rich.markup import escape

from mirage.shipped_files import load_client_module

grammar = load_client_module("command.grammar")
EXITS: dict[int, str] = grammar.EXITS
"""The exit codes. Scripts may rely on them (`errors.py`)."""

_SERVICE = (0, 1, 2, 5)
_LOCAL = (0, 1, 2)
_DATABASE = (0, 1, 2, 4)
_LONG = (*_LOCAL, 130)
_BLOCKS = (*_LOCAL, 3, 130)
"""Of a command that has --executor slurm."""

_SHOWN = (
    "Times are in this host's time zone. In --json times are RFC 3339 in UTC, and durations are "
    "seconds (_s) or hours (_h)."
)
_TRACE = "--from and --until are in UTC. Waits are in hours. Names in --json end in their unit."
_COSTS = "Interruption, overlap and cost are mean hours per hand-over."


@dataclass(frozen=True, slots=True)
class HelpEntry:
    """Examples as (purpose, command), exit codes, and a sentence on the units."""

    examples: tuple[tuple[str, str], ...]
    exits: tuple[int, ...]
    units: str = ""


MANUAL: dict[str, HelpEntry] = {
    "demo": HelpEntry(
        (
            ("run for three minutes and print the result", "mirage demo --once"),
            (
                "the same load each time, as JSON",
                "mirage demo --once --seed 1 --preset heavy --json",
            ),
            (
                "use a log of your own",
                "mirage demo --once --trace jobs.parquet --cluster c.toml --from 2026-02-01",
            ),
            (
                "a site that learns from its own history, with an admin who says yes",
                "mirage demo --learn --once --yes",
            ),
        ),
        (0, 1, 2, 130, 143),
        f"{_COSTS} --from and --until are in UTC.",
    ),
    "cluster import": HelpEntry(
        (
            ("ask the Slurm of this host", "mirage cluster import --out c.toml"),
            (
                "read output that was saved on another host",
                "mirage cluster import --from-dir answers --timezone America/Chicago --out c.toml",
            ),
            (
                "count the jobs that use features which the simulator leaves out",
                "mirage cluster import --log jobs.txt --out c.toml",
            ),
        ),
        (0, 1, 2, 3),
        "The cluster file uses slurm.conf's keys and units.",
    ),
    "serve": HelpEntry(
        (
            ("the service of a site", "mirage serve --config /etc/mirage/mirage.toml"),
            ("a service for your own chains, without an admin", "mirage serve --user"),
        ),
        (0, 1, 2, 3, 4),
        "`mirage config reference` has the unit of each setting.",
    ),
    "ingest": HelpEntry(
        (
            ("store the output of sacct", "mirage ingest sacct.txt --cluster lab"),
            (
                "the file was written in another time zone",
                "mirage ingest sacct.txt.gz --cluster lab --format sacct --timezone Europe/Berlin",
            ),
        ),
        (*_DATABASE, 130),
        "The numbers are rows of the file.",
    ),
    "simulate": HelpEntry(
        (
            ("compare the replay with the log", "mirage simulate jobs.txt --cluster c.toml"),
            (
                "compare two weeks of the log, week by week",
                "mirage simulate jobs.parquet --cluster c.toml --from 2026-02-01 "
                "--until 2026-02-15 --weekly",
            ),
            (
                "how many days two weeks of training take, under each policy",
                "mirage simulate jobs.parquet --cluster c.toml --work 336h --time-limit 48:00:00",
            ),
        ),
        _LONG,
        _TRACE,
    ),
    "calibrate": HelpEntry(
        (
            (
                "start from the site's own settings",
                "mirage calibrate jobs.txt --cluster site.toml --out c.toml",
            ),
            ("a quick look", "mirage calibrate jobs.parquet --nodes 76 --trials 20 --out c.toml"),
        ),
        _LONG,
        _TRACE,
    ),
    "episodes": HelpEntry(
        (
            (
                "hand-overs of one-node links of two days",
                "mirage episodes jobs.txt --cluster c.toml --nodes 1 --time-limit 48:00:00 "
                "--every 4h --out e.npz",
            ),
            (
                "in a partition, from February on",
                "mirage episodes jobs.parquet --cluster c.toml --nodes 4 --time-limit 1-0 "
                "--every 6h --partition gpu --from 2026-02-01 --out e.npz",
            ),
        ),
        _BLOCKS,
        _TRACE,
    ),
    "train": HelpEntry(
        (
            ("a forest", "mirage train forest e.npz --out models/ours/1"),
            (
                "an agent",
                "mirage train dqn e.npz --encoder transformer --seed 7 --out models/agent/1",
            ),
        ),
        _BLOCKS,
        _COSTS,
    ),
    "models list": HelpEntry((("", "mirage models list"),), _LOCAL),
    "models show": HelpEntry(
        (
            ("the versions, and the card of the one in use", "mirage models show models/ours"),
            ("the card of version 1", "mirage models show models/ours/1"),
        ),
        _LOCAL,
        _COSTS,
    ),
    "models promote": HelpEntry(
        (
            (
                "use version 2 if it is better on the newest days",
                "mirage models promote models/ours/2 newest.npz",
            ),
        ),
        _LONG,
        _COSTS,
    ),
    "models recalibrate": HelpEntry(
        (("", "mirage models recalibrate models/ours/2 newest.npz --out models/ours/3"),),
        _LONG,
        "Coverage is a share from 0 to 1. Forecasts are in hours.",
    ),
    "learn": HelpEntry(
        (
            ("what a run would do, why, and how long it would take", "mirage learn --dry-run"),
            ("learn now, within half an hour", "mirage learn --now --budget 30m"),
            ("the verdict as JSON", "mirage learn --json"),
        ),
        (*_LOCAL, 3, 4, 130, 143),
        f"{_COSTS} --budget is a span such as 2h or 30m.",
    ),
    "evaluate": HelpEntry(
        (
            ("two rules", "mirage evaluate e.npz --policy quantile --policy slurm-estimate"),
            (
                "a model, with 95 % intervals, written as JSON",
                "mirage evaluate e.npz --policy models/ours/1 --intervals --json out.json",
            ),
            (
                "links without a service, which may give their nodes back twice",
                "mirage evaluate e.npz --policy planned-quantile --returns 2",
            ),
        ),
        _LONG,
        f"{_COSTS} The gap closed is a share: 0 is plain Slurm, 1 is the oracle.",
    ),
    "forecast": HelpEntry(
        (
            (
                "four nodes for two days",
                "mirage forecast --partition gpu --nodes 4 --time 48:00:00",
            ),
            (
                "simulate exactly this job, and wait for the result",
                "mirage forecast --partition gpu --nodes 4 --time 48:00:00 --wait",
            ),
            (
                "for a script",
                "mirage forecast --partition gpu --nodes 4 --time 48:00:00 --json",
            ),
        ),
        _SERVICE,
        "--time is a time limit as sbatch takes it. Waits in --json are in seconds.",
    ),
    "report shadow": HelpEntry(
        (
            (
                "the last four weeks of a log",
                "mirage report shadow --from-sacct jobs.txt --cluster c.toml --html out.html",
            ),
            (
                "two weeks of one partition and one job size",
                "mirage report shadow --from-sacct jobs.txt --cluster c.toml --since 14d "
                "--partition gpu --nodes 4 --time-limit 48:00:00 --json",
            ),
        ),
        (*_BLOCKS, 143),
        _COSTS,
    ),
    "db upgrade": HelpEntry(
        (("", "mirage db upgrade --config /etc/mirage/mirage.toml"),), _DATABASE
    ),
    "db backup": HelpEntry(
        (("before an upgrade", "mirage db backup --keep 14"),),
        (*_DATABASE,),
        "--keep is a number of copies.",
    ),
    "db copy": HelpEntry(
        (
            (
                "from SQLite to PostgreSQL on this host",
                "mirage db copy --to 'postgresql://mirage@/mirage?host=/run/postgresql'",
            ),
            (
                "to another host, with the password in a file",
                "mirage db copy --to 'postgresql://mirage@db/mirage?passfile=/etc/mirage/pgpass'",
            ),
        ),
        (*_DATABASE, 130),
    ),
    "config check": HelpEntry((("", "mirage config check --config mirage.toml"),), _LOCAL),
    "config show": HelpEntry(
        (("where each value comes from", "mirage config show --origin"),), _LOCAL
    ),
    "config reference": HelpEntry((("", "mirage config reference"),), _LOCAL),
    "doctor": HelpEntry(
        (
            ("run it as the user who runs the service", "mirage doctor"),
            ("submit no trial job to Slurm", "mirage doctor --no-moves --json"),
        ),
        (0, 1, 2, 4),
        "The exit code is 1 if there is a fault. Warnings leave it 0.",
    ),
    "handover": HelpEntry(
        (("list the verbs that a job's script may use", "mirage handover --help"),),
        _LOCAL,
        "The command works inside a job of a chain alone, which has MIRAGE_CHAIN_ID and MIRAGE_DIR "
        "set.",
    ),
    "done": HelpEntry(
        (("the last line of a script whose work is finished", "mirage done"),),
        _LOCAL,
        "The command works inside a job of a chain alone.",
    ),
    "token create": HelpEntry(
        (
            (
                "for Grafana, valid for a year",
                "mirage token create grafana --read-only --expires 365d",
            ),
            ("for a user's scripts", "mirage token create scripts --role user --user alice"),
        ),
        _DATABASE,
        "--expires is a number of hours (12h) or days (90d).",
    ),
    "token list": HelpEntry((("", "mirage token list"),), _DATABASE),
    "token revoke": HelpEntry((("", "mirage token revoke 3f9c1a7e"),), _DATABASE),
    "top": HelpEntry(
        (
            ("watch until you press q", "mirage top"),
            ("print alice's chains once", "mirage top --user alice --once"),
        ),
        _SERVICE,
        f"--every is in seconds. {_SHOWN}",
    ),
    "notify test": HelpEntry(
        (
            (
                "test the mail to alice and to the admins, and the webhook",
                "mirage notify test alice",
            ),
        ),
        _LOCAL,
    ),
    "man": HelpEntry(
        (("make `man mirage-chain-show` work", "mirage man ~/.local/share/man"),),
        _LOCAL,
    ),
    "mode": HelpEntry(
        (
            ("show the modes", "mirage mode"),
            ("act on one partition", "mirage mode act --partition gpu"),
            ("stop all acting", "mirage mode shadow"),
        ),
        _DATABASE,
    ),
}
"""The entry of every command, by the command's words
(tests/integration/cli/test_command_help.py)."""

MANUAL |= {
    " ".join(command.words): HelpEntry(command.examples, command.exits, command.units)
    for command in grammar.COMMANDS
}


def join_lines(text: str) -> str:
    """Join the lines of each paragraph, since the terminal breaks them at its own width."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def attach_manual_page(command: Any, words: str) -> None:
    """Show the entries of a command and of its subcommands below their options."""
    if command.help and "\n  " not in command.help and "\n- " not in command.help:
        command.help = join_lines(command.help)
    entry = MANUAL.get(words)
    if entry is not None:
        # A blank line ends a line of help: single ends are joined.
        command.epilog = "\n\n".join(_format_entry(entry))
    for name, inner in getattr(command, "commands", {}).items():
        attach_manual_page(inner, f"{words} {name}")


def _format_entry(entry: HelpEntry) -> list[str]:
    paragraphs = ["[bold]Examples[/bold]" if len(entry.examples) > 1 else "[bold]Example[/bold]"]
    for what, command in entry.examples:
        purpose = f"{what[0].upper()}{what[1:]}:" if what else ""
        paragraphs += [line for line in (purpose, f"[cyan]{escape(command)}[/cyan]") if line]
    if entry.units:
        paragraphs += [f"[bold]Units[/bold] {escape(entry.units)}"]
    codes = "; ".join(f"{code} {EXITS[code]}" for code in entry.exits)
    return [*paragraphs, f"[bold]Exit codes[/bold] {escape(codes)}."]
