"""The part of `mirage simulate` that plays chains until their work is done."""

import json
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from mirage.cli.ui.progress import show_share_bar
from mirage.cli.ui.replay_rows import create_table

if TYPE_CHECKING:
    from mirage.history.workloads.replay import Replay
    from mirage.lab.simulation.fidelity import Window
    from mirage.lab.simulation.time_to_finish import FinishPlan, FinishReport
    from mirage.simulator.simulator import Simulator
    from mirage.simulator.types import Params

POLICIES = ("reactive", "at-once", "average", "quantile", "auto")
_COLUMNS = {
    "days": ("days", 2),
    "days_p90": ("days,\np90", 2),
    "interrupted_h": ("inter-\nrupted h", 1),
    "node_hours": ("node-\nhours", 0),
    "idle_node_hours": ("idle node-\nhours", 1),
    "returns": ("returns", 1),
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
    overlap_price: float,
    returns: int,
) -> "FinishPlan":
    """Read the options; `times` are --work, --time-limit and --startup-time.

    Raises InputError for words without a meaning, and for chains that the cluster or the log has no
    room for.
    """
    from mirage.judging.table.pair_settings import PairSettings, build_pair_job
    from mirage.lab.episodes.chains.work_run import Work
    from mirage.lab.simulation.time_to_finish import FinishPlan, choose_submissions
    from mirage.lab.tables.pair_options import parse_duration_s

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
    )
    return FinishPlan(work=work, chains=chains, window=choose_submissions(replay, work, window))


def play_chains(replay: "Replay", sim: "Simulator", plan: "FinishPlan", *, as_json: bool) -> None:
    """Play the chains of the plan under each policy, and print what came of them."""
    from mirage.lab.simulation.time_to_finish import build_finish_document, measure_finishes
    from mirage.policies.registry import get_policy

    policies = {name: get_policy(name) for name in POLICIES}
    with show_share_bar("chains") as set_share:
        report = measure_finishes(replay, sim, plan, policies, set_share)
    if as_json:
        typer.echo(json.dumps(build_finish_document(report, plan)))
    else:
        _print_report(report, plan)


def _print_report(report: "FinishReport", plan: "FinishPlan") -> None:
    from mirage.domain.time_units import HOUR_S

    link = plan.work.link
    typer.echo(
        f"{plan.work.work_s / HOUR_S:g} h of work in links of {link.nodes} node(s) and "
        f"{link.time_limit_s / HOUR_S:g} h\n"
        f"means of {report.chains} chains; reactive is plain Slurm"
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
