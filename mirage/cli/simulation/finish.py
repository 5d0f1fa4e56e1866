"""The part of `mirage simulate` that plays chains until their work is done."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from mirage.cli.ui.progress import show_share_bar
from mirage.cli.ui.replay_rows import create_table
from mirage.errors import InputError

if TYPE_CHECKING:
    from mirage.domain.chain import Style
    from mirage.history.workloads.replay import Replay
    from mirage.lab.simulation.fidelity import Window
    from mirage.lab.simulation.time_to_finish import FinishPlan, FinishReport
    from mirage.simulator.simulator import Simulator
    from mirage.simulator.types import Params

DEFAULT_POLICIES = (
    "reactive",
    "at-once",
    "average",
    "quantile",
    "auto",
    "pin-then-free",
    "planned-quantile",
)
"""The names that are played where none is given. The last one is of links without a service."""
_COLUMNS = {
    "days": ("days", 2),
    "days_p90": ("days,\np90", 2),
    "interrupted_h": ("inter-\nrupted h", 1),
    "node_hours": ("node-\nhours", 0),
    "idle_node_hours": ("idle\nnode-h", 1),
    "returns": ("re-\nturns", 1),
    "links": ("links", 1),
}
"""By figure: the heading and the digits."""


def plan_chains(
    replay: "Replay",
    params: "Params",
    window: "Window",
    *,
    chains: int,
    nodes: int,
    times: tuple[str, str, str],
    overlap_price: float | None,
    returns: int,
    style: "Style",
) -> "FinishPlan":
    """Read the options; `times` are --work, --time-limit and --startup-time.

    Raises InputError for words without a meaning, and for chains that the cluster or the log has no
    room for.
    """
    from mirage.judging.table.pair_settings import PairSettings, build_pair_job
    from mirage.lab.episodes.chains.work_run import STYLES, Work
    from mirage.lab.simulation.time_to_finish import FinishPlan, choose_submissions
    from mirage.lab.tables.pair_options import parse_duration_s

    if style not in STYLES:
        raise InputError(f"--style {style} is not played: choose one of {', '.join(STYLES)}")
    options = ("--work", "--time-limit", "--startup-time")
    work_s, limit_s, startup_s = map(parse_duration_s, times, options)
    pair = PairSettings(
        nodes=nodes, time_limit_s=limit_s, every_s=limit_s, since=window.begin, until=window.end
    )
    pair.check_feasible(params)
    work = Work(
        link=build_pair_job(pair),
        work_s=work_s,
        startup_s=startup_s,
        overlap_price=overlap_price,
        most_returns=returns,
        style=style,
    )
    return FinishPlan(work=work, chains=chains, window=choose_submissions(replay, work, window))


def play_chains(
    replay: "Replay",
    sim: "Simulator",
    plan: "FinishPlan",
    names: Sequence[str],
    models: Path,
    *,
    as_json: bool,
) -> None:
    """Play the chains of the plan under each policy, and print what came of them.

    `names`: the policies beside plain Slurm; none: `DEFAULT_POLICIES`. `models`: the folder of
    models.
    """
    from mirage.cli.ui.study_output import TERMINAL
    from mirage.lab.simulation.time_to_finish import (
        build_finish_document,
        find_planners,
        measure_finishes,
    )

    played = dict.fromkeys((DEFAULT_POLICIES[0], *(names or DEFAULT_POLICIES)))
    planners = find_planners(played, models, plan, sim.params.name, TERMINAL)
    with show_share_bar("chains") as set_share:
        report = measure_finishes(replay, sim, plan, planners, set_share)
    if as_json:
        typer.echo(json.dumps(build_finish_document(report, plan)))
    else:
        _print_report(report, plan)


def _print_report(report: "FinishReport", plan: "FinishPlan") -> None:
    from mirage.domain.time_units import HOUR_S

    link = plan.work.link
    typer.echo(
        f"{plan.work.work_s / HOUR_S:g} h of work in links of {link.nodes} node(s) and "
        f"{link.time_limit_s / HOUR_S:g} h, style {plan.work.style}\n"
        f"means of {report.chains} chains; reactive: plain Slurm, planned-quantile: no service"
    )
    table = create_table("policy", *(heading for heading, _ in _COLUMNS.values()))
    for name, figures in report.policies.items():
        cells = (f"{getattr(figures, key):,.{n}f}" for key, (_, n) in _COLUMNS.items())
        table.add_row(name, *cells)
    Console().print(table)
    if report.left_out:
        typer.echo(
            f"{report.left_out} of {plan.chains} chains are left out: some policy did not bring "
            "them to their end before the log's last submission"
        )
