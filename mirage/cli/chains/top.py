"""`mirage top`: shows chains by risk and the next hand-overs, and keeps them up to date."""

import json
import select
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mirage.cli.chains.service_options import ServiceJson, Url
from mirage.cli.ui.terminal import create_console
from mirage.domain.sanitize import escape_unprintable
from mirage.shipped_files import load_client_module

chain_lookup = load_client_module("client.chain_lookup")
rest = load_client_module("client.rest")
chain_text = load_client_module("command.chain_text")
instants = load_client_module("command.instants")
app = typer.Typer()

_BY_HAND = "`squeue --me -O JobID,State,Reason,Comment` shows your links."
_QUIT = {"q", "Q", "\x1b", "\x03", "\x04"}
_HEAD = 8
"""The number of lines of a screen that show no chain."""


@app.command("top")
def show_top(
    *,
    user: Annotated[str, typer.Option(help="Show this user's chains only.")] = "",
    mine: Annotated[bool, typer.Option("--me", help="Show your own chains only.")] = False,
    every: Annotated[float, typer.Option(min=1.0, help="Seconds between two updates.")] = 5.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print once and end, as into a pipe.")
    ] = False,
    url: Url = None,
    as_json: ServiceJson = False,
) -> None:
    """Watch chains, those at risk first, and the next hand-overs. q or Ctrl-C ends the command.

    The command asks the service alone, and never Slurm. If the service does not answer, the command
    says so and tries again.
    """
    user = chain_lookup.get_own_name() if mine else user
    service = rest.ServiceClient(rest.resolve_service_url(url), by_hand=_BY_HAND)
    out = create_console()
    if once or as_json or not (out.is_terminal and sys.stdin.isatty()):
        overview = _fetch_overview(service, user)
        if as_json:
            typer.echo(json.dumps(overview, indent=2))
        else:
            out.print(render_overview(overview, rows=len(overview["items"])))
        return
    with _capture_keys(), Live(console=out, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_render_now(service, user, max(3, out.height - _HEAD)), refresh=True)
            if _wait_for_quit(every):
                return


def _fetch_overview(service: Any, user: str) -> dict[str, Any]:
    overview: dict[str, Any] = service.get("/overview", limit=100, user=user or None)
    return overview | {"modes": service.get("/mode")}


def _render_now(service: Any, user: str, rows: int) -> RenderableType:
    try:
        return render_overview(_fetch_overview(service, user), rows=rows)
    except rest.ServiceUnavailable as error:
        return Text(
            f"{escape_unprintable(str(error))}\n\nTrying again. Press q to quit.",
            style="bold red",
        )


def render_overview(overview: Mapping[str, Any], *, rows: int) -> RenderableType:
    """Render the overview with at most `rows` chains and hand-overs together."""
    head = Text(
        f"{overview['live']} live, {overview['at_risk']} at risk, {overview['paused']} paused;"
        f" {chain_text.describe_service_state(overview, overview['modes'])}",
        style="bold red" if overview["stale"] else "bold",
    )
    soon = overview["soon"][: max(1, rows // 3)]
    return Group(
        head, _render_upcoming(soon), _render_chains(overview["items"][: max(1, rows - len(soon))])
    )


def _render_upcoming(upcoming: list[Mapping[str, Any]]) -> Table:
    table = _create_table(
        "next hand-overs", "chain", "link", "running ends", "next starts", "decided"
    )
    for handover in upcoming:
        decision = handover["decision"]
        text = "-" if decision is None else f"{decision['action']}: {decision['reason']}"
        table.add_row(
            handover["chain_id"],
            str(handover["link"]),
            instants.format_day_and_time(handover["predecessor_end"]),
            _format_range(handover["start"]),
            _fit_text(text),
        )
    return table


def _create_table(title: str, *columns: str) -> Table:
    """Create a table that shows all columns whole except the last, which takes the rest."""
    table = Table(title=title, title_justify="left", expand=True)
    *whole, last = columns
    for name in whole:
        table.add_column(name, no_wrap=True)
    table.add_column(last, ratio=1)
    return table


def _fit_text(text: str) -> Text:
    """Return the text on one line, whatever characters it contains."""
    return Text(escape_unprintable(text), no_wrap=True, overflow="ellipsis")


def _format_range(start: Mapping[str, Any] | None) -> str:
    """Format the range of a link's start, from p10 to p90; `-` without a forecast.

    For a link that is not eligible, the range holds if it became eligible now.
    """
    if start is None:
        return "-"
    condition = "" if start["eligible"] else " if freed"
    first, last = (instants.format_day_and_time(start[name]) for name in ("p10", "p90"))
    return f"{first} to {last}{condition}"


def _render_chains(rows: list[Mapping[str, Any]]) -> Table:
    table = _create_table("chains, by risk", "chain", "user", "state", "links", "running", "what")
    for row in rows:
        chain = row["chain"]
        risk = chain["at_risk"]
        text = chain["note"] if risk is None else f"{risk['reason']}: {risk['says']}"
        table.add_row(
            chain["chain_id"],
            escape(escape_unprintable(chain["user"])),
            "at risk" if risk is not None else chain["state"],
            chain_text.format_link_count(chain),
            ", ".join(map(str, chain["running"])) or "-",
            _fit_text(text),
            style="bold red" if risk is not None else "yellow" * (chain["state"] == "paused"),
        )
    return table


@contextmanager
def _capture_keys() -> Iterator[None]:
    """Read keys one at a time without showing them, and restore the terminal afterwards."""
    import termios  # noqa: PLC0415 - only a terminal needs it
    import tty  # noqa: PLC0415

    old_settings = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    except KeyboardInterrupt:
        return
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, old_settings)


def _wait_for_quit(within_s: float) -> bool:
    """Return True when somebody asks to quit, and False if nobody does within `within_s`."""
    until = time.monotonic() + within_s
    while (left_s := until - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left_s)[0]:
            key = sys.stdin.read(1)
            if not key or key in _QUIT:
                return True
    return False
