"""`mirage forecast`: how long a job would wait if it were submitted now."""

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.chains.chain_text import format_duration
from mirage.cli.connection.service_client import ServiceClient
from mirage.cli.connection.transport import resolve_service_url
from mirage.domain.sanitize import escape_unprintable
from mirage.domain.timelimit import format_time_limit, parse_time_limit
from mirage.errors import InputError, MalformedText, ServiceUnavailable

app = typer.Typer()

_BY_HAND = "`sbatch --test-only` has Slurm's own estimate."
_LONGEST_S = 300
"""That --wait waits for an answer."""
_LOOK_S = 5
_MOST_NODES = 1_000_000
_MOST_GPUS = 100_000_000


@app.command("forecast")
def forecast_wait(
    *,
    partition: Annotated[str, typer.Option(help="Where it would be submitted.")],
    nodes: Annotated[int, typer.Option(min=1, max=_MOST_NODES, help="How many it asks for.")],
    time_limit: Annotated[
        str, typer.Option("--time", help="Its time limit, as sbatch takes it: 48:00:00, 2-0.")
    ],
    gpus: Annotated[
        int, typer.Option(min=0, max=_MOST_GPUS, help="Over all nodes; 0: whole nodes.")
    ] = 0,
    account: Annotated[str, typer.Option(help="Whose priority counts. Default: what is usual.")] = (
        ""
    ),
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Have the twin asked for exactly this job, and wait for its answer."
        ),
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(help="The service. Default: MIRAGE_URL, /etc/mirage/client.conf, this host."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The service's JSON on stdout.")] = False,
) -> None:
    """How long a job would wait if it were submitted now: p10, p50 and p90, who says so, and how
    sure that is.

    Nine of ten such jobs should wait less than p90. The service answers from a stored forecast of
    this job or of one near it, or from the recent waits of similar jobs. The output says which.
    """
    shape: dict[str, str | int] = {
        "partition": partition,
        "nodes": nodes,
        "time_limit_s": _parse_time_limit_s(time_limit),
        "gpus": gpus,
        "account": account,
    }
    service = ServiceClient(resolve_service_url(url), by_hand=_BY_HAND)
    if wait:
        _wait_for_forecast(service, shape)
    found = service.get("/forecasts", **shape)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    typer.echo(_format_heading(found))
    Console().print(_render_forecast(found))
    for sentence in found["says"]:
        typer.echo(escape_unprintable(sentence))
    if found["stale"]:
        typer.echo("The cluster was not looked at lately: this is old.")


def _parse_time_limit_s(text: str) -> int:
    try:
        found = parse_time_limit(text)
    except MalformedText as error:
        raise InputError(f"--time {text!r}: give it as sbatch takes it, like 48:00:00") from error
    if not found:
        raise InputError(f"--time {text!r} is no time limit: give one like 48:00:00")
    return found


def _wait_for_forecast(service: ServiceClient, shape: Mapping[str, str | int]) -> None:
    """Until the worker has answered, or has said that it cannot. Raises ServiceUnavailable."""
    service.post("/forecasts", shape)
    until = time.monotonic() + _LONGEST_S
    with Console(stderr=True).status("the twin is asked with one of the worker's next looks"):
        while time.monotonic() < until:
            if not service.get("/forecasts", **shape)["waiting"]:
                return
            time.sleep(_LOOK_S)
    raise ServiceUnavailable(
        f"the worker has not answered in {_LONGEST_S // 60} minutes: "
        "ask without --wait, or look whether it runs (/readyz)"
    )


def _format_heading(found: Mapping[str, Any]) -> str:
    gpus = f", {found['gpus']} GPUs" if found["gpus"] else ""
    nodes = "1 node" if found["nodes"] == 1 else f"{found['nodes']} nodes"
    limit = format_time_limit(found["time_limit_s"])
    return f"If submitted now to {escape_unprintable(found['partition'])}, {nodes}{gpus}, {limit}:"


def _render_forecast(found: Mapping[str, Any]) -> Table:
    made = Table()
    for name in ("p10", "p50", "p90"):
        made.add_column(f"wait {name}", justify="right")
    made.add_row(*(format_duration(found[name]) for name in ("p10_s", "p50_s", "p90_s")))
    return made
