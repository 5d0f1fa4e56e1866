"""What `mirage chain` says of the mode that holds for a chain, and of a plan that stands."""

import json
from dataclasses import replace

import pytest

from mirage.cli.chains.top import chain_text
from mirage.database.chains import chains
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId, Style
from mirage.domain.decision import Mode
from mirage.provision.control import kill_switch
from tests.integration.cli.test_chain import chain, client, context, run, stage, store
from tests.support.api.running import NOW, Client
from tests.support.chains import make_link

__all__ = ["chain", "client", "context", "stage", "store"]


@pytest.mark.usefixtures("chain")
def test_the_mode_of_the_chains_partition_is_shown(
    client: Client, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        clusters.set_mode(tx, cluster_id, Mode.ACT, "gpu")
    told = run("show", url=client.url).out
    assert "mode act for this chain: Mirage moves the next links" in told
    assert "changes nothing in Slurm" not in told
    assert json.loads(run("list", "--json", url=client.url).out)[0]["service_mode"] == "act"
    with store.begin() as tx:
        kill_switch.pull_switch(tx, cluster_id, kill_switch.Way.REST, now=NOW, actor="root")
    told = " ".join(run("show", url=client.url).out.split())
    assert "the kill switch is pulled: Mirage changes nothing in Slurm" in told


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        ("Dependency", "held, until 01-15 08:03 at the latest"),
        ("JobHeldUser", "held: JobHeldUser"),
        ("JobHeldAdmin", "held: JobHeldAdmin"),
        ("BeginTime", "held: BeginTime"),
        ("DependencyNeverSatisfied", "held: DependencyNeverSatisfied"),
    ],
)
def test_a_plan_is_told_only_while_it_is_what_the_link_waits_for(
    client: Client, chain: ChainId, store: Store, cluster_id: int, reason: str, waits: str
) -> None:
    planned = make_link(
        chain, 4, 104, reason=reason, plan_min=63, planned_release=NOW + 180, nodes=1
    )
    with store.begin() as tx:
        chains.save_link(tx, cluster_id, planned)
    assert waits in " ".join(run("show", chain, url=client.url, COLUMNS="200").out.split())
    found = json.loads(run("show", chain, "--json", url=client.url).out)["links"][-1]
    assert (found["planned_release"] is not None) is (reason == "Dependency")


def test_what_is_left_alone_is_called_a_plan_where_a_plan_stands() -> None:
    row = {"action": "wait", "mode": "act", "effect": "none", "error": "", "repeats": 0}
    row |= {"at": "2027-01-15T08:00:00Z", "link": 2, "policy": "quantile", "reason": "so"}
    row |= {"time_left_s": None, "forecast": None}
    plain = chain_text.format_decision(row | {"inputs": {"standby": 12}})
    assert "Left the standby as it is." in plain
    stands = chain_text.format_decision(row | {"inputs": {"standby": 12, "planned_release": NOW}})
    assert "Left the planned release as it is: Slurm makes the standby eligible at 20" in stands
    assert "Left the standby as it is" not in stands


@pytest.mark.parametrize(
    ("left_s", "verdict"),
    [
        (7200, "give its nodes back and be released again 30 min before the end"),
        (900, "keep its nodes"),
    ],
)
def test_what_a_forecast_lets_an_early_link_do_is_explained(left_s: int, verdict: str) -> None:
    costs = {"price": 0.5, "left_s": [0, 1800], "cost_s": [3000, 0], "lead_s": [0, 1800]}
    row = {"action": "free", "mode": "act", "effect": "done", "error": "", "repeats": 0}
    row |= {"at": "2027-01-15T08:00:00Z", "link": 2, "policy": "twin", "reason": "so"}
    row |= {"time_left_s": left_s, "forecast": None, "inputs": {"standby": 12}}
    assert "by this forecast" not in chain_text.format_decision(row)
    told = chain_text.format_decision(row | {"inputs": {"return_costs": costs}})
    assert told.endswith(f"Should the link start at once, it would by this forecast {verdict}.")


def test_how_often_a_link_gave_its_nodes_back_is_told(
    client: Client, chain: ChainId, store: Store, cluster_id: int
) -> None:
    with store.begin() as tx:
        for index, returns, returned_s in ((4, 1, 30), (5, 2, 75)):
            back = make_link(
                chain, index, 100 + index, nodes=4, returns=returns, returned_s=returned_s
            )
            chains.save_link(tx, cluster_id, replace(back, returned_at=NOW))
        asked = replace(chains.get_chain(tx, cluster_id, chain), max_returns=3)
        chains.save_chain(tx, cluster_id, replace(asked, style=Style.SEQUENTIAL, max_overlap_s=60))
    out = " ".join(run("show", chain, url=client.url, COLUMNS="200").out.split())
    assert "Link 4 gave its nodes back once, as the link before it ran for long yet" in out
    assert "Link 5 gave its nodes back 2 times" in out
    assert "it had held them for 5.0 node-minutes" in out
    assert out.count("gave its nodes back") == 2
    assert "A link that starts early gives its nodes back at most 3 times." in out
    explained = run("explain", chain, url=client.url).out
    assert "Link 5 gave its nodes back 2 times" in explained
    found = json.loads(run("show", chain, "--json", url=client.url).out)
    assert (found["returns"], found["max_returns"]) == (3, 3)
    assert [link["returns"] for link in found["links"]][-2:] == [1, 2]
    assert found["links"][-1]["returned_node_h"] == 4 * 75 / 3600
    metrics = client.get("/metrics").text
    assert "mirage_returns_total 3.0" in metrics
    assert f"mirage_returned_node_seconds_total {4 * (30 + 75)}.0" in metrics
