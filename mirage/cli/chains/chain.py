"""`mirage chain`: submits, shows and changes chains, and explains what Mirage did to them."""

import json
import os
import sys
from typing import Annotated, Any

import typer
from rich.markup import escape

from mirage.cli.chains import chain_text
from mirage.cli.chains.service_options import ServiceJson, Url
from mirage.cli.chains.timeline_rows import build_timeline
from mirage.cli.connection.chain_lookup import get_own_name, pick_newest_chain, resolve_chain_id
from mirage.cli.connection.service_client import ServiceClient
from mirage.cli.connection.suggestions import suggest_chains, suggest_policies
from mirage.cli.connection.transport import resolve_service_url
from mirage.cli.ui.terminal import create_console
from mirage.config.paths import get_data_dir
from mirage.domain.chain import MAX_LINKS, ChainState
from mirage.errors import IllegalTransition, InputError

app = typer.Typer()
chain_app = typer.Typer(no_args_is_help=True, help="Submit, show, pause, resume or cancel chains.")
app.add_typer(chain_app, name="chain")

_LOOK = "`squeue --me -O JobID,State,Reason,Comment` shows your links (mirage:<chain>:<link>)."

_WHICH = (
    "The chain: its id in `mirage chain list`, the id's first letters, or its running job's id."
)
ChainArgument = Annotated[str, typer.Argument(help=_WHICH, autocompletion=suggest_chains)]
MyChain = Annotated[
    str,
    typer.Argument(
        help=f"{_WHICH} Default: your own chain, if you have one.", autocompletion=suggest_chains
    ),
]


@chain_app.command(
    "submit",
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "allow_interspersed_args": False,
    },
)
def submit_chain(
    context: typer.Context,
    *,
    links: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_LINKS, help="How many jobs the chain has.", show_default=False),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="The policy that decides. Default: the service's policy.",
            autocompletion=suggest_policies,
        ),
    ] = None,
    overlap_price: Annotated[
        float | None,
        typer.Option(min=0, help="What an hour of overlap costs, in hours of interruption."),
    ] = None,
) -> None:
    """Submit a chain: give these options first, then sbatch's options and the script.

    The command does the same as `sbatch --mirage-chain=LINKS ...` of the wrapped sbatch. The other
    options of the wrapped sbatch (`sbatch --mirage-help`) work here too, such as
    --mirage-style=wait. They stand before the script.
    """
    wrapper = get_data_dir("slurm_plugin") / "sbatch"
    if not context.args:
        raise InputError(
            "there is nothing to submit: give sbatch's options and a script, as in "
            "`mirage chain submit --links 8 -t 48:00:00 job.sh`"
        )
    if not wrapper.exists():
        raise InputError(
            f"the wrapped sbatch is not at {wrapper}: this installation is incomplete, "
            "install Mirage again"
        )
    if links is None:
        is_misplaced = "--links" in context.args
        raise InputError(
            f"--links stands after {context.args[0]}: give --links first, then sbatch's options"
            if is_misplaced
            else "the number of links is missing: `mirage chain submit --links 8 ...`"
        )
    wrapper_options = [f"--mirage-chain={links}"]
    wrapper_options += [] if policy is None else [f"--mirage-policy={policy}"]
    wrapper_options += [] if overlap_price is None else [f"--mirage-overlap-price={overlap_price}"]
    # Run by this Python: /usr/bin/python3, which the wrapper's first line names, may be missing.
    command = [sys.executable, "-IS", str(wrapper), *wrapper_options, *context.args]
    os.execv(command[0], command)  # noqa: S606 - an argument vector


@chain_app.command("list")
def list_chains(
    *,
    user: Annotated[str | None, typer.Option(help="List this user's chains only.")] = None,
    mine: Annotated[bool, typer.Option("--me", help="List your own chains only.")] = False,
    state: Annotated[
        ChainState | None, typer.Option(help="List chains in this state only.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="List at most so many chains.")] = 100,
    url: Url = None,
    as_json: ServiceJson = False,
) -> None:
    """List chains, newest first."""
    service = ServiceClient(resolve_service_url(url), by_hand=_LOOK)
    state_name = None if state is None else state.value
    owner = get_own_name() if mine else user
    rows = list(service.iter_items("/chains", limit, user=owner, state=state_name))
    if as_json:
        _print_json(rows)
    elif not rows:
        typer.echo(f"no chains of {owner}" if owner else "no chains")
    else:
        out = create_console()
        out.print(chain_text.render_chain_table(rows, out.width))
        for note in chain_text.list_chain_notes(rows):
            out.print(escape(note), soft_wrap=True)


@chain_app.command("show")
def show_chain(
    chain_id: MyChain = "",
    *,
    links: Annotated[int, typer.Option(min=1, help="Draw at most so many links, the newest.")] = 24,
    url: Url = None,
    as_json: ServiceJson = False,
) -> None:
    """Show a chain: a timeline of its links, then a table of links and one of hand-overs.

    The timeline is drawn to scale. It marks interruptions, overlaps and the forecast of the next
    link's start. A mark is at least one character wide, so that short ones are seen too. Times are
    in this host's time zone.
    """
    service = ServiceClient(resolve_service_url(url), by_hand=_LOOK)
    chain_id = _choose_chain_id(service, chain_id)
    chain = service.get(f"/chains/{chain_id}")
    if as_json:
        _print_json(chain)
        return
    out = create_console()
    timeline = build_timeline(service.get(f"/chains/{chain_id}/timeline"), newest=links)
    for part in chain_text.render_chain_page(
        chain, out.width, chain_text.draw_timeline(timeline, out)
    ):
        out.print(part, highlight=False)
    out.print(chain_text.describe_service_state(chain, service.get("/mode")), highlight=False)


@chain_app.command("explain")
def explain_decisions(
    chain_id: MyChain = "",
    *,
    limit: Annotated[
        int, typer.Option(min=1, help="Show at most so many decisions, the newest.")
    ] = 20,
    url: Url = None,
    as_json: ServiceJson = False,
) -> None:
    """Explain why Mirage moved the chain's next links in the queue, or did not, newest first."""
    by_hand = "Mirage decides nothing until it is back."
    service = ServiceClient(resolve_service_url(url), by_hand=by_hand)
    chain_id = _choose_chain_id(service, chain_id)
    rows = list(service.iter_items(f"/chains/{chain_id}/decisions", limit))
    if as_json:
        _print_json(rows)
        return
    chain = service.get(f"/chains/{chain_id}")
    for sentence in (
        *chain_text.describe_price(chain),
        *chain_text.describe_returns(chain),
        *chain_text.describe_risk(chain),
        *chain_text.describe_unregistered(chain),
    ):
        typer.echo(f"{sentence}\n")
    if not rows:
        typer.echo(
            "no decisions yet: Mirage decides once a link runs and the next link is in the queue"
        )
    else:
        typer.echo("\n\n".join(chain_text.format_decision(row) for row in rows))


@chain_app.command("pause")
def pause_chain(chain_id: ChainArgument, *, url: Url = None, as_json: ServiceJson = False) -> None:
    """Pause a chain: its running link goes on, and no further link starts until you resume it."""
    by_hand = f"`scontrol uhold JOB` on the pending link does the same. {_LOOK}"
    _request_change(
        chain_id, "pause", ServiceClient(resolve_service_url(url), by_hand=by_hand), as_json=as_json
    )


@chain_app.command("resume")
def resume_chain(chain_id: ChainArgument, *, url: Url = None, as_json: ServiceJson = False) -> None:
    """Resume a chain that you, an admin or Mirage paused.

    A chain pauses itself after two failed links in a row. `mirage-link resume CHAIN` resumes such
    a chain.
    """
    by_hand = f"`scontrol release JOB` on the held link does the same. {_LOOK}"
    service = ServiceClient(resolve_service_url(url), by_hand=by_hand)
    old_chain = service.get(f"/chains/{resolve_chain_id(service, chain_id)}")
    chain = service.post(f"/chains/{old_chain['chain_id']}/resume")
    # The service answers 403 if the caller may not change this chain. A chain that was active
    # already has not changed, so the command must not report success.
    if old_chain["state"] == ChainState.ACTIVE:
        hint = "`mirage-link resume CHAIN` resumes a chain that paused itself after failed links"
        raise IllegalTransition(f"chain {chain['chain_id']} is active already; {hint}")
    _print_state(chain, as_json=as_json)


@chain_app.command("cancel")
def cancel_chain(chain_id: ChainArgument, *, url: Url = None, as_json: ServiceJson = False) -> None:
    """End a chain: cancel its pending and its running link."""
    by_hand = f"`scancel JOB` on the pending link, then the running one, does the same. {_LOOK}"
    _request_change(
        chain_id,
        "cancel",
        ServiceClient(resolve_service_url(url), by_hand=by_hand),
        as_json=as_json,
    )


def _request_change(chain_id: str, action: str, service: ServiceClient, *, as_json: bool) -> None:
    _print_state(
        service.post(f"/chains/{resolve_chain_id(service, chain_id)}/{action}"), as_json=as_json
    )


def _print_state(chain: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        _print_json(chain)
        return
    delay_note = (
        "; this may take a while, since Mirage has not read the queue lately" * chain["stale"]
    )
    typer.echo(
        f"chain {chain['chain_id']} is {chain['state']}: "
        f"Mirage tells Slurm at its next look at the queue{delay_note}"
    )


def _choose_chain_id(service: ServiceClient, chain_id: str) -> str:
    return resolve_chain_id(service, chain_id) if chain_id else pick_newest_chain(service)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2))
