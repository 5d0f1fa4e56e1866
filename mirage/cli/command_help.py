"""Adds to every command's help what its options do not say: examples, units, exit codes.

`mirage CMD --help` and the manual pages (`mirage.cli.shell.man`) both use this module.
"""

from dataclasses import dataclass
from typing import Any

from rich.markup import escape

EXITS = {
    0: "done",
    1: "it failed, or was refused: the message says why",
    2: "what was given is wrong: an option, a file, the configuration",
    3: "Slurm gave no answer, or refused",
    4: "the database cannot be used, or has another schema",
    5: "the service does not answer; Slurm keeps the chains all the same",
    130: "ended by Ctrl-C",
    143: "ended by SIGTERM",
}
"""Exit codes, as scripts may rely on them (`errors.py`)."""

_SERVICE = (0, 1, 2, 5)
_LOCAL = (0, 1, 2)
_DATABASE = (0, 1, 2, 4)
_LONG = (*_LOCAL, 130)

_SHOWN = "Times are this host's; in --json they are RFC 3339 in UTC, durations seconds or hours."
_TRACE = "--from and --until are UTC. Waits are hours; names in --json end in their unit."
_COSTS = "Interruption, overlap and cost are mean hours per hand-over."


@dataclass(frozen=True, slots=True)
class HelpEntry:
    """`examples`: (what for, the command). `units`: of what is given and shown."""

    examples: tuple[tuple[str, str], ...]
    exits: tuple[int, ...]
    units: str = ""


MANUAL: dict[str, HelpEntry] = {
    "demo": HelpEntry(
        (
            ("two minutes, then the result", "mirage demo --once"),
            ("the same load as JSON", "mirage demo --once --seed 1 --preset heavy --json"),
            (
                "a log of your own",
                "mirage demo --once --trace jobs.parquet --cluster c.toml --from 2026-02-01",
            ),
        ),
        (0, 1, 2, 130, 143),
        f"{_COSTS} --from and --until are UTC.",
    ),
    "chain submit": HelpEntry(
        (
            ("eight jobs in a row", "mirage chain submit --links 8 -p gpu -t 48:00:00 train.sh"),
            (
                "overlap as dear as interruption",
                "mirage chain submit --links 8 --overlap-price 1 train.sh",
            ),
        ),
        _LOCAL,
        "--overlap-price is hours of interruption per hour of overlap. Other exit codes are "
        "sbatch's own.",
    ),
    "chain list": HelpEntry(
        (
            ("those of a user that go on", "mirage chain list --user alice --state active"),
            ("for a script", "mirage chain list --limit 500 --json"),
        ),
        _SERVICE,
        _SHOWN,
    ),
    "chain show": HelpEntry(
        (
            ("the timeline and the figures", "mirage chain show k3v9x2m7q1zt"),
            ("the last three links drawn", "mirage chain show k3v9x2m7q1zt --links 3"),
            ("for a script", "mirage chain show k3v9x2m7q1zt --json"),
        ),
        _SERVICE,
        _SHOWN,
    ),
    "chain explain": HelpEntry(
        (("the last five decisions", "mirage chain explain k3v9x2m7q1zt --limit 5"),),
        _SERVICE,
        _SHOWN,
    ),
    "chain pause": HelpEntry((("", "mirage chain pause k3v9x2m7q1zt"),), _SERVICE),
    "chain resume": HelpEntry((("", "mirage chain resume k3v9x2m7q1zt"),), _SERVICE),
    "chain cancel": HelpEntry((("", "mirage chain cancel k3v9x2m7q1zt"),), _SERVICE),
    "cluster import": HelpEntry(
        (
            ("from the Slurm of this host", "mirage cluster import --out c.toml"),
            (
                "from answers taken elsewhere",
                "mirage cluster import --from-dir answers --timezone America/Chicago --out c.toml",
            ),
            (
                "with how many jobs each thing left out concerns",
                "mirage cluster import --log jobs.txt --out c.toml",
            ),
        ),
        (0, 1, 2, 3),
        "The file has slurm.conf's own keys and units.",
    ),
    "serve": HelpEntry(
        (
            ("the site's", "mirage serve --config /etc/mirage/mirage.toml"),
            ("for your own chains, without an admin", "mirage serve --user"),
        ),
        (0, 1, 2, 3, 4),
        "Settings carry their units in their names, or in `mirage config reference`.",
    ),
    "ingest": HelpEntry(
        (
            ("sacct's text", "mirage ingest sacct.txt --cluster lab"),
            (
                "written in another time zone",
                "mirage ingest sacct.txt.gz --cluster lab --format sacct --timezone Europe/Berlin",
            ),
        ),
        (*_DATABASE, 130),
        "Counts are rows of the file.",
    ),
    "simulate": HelpEntry(
        (
            ("how near a replay comes to the log", "mirage simulate jobs.txt --cluster c.toml"),
            (
                "two weeks of it, week by week",
                "mirage simulate jobs.parquet --cluster c.toml --from 2026-02-01 "
                "--until 2026-02-15 --weekly",
            ),
        ),
        _LONG,
        _TRACE,
    ),
    "calibrate": HelpEntry(
        (
            (
                "from Slurm's own settings on",
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
        _LONG,
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
        _LONG,
        _COSTS,
    ),
    "models list": HelpEntry((("", "mirage models list"),), _LOCAL),
    "models show": HelpEntry((("", "mirage models show models/ours/1"),), _LOCAL, _COSTS),
    "models promote": HelpEntry(
        (
            (
                "where it is better on the newest days",
                "mirage models promote models/ours/2 newest.npz",
            ),
        ),
        _LONG,
        _COSTS,
    ),
    "models recalibrate": HelpEntry(
        (("", "mirage models recalibrate models/ours/2 newest.npz --out models/ours/3"),),
        _LONG,
        "Coverage is a share, forecasts are hours.",
    ),
    "evaluate": HelpEntry(
        (
            ("rules", "mirage evaluate e.npz --policy quantile --policy slurm-estimate"),
            (
                "a model, with intervals, as JSON",
                "mirage evaluate e.npz --policy models/ours/1 --intervals --json out.json",
            ),
        ),
        _LONG,
        f"{_COSTS} The gap closed is a share.",
    ),
    "forecast": HelpEntry(
        (
            (
                "four nodes for two days",
                "mirage forecast --partition gpu --nodes 4 --time 48:00:00",
            ),
            (
                "have the twin asked for exactly that, and wait for its answer",
                "mirage forecast --partition gpu --nodes 4 --time 48:00:00 --wait",
            ),
            (
                "for a script",
                "mirage forecast --partition gpu --nodes 4 --time 48:00:00 --json",
            ),
        ),
        _SERVICE,
        "--time is sbatch's; waits in --json are seconds.",
    ),
    "report shadow": HelpEntry(
        (
            (
                "four weeks of a log",
                "mirage report shadow --from-sacct jobs.txt --cluster c.toml --html out.html",
            ),
            (
                "one partition and size, two weeks",
                "mirage report shadow --from-sacct jobs.txt --cluster c.toml --since 14d "
                "--partition gpu --nodes 4 --time-limit 48:00:00 --json",
            ),
        ),
        (*_LONG, 143),
        _COSTS,
    ),
    "db upgrade": HelpEntry(
        (("", "mirage db upgrade --config /etc/mirage/mirage.toml"),), _DATABASE
    ),
    "db backup": HelpEntry(
        (("before an upgrade", "mirage db backup --keep 14"),), (*_DATABASE,), "--keep is copies."
    ),
    "config check": HelpEntry((("", "mirage config check --config mirage.toml"),), _LOCAL),
    "config show": HelpEntry(
        (("where each value comes from", "mirage config show --origin"),), _LOCAL
    ),
    "config reference": HelpEntry((("", "mirage config reference"),), _LOCAL),
    "doctor": HelpEntry(
        (
            ("as the user who runs the service", "mirage doctor"),
            ("without trying moves in Slurm", "mirage doctor --no-moves --json"),
        ),
        (0, 1, 2, 4),
        "Exit code 1 where there is a fault; warnings leave it 0.",
    ),
    "handover": HelpEntry(
        (("as a link's script has it", "mirage handover --help"),),
        _LOCAL,
        "Only inside a link: MIRAGE_CHAIN_ID and MIRAGE_DIR are set there.",
    ),
    "done": HelpEntry(
        (("the last line of a script whose work is finished", "mirage done"),),
        _LOCAL,
        "Only inside a link.",
    ),
    "token create": HelpEntry(
        (
            ("for Grafana, a year", "mirage token create grafana --read-only --expires 365d"),
            ("for a user's scripts", "mirage token create scripts --role user --user alice"),
        ),
        _DATABASE,
        "--expires: a number and s, m, h or d.",
    ),
    "token list": HelpEntry((("", "mirage token list"),), _DATABASE),
    "token revoke": HelpEntry((("", "mirage token revoke 3f9c1a7e"),), _DATABASE),
    "top": HelpEntry(
        (
            ("until q is pressed", "mirage top"),
            ("mine, once", "mirage top --user alice --once"),
        ),
        _SERVICE,
        f"--every is seconds. {_SHOWN}",
    ),
    "notify test": HelpEntry(
        (("a mail to alice, the admins, the webhook", "mirage notify test alice"),), _LOCAL
    ),
    "man": HelpEntry(
        (("for `man mirage-chain-show`", "mirage man ~/.local/share/man"),),
        _LOCAL,
    ),
    "plugin path": HelpEntry(
        (("for your shell's profile, such as ~/.bashrc", "mirage plugin path"),),
        _LOCAL,
    ),
    "mode": HelpEntry(
        (
            ("which there are", "mirage mode"),
            ("act on one partition", "mirage mode act --partition gpu"),
            ("stop all acting", "mirage mode shadow"),
        ),
        _DATABASE,
    ),
}
"""By the command's words; every one of the tree has its entry
(tests/integration/cli/test_command_help.py)."""


def attach_manual_page(command: Any, words: str) -> None:
    """Let a command, and those below it, show their entries under their options."""
    if command.help and "\n  " not in command.help and "\n- " not in command.help:
        # Lines as they are in the source would break again at the terminal's width.
        paragraphs = command.help.split("\n\n")
        command.help = "\n\n".join(" ".join(part.split()) for part in paragraphs)
    entry = MANUAL.get(words)
    if entry is not None:
        # A blank line ends a line of help: single ends are joined.
        command.epilog = "\n\n".join(_format_entry(entry))
    for name, inner in getattr(command, "commands", {}).items():
        attach_manual_page(inner, f"{words} {name}")


def _format_entry(entry: HelpEntry) -> list[str]:
    found = ["[bold]Examples[/bold]" if len(entry.examples) > 1 else "[bold]Example[/bold]"]
    for what, command in entry.examples:
        said = f"{what[0].upper()}{what[1:]}:" if what else ""
        found += [line for line in (said, f"[cyan]{escape(command)}[/cyan]") if line]
    if entry.units:
        found += [f"[bold]Units[/bold] {escape(entry.units)}"]
    codes = "; ".join(f"{code} {EXITS[code]}" for code in entry.exits)
    return [*found, f"[bold]Exit codes[/bold] {escape(codes)}."]
