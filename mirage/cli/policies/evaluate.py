"""`mirage evaluate`: compares what policies cost on the same hand-overs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mirage.cli.connection.suggestions import suggest_policies
from mirage.cli.options import ConfigOption, OverlapPriceOption, get_models_folder
from mirage.cli.policies.figure_tables import render_figure_tables
from mirage.cli.ui.study_output import TERMINAL
from mirage.domain.chain import OVERLAP_PRICE
from mirage.domain.time_units import HOUR_S
from mirage.domain.timelimit import UNLIMITED, parse_time_limit
from mirage.errors import InputError, MalformedText
from mirage.lab.output_check import check_writable

app = typer.Typer()

ALWAYS = ("reactive", "average", "oracle")
_STDOUT = "-"
_MOST_RETURNS = 2
"""`policy_evaluation.MOST_RETURNS`, which takes half a second to import."""


@app.command("evaluate")
def evaluate_tables(
    words: Annotated[
        list[str],
        typer.Argument(metavar="E.npz...", help="Tables written by `mirage episodes`."),
    ],
    *,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy",
            autocompletion=suggest_policies,
            help="A policy to compare. Give the option several times for several policies. "
            "reactive, average and oracle are always there.",
        ),
    ] = None,
    json_path: Annotated[
        str | None,
        typer.Option("--json", metavar="OUT.json", help="Write the result here; - is stdout."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Plot interruption against overlap."),
    ] = None,
    overlap_price: OverlapPriceOption = OVERLAP_PRICE,
    startup_time: Annotated[
        str,
        typer.Option(
            metavar="W", help="How long a successor needs until it does useful work: 0:10:00."
        ),
    ] = "0",
    returns: Annotated[
        int,
        typer.Option(
            min=0,
            max=9,
            metavar="N",
            help="Let a link that starts early give its nodes back and be released again, up to N "
            "times a hand-over, as sequential chains with --mirage-returns do. 0: it holds its "
            "nodes until its predecessor ends.",
        ),
    ] = _MOST_RETURNS,
    guard: Annotated[
        bool,
        typer.Option(
            "--guard/--no-guard",
            help="Bound how early a link may start by the default max-overlap: 4 h, or a quarter "
            "of the time limit where that is less.",
        ),
    ] = True,
    intervals: Annotated[
        bool,
        typer.Option("--intervals", help="Also show 95 % intervals, in a wider table."),
    ] = False,
    config: ConfigOption = None,
) -> None:
    """Compare policies on the same hand-overs.

    The figures are interruption, overlap, cost and the gap closed. A gap closed of 0 is plain Slurm
    (reactive), 1 is the best choice in hindsight (oracle). Each policy decides at every instant of
    the tables from what was known then. planned-quantile is what links plan by themselves without a
    service, bounded by the default max-overlap. switch-quantile is the rule quantile at the default
    price of a switch chain. Agents (dqn, policy-gradient) forecast no wait, so --guard adds none to
    max-overlap: an agent frees no link while more than max-overlap is left of its predecessor's
    run. A link that starts early may give its nodes back, as the policy's forecast or its own last
    wait has it; each return costs 6 minutes of its nodes. --returns 0 and --no-guard leave these
    parts of the product out. The load classes go by reactive's interruption: light up to 2 h,
    medium up to 12 h, heavy above 12 h. The 95 % intervals resample whole days.
    docs/reference/episodes.md has the definitions.
    """
    from mirage.lab.evaluation import pareto_plot
    from mirage.lab.evaluation.evaluation_document import (
        build_document,
        compute_figures,
        evaluate_constant_leads,
        warn_if_pooled,
    )
    from mirage.lab.evaluation.policy_evaluation import (
        EvaluationRequest,
        load_judged_table,
        run_evaluation,
    )

    paths, names = _split_paths_and_policies(words, policies or [])
    if plot is not None:
        pareto_plot.check_plot_path(plot)
    if json_path not in (None, _STDOUT):
        check_writable(Path(json_path))
    startup_h = _parse_startup_h(startup_time)
    models_folder = get_models_folder(config)
    tables = [load_judged_table(path, TERMINAL) for path in paths]
    request = EvaluationRequest(
        paths=paths,
        tables=tables,
        names=names,
        models=models_folder,
        overlap_price=overlap_price,
        startup_h=startup_h,
        most_returns=returns,
        guarded=guard,
    )
    evaluation = run_evaluation(request, TERMINAL)
    figures = compute_figures(evaluation, overlap_price)
    if plot is not None:
        pareto_plot.write_plot(plot, figures, evaluate_constant_leads(tables, startup_h))
    warn_if_pooled(tables, TERMINAL)
    _print_document(build_document(figures, request), json_path, intervals)


def _split_paths_and_policies(
    words: Sequence[str], policies: Sequence[str]
) -> tuple[list[Path], list[str]]:
    """Split the words into tables and policies: in `--policy a b`, b may be a policy too."""
    from mirage.lab.evaluation.policy_evaluation import NO_POLICIES
    from mirage.policies.registry import MOVES_OFTEN, NAMES, is_model

    table_policies = (*(name for name in NAMES if name not in MOVES_OFTEN), *NO_POLICIES)
    all_policies = {*table_policies, *MOVES_OFTEN}
    more_policies = [
        w for w in words if (w in all_policies or is_model(w)) and not Path(w).is_file()
    ]
    paths = [Path(word) for word in words if word not in more_policies]
    if not paths:
        raise InputError("no episode table was given: `mirage episodes` writes one")
    names = [*ALWAYS, *policies, *more_policies]
    for name in names:
        if name in MOVES_OFTEN:
            raise InputError(
                f"{name} moves a standby several times, and a table has the outcome of one release "
                "alone: judge it by `python -m benchmarks.positions`, on the simulator"
            )
        if not is_model(name) and name not in table_policies:
            raise InputError(
                f"there is no policy {name!r}: choose one of {', '.join(table_policies)}, or "
                "models/NAME/VERSION"
            )
    return paths, list(dict.fromkeys(names))


def _parse_startup_h(text: str) -> float:
    try:
        seconds = parse_time_limit(text)
    except MalformedText as error:
        raise InputError(f"--startup-time: {error}") from None
    if seconds is None or seconds == UNLIMITED:
        raise InputError(f"--startup-time: {text!r} is not a time: write 0:10:00")
    return seconds / HOUR_S


def _print_document(document: dict[str, Any], json_path: str | None, intervals: bool) -> None:
    from mirage.lab.evaluation.auto_choices import format_auto_choices
    from mirage.policies.registry import AUTO

    text = json.dumps(document, indent=1)
    if json_path == _STDOUT:
        typer.echo(text)
        return
    if json_path is not None:
        try:
            Path(json_path).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{json_path} cannot be written: {error.strerror}") from error
    console = Console()
    for table in render_figure_tables(
        document["policies"], most_returns=document["most_returns"], intervals=intervals
    ):
        console.print(table)
    if AUTO in document["policies"]:
        console.print(format_auto_choices(document["policies"][AUTO]["all"]), soft_wrap=True)
