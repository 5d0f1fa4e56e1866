"""`mirage chain`: what a user asks of chains, and what Mirage did to them and why."""

import json
import os
import sys
from typing import Annotated, Any

import typer
from rich.markup import escape

from mirage.cli.chains import chain_text, timeline
from mirage.cli.connection.chain_lookup import me, meant, newest_of_mine
from mirage.cli.connection.service_client import Service
from mirage.cli.connection.transport import service_url
from mirage.cli.ui.terminal import console
from mirage.config.paths import get_data_dir
from mirage.domain.chain import MAX_LINKS, ChainState
from mirage.errors import IllegalTransition, InputError

app = typer.Typer()
chain_app = typer.Typer(
    no_args_is_help=True, help="Chains: submit, look at, pause, resume, cancel."
)
app.add_typer(chain_app, name="chain")

_LOOK = "`squeue --me -O JobID,State,Reason,Comment` shows your links (mirage:<chain>:<link>)."

_WHICH = "As `mirage chain list` shows it, or its first letters, or the number of its running job."
ChainId = Annotated[str, typer.Argument(help=_WHICH)]
MyChain = Annotated[str, typer.Argument(help=f"{_WHICH} Default: the one that you have.")]
Url = Annotated[
    str | None,
    typer.Option(help="The service. Default: MIRAGE_URL, /etc/mirage/client.conf, this host."),
]
AsJson = Annotated[bool, typer.Option("--json", help="The service's JSON on stdout.")]


@chain_app.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "allow_interspersed_args": False,
    }
)
def submit(
    context: typer.Context,
    *,
    links: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_LINKS, help="How many jobs the chain has.", show_default=False),
    ] = None,
    policy: Annotated[str | None, typer.Option(help="Default: the service's.")] = None,
    overlap_price: Annotated[
        float | None,
        typer.Option(min=0, help="Hours of interruption that an hour of overlap is worth."),
    ] = None,
) -> None:
    """Submit a chain: these options first, then sbatch's own and the script.

    The same as `sbatch --mirage-chain=LINKS ...` with the wrapped sbatch, whose other settings
    (`sbatch --mirage-help`) are given as there: --mirage-style=wait, before the script.
    """
    wrapper = get_data_dir("slurm_plugin") / "sbatch"
    if not context.args:
        raise InputError("nothing to submit: give sbatch's options and a script")
    if not wrapper.exists():
        raise InputError(f"the wrapped sbatch is not at {wrapper}: this install is not whole")
    if links is None:
        late = "--links" in context.args
        raise InputError(
            f"--links stands behind {context.args[0]}: it comes first, then sbatch's options"
            if late
            else "how many links? `mirage chain submit --links 8 ...`"
        )
    asked = [f"--mirage-chain={links}"]
    asked += [] if policy is None else [f"--mirage-policy={policy}"]
    asked += [] if overlap_price is None else [f"--mirage-overlap-price={overlap_price}"]
    # Not by its first line: this Python is known to be there, /usr/bin/python3 is not.
    command = [sys.executable, "-IS", str(wrapper), *asked, *context.args]
    os.execv(command[0], command)  # noqa: S606 - an argument vector


@chain_app.command("list")
def list_chains(
    *,
    user: Annotated[str | None, typer.Option(help="Of this user only.")] = None,
    mine: Annotated[bool, typer.Option("--me", help="Of yourself only.")] = False,
    state: Annotated[ChainState | None, typer.Option(help="In this state only.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, newest first.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Chains, newest first."""
    service = Service(service_url(url), by_hand=_LOOK)
    wanted = None if state is None else state.value
    whose = me() if mine else user
    found = list(service.items("/chains", limit, user=whose, state=wanted))
    if as_json:
        _print_json(found)
    elif not found:
        typer.echo(f"no chains of {whose}" if whose else "no chains")
    else:
        out = console()
        out.print(chain_text.table(found, out.width))
        for note in chain_text.notes(found):
            out.print(escape(note), soft_wrap=True)


@chain_app.command()
def show(
    chain_id: MyChain = "",
    *,
    links: Annotated[int, typer.Option(min=1, help="Draw the newest so many links.")] = 24,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """A chain: its links drawn to scale in time, with interruption, overlap and the next start's
    forecast; then links and hand-overs in figures.

    Times are this host's. A mark is at least one character wide, so that none is lost.
    """
    service = Service(service_url(url), by_hand=_LOOK)
    chain_id = _which(service, chain_id)
    chain = service.get(f"/chains/{chain_id}")
    if as_json:
        _print_json(chain)
        return
    handovers = service.get(f"/chains/{chain_id}/timeline")["handovers"]
    out = console()
    drawn = timeline.read(chain, handovers, newest=links)
    for part in chain_text.page(chain, out.width, chain_text.drawing(drawn, out)):
        out.print(part, highlight=False)
    out.print(chain_text.standing(chain, service.get("/mode")), highlight=False)


@chain_app.command()
def explain(
    chain_id: MyChain = "",
    *,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many decisions.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Why Mirage moved the chain's standbys, or did not: newest first, in plain words."""
    by_hand = "while it is away Mirage decides nothing."
    service = Service(service_url(url), by_hand=by_hand)
    chain_id = _which(service, chain_id)
    found = list(service.items(f"/chains/{chain_id}/decisions", limit))
    if as_json:
        _print_json(found)
        return
    chain = service.get(f"/chains/{chain_id}")
    for sentence in (*chain_text.at_risk(chain), *chain_text.unregistered(chain)):
        typer.echo(f"{sentence}\n")
    if not found:
        typer.echo(
            "no decisions yet: Mirage decides while a link runs with its successor behind it"
        )
    else:
        typer.echo("\n\n".join(chain_text.decision(row) for row in found))


@chain_app.command()
def pause(chain_id: ChainId, *, url: Url = None, as_json: AsJson = False) -> None:
    """Start no further link until it is resumed; the running link goes on."""
    by_hand = f"`scontrol uhold JOB` on the pending link does the same. {_LOOK}"
    _ask(chain_id, "pause", Service(service_url(url), by_hand=by_hand), as_json=as_json)


@chain_app.command()
def resume(chain_id: ChainId, *, url: Url = None, as_json: AsJson = False) -> None:
    """Undo a pause.

    A chain that its own links paused, after two failures in a row, goes on by `mirage-link resume`.
    """
    by_hand = f"`scontrol release JOB` on the held link does the same. {_LOOK}"
    service = Service(service_url(url), by_hand=by_hand)
    before = service.get(f"/chains/{meant(service, chain_id)}")
    chain = service.post(f"/chains/{before['chain_id']}/resume")  # refuses whose it is not
    if before["state"] == ChainState.ACTIVE:  # it was nothing, and would look like success
        hint = "one that its own links paused goes on by `mirage-link resume CHAIN`"
        raise IllegalTransition(f"chain {chain['chain_id']} is active already; {hint}")
    _tell(chain, as_json=as_json)


@chain_app.command()
def cancel(chain_id: ChainId, *, url: Url = None, as_json: AsJson = False) -> None:
    """End a chain: its standby and its running link are cancelled."""
    by_hand = f"`scancel JOB` on the pending link, then the running one, does the same. {_LOOK}"
    _ask(chain_id, "cancel", Service(service_url(url), by_hand=by_hand), as_json=as_json)


def _ask(chain_id: str, what: str, service: Service, *, as_json: bool) -> None:
    _tell(service.post(f"/chains/{meant(service, chain_id)}/{what}"), as_json=as_json)


def _tell(chain: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        _print_json(chain)
        return
    standing = "; the cluster was not looked at lately, so it may take a while" * chain["stale"]
    typer.echo(
        f"chain {chain['chain_id']} is {chain['state']}: "
        f"Slurm is told when Mirage next looks at the queue{standing}"
    )


def _which(service: Service, chain_id: str) -> str:
    return meant(service, chain_id) if chain_id else newest_of_mine(service)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))
