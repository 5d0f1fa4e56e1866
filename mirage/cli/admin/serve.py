"""`mirage serve`: runs the API and the worker in one process."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirage.cli.options import ConfigOption
from mirage.errors import InputError

if TYPE_CHECKING:
    from mirage.config.settings import Settings

app = typer.Typer()


@app.command("serve")
def start_service(
    *,
    user: Annotated[
        bool,
        typer.Option("--user", help="Manage your own chains alone. Needs no admin."),
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Run the service: REST API and worker. On SIGTERM it completes its current tick and ends.

    With --user the service keeps its database and its socket in ~/.local/state/mirage/service.
    `mirage chain` finds the socket there by itself. For the wrapped sbatch, set MIRAGE_URL to the
    content of the file `url` in that folder. Slurm tells the cluster's name, and the cluster file
    is imported into that folder, at most once a day, unless ~/.config/mirage/mirage.toml has them.
    """
    from mirage import logs
    from mirage.config import settings as settings_file
    from mirage.service import database_setup, wiring
    from mirage.service.service_run import run_service

    if user:
        _start_own_service(settings_file.load_user_settings(config), config)
        return
    settings = settings_file.load_settings(config)
    logs.setup_logging(settings.log_format)
    wiring.check_slurm_commands(settings)
    _warn_of_settings(settings)
    database_setup.check_path_security(settings)
    _show_models(settings)
    run_service(wiring.build_service(settings), learn_options=_repeat_config(config))


def _start_own_service(settings: "Settings", config: Path | None) -> None:
    from mirage import logs
    from mirage.service import database_setup, own_site, wiring
    from mirage.service.service_run import run_service

    logs.setup_logging(settings.log_format)
    wiring.check_slurm_commands(settings)
    database_setup.make_user_state_dir(settings.service.state_dir)
    os.umask(0o077)
    settings = own_site.complete_settings(settings, renews=True)
    _warn_of_settings(settings)
    database_setup.upgrade_database(settings)
    own_site.name_cluster(settings)
    _show_models(settings)
    options = ["--user", *_repeat_config(config)]
    run_service(wiring.build_service(settings), owner_uid=os.geteuid(), learn_options=options)


def _show_models(settings: "Settings") -> None:
    """Show the shipped models in the folder of the site's own: the service does without the
    latter."""
    import structlog

    from mirage.service import models_folder

    try:
        models_folder.prepare_models_folder(settings)
    except InputError as error:
        structlog.get_logger(__name__).warning(str(error))


def _repeat_config(config: Path | None) -> list[str]:
    return [] if config is None else ["--config", str(config)]


def _warn_of_settings(settings: "Settings") -> None:
    import structlog

    from mirage.service import wiring

    log = structlog.get_logger(__name__)
    for sentence in wiring.check_settings(settings):
        log.warning(sentence)
