"""`mirage learn`: learns from the service's own history."""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from mirage.cli.cluster_file import load_site_params
from mirage.cli.options import ConfigOption, JsonOption
from mirage.cli.policies.executor_options import (
    ExecutorName,
    ExecutorOption,
    GpusOption,
    build_executor,
)
from mirage.cli.ui.compile_notice import warn_if_compiling
from mirage.cli.ui.learning_text import print_document
from mirage.cli.ui.signals import end_like_ctrl_c
from mirage.cli.ui.study_output import TERMINAL
from mirage.errors import ConfigError
from mirage.lab.training.trainers import FamilyName

if TYPE_CHECKING:
    from mirage.config.settings import Settings
    from mirage.lab.blocks.block_executor import BlockExecutor
    from mirage.lab.learning.learn_request import LearnRequest

app = typer.Typer()


@app.command("learn")
def learn_from_history(
    *,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what a run would do, why, and how long it would take."),
    ] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Learn even if there is no reason to learn today.")
    ] = False,
    cluster: Annotated[
        Path | None,
        typer.Option(
            metavar="C.toml",
            help="The cluster file, as `mirage cluster import` writes it. "
            "Default: cluster.file of the configuration.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="2h", help="The longest time of the run: 2h, 30m. Default: learn.budget_h."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--folder",  # typer would take a name from a metavar that is the name in capitals
            metavar="FOLDER",
            help="The folder of tables and candidates. Default: learn.folder, else `learn` in "
            "service.state_dir.",
        ),
    ] = None,
    family: Annotated[
        list[FamilyName] | None,
        typer.Option(
            help="Train this kind of model. Give the option several times for several kinds. "
            "Default: every kind whose packages are installed and for which there is time."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="The number of processes. Default: one for each core."),
    ] = None,
    executor: ExecutorOption = ExecutorName.LOCAL,
    gpus: GpusOption = 0,
    user: Annotated[
        bool,
        typer.Option("--user", help="Learn for your own service (`mirage serve --user`)."),
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """Learn models from the service's own history, and judge them.

    mirage-learn.timer runs this command each night. First it judges, on the newest weeks, the model
    in use and the model that stands for promotion. Then, if there is a reason (no model yet, a week
    has passed), it replays the newest weeks of the history, trains models, and judges them on weeks
    that they have not seen, beside the rules, the twin and the models in use. The best model stands
    for promotion: for two weeks its decisions are only replayed, beside the others'.

    The command puts a model in use only with learn.promote = "auto". Otherwise an admin promotes
    the model on the page Admin. A model in use that costs more than the rules is taken back, unless
    learn.promote is "never". docs/admin/learning.md says more, also what a run costs.

    If a run is interrupted, or its time is over, run the command again: it goes on from there. Two
    runs for one database never go on at once, from whichever hosts.

    The exit code is 0 if there is nothing to learn, too little history, or no time left. It is 1 if
    another run goes on, and 2 if the cluster file does not fit, if packages are missing, or if the
    account is not the service's.
    """
    from mirage.lab.learning.nightly_look import plan_learning, run_learning
    from mirage.lab.tables.table_plan import count_cores
    from mirage.service.models_folder import prepare_models_folder

    settings = _load_settings(config, user=user)
    processes = settings.slurm.at_once if executor is ExecutorName.SLURM else jobs or count_cores()
    blocks = build_executor(executor, processes, settings, gpus), processes
    warn_if_compiling()
    with end_like_ctrl_c():
        if not dry_run:
            _check_paths(settings, folder)
            prepare_models_folder(settings)
        request = replace(
            _build_request(settings, cluster, folder, budget, blocks),
            is_forced=now,
            families=tuple(family or ()),
        )
        if dry_run:
            with tempfile.TemporaryDirectory(prefix="mirage-learn-") as scratch:
                document = plan_learning(request, Path(scratch), TERMINAL)
        else:
            document = run_learning(request, TERMINAL)
    if as_json:
        typer.echo(json.dumps(document))
    else:
        print_document(document, Console())


def _load_settings(config: Path | None, *, user: bool) -> "Settings":
    from mirage.config import settings as settings_file
    from mirage.service import own_site

    if user:
        return own_site.complete_settings(settings_file.load_user_settings(config))
    return settings_file.load_settings(config)


def _check_paths(settings: "Settings", folder: Path | None) -> None:
    """Raise InputError if somebody else could replace what is learned, or if the folders are
    another account's: files of root's would stop the service's own runs."""
    from mirage.service import database_setup, path_security

    database_setup.check_path_security(settings)
    runs_folder = folder or settings.learn.folder
    if runs_folder is not None and (fault := path_security.find_fault(runs_folder)):
        raise ConfigError("learn.folder", [fault])


def _build_request(
    settings: "Settings",
    cluster: Path | None,
    folder: Path | None,
    budget: str | None,
    blocks: "tuple[BlockExecutor, int]",
) -> "LearnRequest":
    """Build the request. `blocks`: who makes them, and how many at once."""
    from mirage.lab.learning.learn_request import LearnRequest
    from mirage.lab.learning.run_budget import Budget
    from mirage.lab.learning.run_folder import RunFolder
    from mirage.lab.site_history import find_cluster_file
    from mirage.lab.tables.pair_options import parse_duration_s
    from mirage.service import database_setup, notice_channels

    rules = settings.learn
    executor, processes = blocks
    wall_s = rules.budget_h * 3600 if budget is None else parse_duration_s(budget, "--budget")
    return LearnRequest(
        cluster=settings.cluster.name,
        params=load_site_params(find_cluster_file(settings, cluster)),
        store=database_setup.open_store(settings),
        folder=RunFolder(folder or rules.folder or settings.service.state_dir / "learn"),
        models=settings.models_dir,
        rules=rules,
        budget=Budget(
            wall_s=wall_s,
            memory_gib=rules.memory_gib,
            processes=processes,
            is_local=executor.is_local,
        ),
        executor=executor,
        now=int(time.time()),
        channels=notice_channels.list_channels(settings.notify),
    )
