"""`mirage forecast`: shows how long a job would wait if it were submitted now."""

import json
import time
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mirage.cli.chains.service_options import ServiceJson, Url
from mirage.cli.connection.suggestions import suggest_partitions
from mirage.domain.sanitize import escape_unprintable
from mirage.domain.timelimit import format_time_limit, parse_time_limit
from mirage.errors import InputError, MalformedText, ServiceUnavailable
from mirage.shipped_files import load_client_module

rest = load_client_module("client.rest")
instants = load_client_module("command.instants")
app = typer.Typer()

_BY_HAND = "`sbatch --test-only` prints Slurm's own estimate."
_MAX_WAIT_S = 300
"""The longest time that --wait waits for an answer."""
_POLL_S = 5
_MAX_NODES = 1_000_000
_MAX_GPUS = 100_000_000


@app.command("forecast")
def forecast_wait(
    *,
    partition: Annotated[
        str, typer.Option(help="The partition of the job.", autocompletion=suggest_partitions)
    ],
    nodes: Annotated[int, typer.Option(min=1, max=_MAX_NODES, help="The number of nodes.")],
    time_limit: Annotated[
        str, typer.Option("--time", help="The time limit, as sbatch takes it: 48:00:00, 2-0.")
    ],
    gpus: Annotated[
        int,
        typer.Option(min=0, max=_MAX_GPUS, help="GPUs on all nodes together; 0 is whole nodes."),
    ] = 0,
    account: Annotated[
        str, typer.Option(help="The account of the job. Default: an account of usual priority.")
    ] = "",
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Let the service simulate exactly this job, and wait up to 5 minutes for that.",
        ),
    ] = False,
    url: Url = None,
    as_json: ServiceJson = False,
) -> None:
    """Forecast how long a job would wait if you submitted it now.

    The output is three waits: one in ten such jobs waits less than p10, half wait less than p50,
    nine in ten wait less than p90. The service answers from a stored forecast of this job or a
    similar one, or from recent waits of similar jobs. The output says which, and how often such
    forecasts were right.
    """
    shape: dict[str, str | int] = {
        "partition": partition,
        "nodes": nodes,
        "time_limit_s": _parse_time_limit_s(time_limit),
        "gpus": gpus,
        "account": account,
    }
    service = rest.ServiceClient(rest.resolve_service_url(url), by_hand=_BY_HAND)
    if wait:
        _wait_for_forecast(service, shape)
    forecast = service.get("/forecasts", **shape)
    if as_json:
        typer.echo(json.dumps(forecast, indent=2))
        return
    typer.echo(_format_heading(forecast))
    Console().print(_render_forecast(forecast))
    for sentence in forecast["says"]:
        typer.echo(escape_unprintable(sentence))
    if forecast["stale"]:
        typer.echo("This forecast is old: Mirage has not read the queue lately.")


def _parse_time_limit_s(text: str) -> int:
    try:
        seconds = parse_time_limit(text)
    except MalformedText as error:
        raise InputError(
            f"--time {text!r} cannot be read: give a time limit as sbatch takes it, like 48:00:00"
        ) from error
    if not seconds:
        raise InputError(f"--time {text!r} is no time limit: give a time limit like 48:00:00")
    return seconds


def _wait_for_forecast(service: Any, shape: Mapping[str, str | int]) -> None:
    """Wait until the worker has answered, or said that it cannot. Raises ServiceUnavailable."""
    service.post("/forecasts", dict(shape))
    until = time.monotonic() + _MAX_WAIT_S
    with Console(stderr=True).status("waiting for the service to simulate this job"):
        while time.monotonic() < until:
            if not service.get("/forecasts", **shape)["waiting"]:
                return
            time.sleep(_POLL_S)
    raise ServiceUnavailable(
        f"the service's worker has not answered in {_MAX_WAIT_S // 60} minutes: "
        "ask without --wait, or look at the service's /readyz to see whether the worker runs"
    )


def _format_heading(forecast: Mapping[str, Any]) -> str:
    gpus = f", {forecast['gpus']} GPUs" if forecast["gpus"] else ""
    nodes = "1 node" if forecast["nodes"] == 1 else f"{forecast['nodes']} nodes"
    limit = format_time_limit(forecast["time_limit_s"])
    return (
        f"If submitted now to {escape_unprintable(forecast['partition'])}, {nodes}{gpus}, {limit}:"
    )


def _render_forecast(forecast: Mapping[str, Any]) -> Table:
    table = Table()
    for name in ("p10", "p50", "p90"):
        table.add_column(f"wait {name}", justify="right")
    table.add_row(
        *(instants.format_duration(forecast[name]) for name in ("p10_s", "p50_s", "p90_s"))
    )
    return table
