"""`mirage mode`: shows or sets how far the service goes. Everyone may see the mode."""

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from mirage.cli.connection.suggestions import suggest_partitions
from mirage.cli.options import ConfigOption, JsonOption
from mirage.domain.decision import Mode
from mirage.errors import InputError, StoreUnavailable
from mirage.shipped_files import load_client_module

if TYPE_CHECKING:
    from mirage.database.schema.engine import Transaction

app = typer.Typer()

_ACTOR = "mirage mode"


@app.command("mode")
def show_or_set_mode(
    wanted: Annotated[
        Mode | None, typer.Argument(help="The mode to set. Without it the modes are shown.")
    ] = None,
    *,
    partition: Annotated[
        str,
        typer.Option(
            help="Set the mode of this partition. Default: of the whole cluster.",
            autocompletion=suggest_partitions,
        ),
    ] = "",
    unset: Annotated[
        bool, typer.Option("--unset", help="Let the partition follow the cluster's mode again.")
    ] = False,
    user: Annotated[
        bool, typer.Option("--user", help="Use your own service (`mirage serve --user`).")
    ] = False,
    release: Annotated[
        bool, typer.Option(help="Release the kill switch, even if it was pulled by REST.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show or set how far Mirage goes: observe, shadow (decide and log; the default) or act.

    The command writes to the database, so everyone who may write the database may set the mode.
    The service obeys at its next tick, within a minute. `mirage mode shadow` is the kill switch:
    it stops all acting at once. `mirage mode act` releases the kill switch again, with two
    exceptions. If the switch was pulled by REST, add --release. If it was pulled by an empty file
    named `shadow` in the state directory, remove that file.
    """
    from mirage.config import settings as settings_file
    from mirage.database.jobs import queue_summary
    from mirage.database.operations import clusters
    from mirage.database.operations.demotions import read_demotions
    from mirage.provision.control import kill_switch, modes
    from mirage.provision.control.kill_switch import Way
    from mirage.service import database_setup, own_site

    if unset and (wanted is not None or not partition):
        raise InputError("--unset needs --partition and takes no mode")
    settings = (
        own_site.complete_settings(settings_file.load_user_settings(config))
        if user
        else settings_file.load_settings(config)
    )
    try:
        store = database_setup.open_store(settings)
    except StoreUnavailable:
        fetched_modes = None if wanted is not None or release or unset or user else _fetch_modes()
        if fetched_modes is None:
            raise
        _print_modes(fetched_modes, settings.cluster.name, as_json=as_json)
        return
    with store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, settings.cluster.name)
        file = settings.service.state_dir / kill_switch.FILE
        if file.exists():
            # As the service does at its next tick: until then nothing may slip through.
            kill_switch.pull_switch(
                tx, cluster_id, Way.FILE, now=int(time.time()), actor=f"file {file}"
            )
        if wanted is not None or release:
            _set_mode(tx, cluster_id, wanted, partition, release=release)
        if unset:
            modes.unset_mode(tx, cluster_id, partition, now=int(time.time()), actor=_ACTOR)
        current = clusters.list_modes(tx, cluster_id)
        pulled = kill_switch.list_pulls(tx, cluster_id)
        demotions = read_demotions(tx, cluster_id)
        partitions = queue_summary.list_partitions(tx, cluster_id)
    if partition and partitions and partition not in partitions and not unset:
        typer.echo(
            f"note: the last look at the nodes found no partition {partition}, but "
            f"{', '.join(partitions)}",
            err=True,
        )
    if any(wanted is not Mode.SHADOW or pull.way != Way.COMMAND for pull in pulled):
        typer.echo(f"note: {kill_switch.explain_pulls(pulled)}", err=True)
    for demotion in demotions:
        typer.echo(f"note: {demotion.explain()}", err=True)
    modes_now = {name: m.value for name, m in current.items()}
    _print_modes(modes_now, settings.cluster.name, as_json=as_json)


def _fetch_modes() -> dict[str, str] | None:
    """Ask the service for the modes, which everyone may know; None if no service answers.

    This is for a user who cannot read the database, because it belongs to another account.
    """
    rest = load_client_module("client.rest")
    try:
        answer = rest.ServiceClient(rest.resolve_service_url(), by_hand="").get("/mode")
    except rest.ServiceUnavailable:
        return None
    if answer.get("kill_switch"):
        typer.echo(
            "note: the kill switch is pulled: Mirage changes nothing in Slurm by itself", err=True
        )
    for sentence in answer.get("demoted", ()):
        typer.echo(f"note: {sentence}", err=True)
    return {"": answer["mode"], **answer["partitions"]}


def _print_modes(modes: Mapping[str, str], cluster: str, *, as_json: bool) -> None:
    rows = sorted(modes.items())
    if as_json:
        typer.echo(json.dumps({name or "*": mode for name, mode in rows}))
        return
    for name, mode in rows:
        typer.echo(f"{name or 'cluster ' + cluster}: {mode}")


def _set_mode(
    tx: "Transaction", cluster_id: int, mode: Mode | None, partition: str, *, release: bool
) -> None:
    from mirage.provision.control import kill_switch, modes
    from mirage.provision.control.kill_switch import Way

    now = int(time.time())
    if mode is Mode.SHADOW and not partition:
        kill_switch.pull_switch(tx, cluster_id, Way.COMMAND, now=now, actor=_ACTOR)
    if release or mode is Mode.ACT:
        ways = kill_switch.BY_HAND if release else {Way.COMMAND}
        kill_switch.release_switch(tx, cluster_id, ways, now=now, actor=_ACTOR)
    if mode is not None:
        modes.set_mode(tx, cluster_id, mode, partition, now=now, actor=_ACTOR)
