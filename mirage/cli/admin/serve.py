"""`mirage serve`: the API and the worker in one process."""

import os
from pathlib import Path
from typing import Annotated

import structlog
import typer

from mirage import logs
from mirage.bootstrap import wiring
from mirage.bootstrap.service_run import run_service
from mirage.config import settings as settings_file

app = typer.Typer()

_log = structlog.get_logger(__name__)


@app.command("serve")
def start_service(
    *,
    user: Annotated[
        bool,
        typer.Option("--user", help="For your own chains alone: no privilege, nobody else's jobs."),
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="mirage.toml. Default: MIRAGE_CONFIG, /etc/mirage.")
    ] = None,
) -> None:
    """Run the service: REST API and worker. SIGTERM finishes the tick under way and ends.

    With --user it keeps its database and its socket in ~/.local/state/mirage/service, which
    `mirage chain` finds by itself; the file `url` there is for MIRAGE_URL of the wrapped sbatch.
    """
    settings = (
        settings_file.load_user_settings(config) if user else settings_file.load_settings(config)
    )
    logs.setup_logging(settings.log_format)
    wiring.check_slurm_commands(settings)
    for sentence in wiring.check_settings(settings):
        _log.warning(sentence)
    if not user:
        wiring.check_path_security(settings)
        run_service(wiring.build_service(settings))
        return
    wiring.make_user_state_dir(settings.service.state_dir)
    os.umask(0o077)
    wiring.upgrade_database(settings)
    run_service(wiring.build_service(settings), owner_uid=os.geteuid())
