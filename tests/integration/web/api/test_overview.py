"""What the pages Now and Chain show, over REST: in one order, without gaps, and the same."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mirage.chains import lifecycle as chain_service
from mirage.database.chains import chains
from mirage.database.jobs import job_history
from mirage.domain.chain import ChainState, Position
from tests.support.api.running import NOW
from tests.support.slurm.printed_jobs import reread_record
from tests.support.web.credentials import session_of
from tests.support.web.seeded import LOOKED_AT, Size
from tests.support.web.seeded_chain import chain_id
from tests.support.web.serving import Site, serving

MANY = Size(chains=120, jobs=0, days=1)
HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def many(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(sqlite_template, tmp_path_factory.mktemp("many"), MANY) as made:
        yield made


@pytest.fixture
def few(sqlite_template: Path, tmp_path: Path) -> Iterator[Site]:
    with serving(sqlite_template, tmp_path, Size(chains=3, jobs=20, days=1)) as made:
        yield made


def walked(site: Site, limit: int, **more: Any) -> list[dict[str, Any]]:
    found = []
    path: str | None = f"/api/v1/overview?limit={limit}"
    while path is not None:
        page = site.client.get(path, **more).json()
        found += page["items"]
        path = page["next"]
    return found


def test_pages_are_in_one_order_without_gaps(many: Site) -> None:
    at_once, in_steps = walked(many, 500), walked(many, 7)
    ids = [row["chain"]["chain_id"] for row in in_steps]
    assert ids == [row["chain"]["chain_id"] for row in at_once]
    assert len(ids) == len(set(ids)) == 114, "six of 120 are over"
    risk = [row["chain"]["at_risk"] is not None for row in in_steps]
    assert risk == sorted(risk, reverse=True)
    assert any(risk)
    paused = [row["chain"]["state"] == "paused" for row in in_steps if not row["chain"]["at_risk"]]
    assert paused == sorted(paused, reverse=True)
    rest = [row for row in in_steps if row["chain"]["state"] == "active"]
    ends = [row["next"]["predecessor_end"] for row in rest if not row["chain"]["at_risk"]]
    assert ends == sorted(ends)


def test_the_page_and_rest_tell_of_the_same_chains(many: Site) -> None:
    told = [row["chain"]["chain_id"] for row in walked(many, 25)[:25]]
    page = many.client.raw("GET", "/", headers=HTML).text
    table = page[page.index("<tbody>") :]
    places = [table.index(f"/chains/{chain}") for chain in told]
    assert places == sorted(places)
    assert "Next page" in page


def test_the_soonest_hand_overs_are_told_with_their_forecast(many: Site) -> None:
    soon = many.client.get("/api/v1/overview").json()["soon"]
    assert len(soon) == 12
    ends = [upcoming["predecessor_end"] for upcoming in soon]
    assert ends == sorted(ends)
    for upcoming in soon:
        start = upcoming["start"]
        assert start["p10"] < start["p50"] < start["p90"]
        assert not start["eligible"]
        assert upcoming["decision"]["action"] == "wait"


@pytest.mark.parametrize("cursor", ["0", "3-1-seed00000000", f"0-{2**63}-seed00000000", "x"])
def test_a_cursor_of_no_page_is_refused(many: Site, cursor: str) -> None:
    assert many.client.get("/api/v1/overview", cursor=cursor).status_code == 422


def test_a_timeline_tells_each_hand_over_against_its_forecast(few: Site) -> None:
    told = few.client.get(f"/api/v1/chains/{chain_id(1)}/timeline").json()
    indices = [link["index"] for link in told["links"]]
    assert [handover["link"] for handover in told["handovers"]] == indices[1:]
    *over, coming = told["handovers"]
    for handover in over:
        assert handover["predecessor_ended"]
        assert not (handover["interruption_h"] and handover["overlap_h"])
        assert handover["forecast"]["since"] == handover["freed_at"]
    assert coming["interruption_h"] is None
    assert told["course"]["link"] == coming["link"]
    assert [p["at"] for p in told["course"]["points"]] == sorted(
        p["at"] for p in told["course"]["points"]
    )
    assert told["logs"] is None, "somebody unknown is not told where files are"
    older = few.client.get(f"/api/v1/chains/{chain_id(1)}/timeline", link=indices[1]).json()
    assert older["course"]["link"] == indices[1]


def test_slurms_own_plan_stands_beside_the_forecast(few: Site) -> None:
    def instant(at: int) -> str:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def told() -> dict[str, Any]:
        items = few.client.get("/api/v1/overview").json()["items"]
        (row,) = (row for row in items if row["chain"]["chain_id"] == chain_id(1))
        found: dict[str, Any] = row["next"]
        return found

    assert told()["slurm_start"] is None
    assert "Slurm plans" not in few.client.raw("GET", "/", headers=HTML).text
    with few.store.begin() as tx:
        last = chains.list_links(tx, few.cluster_id, chain_id(1))[-1]
        freed = replace(last, position=Position.FREE, planned_start=LOOKED_AT + 3 * 3600)
        chains.save_link(tx, few.cluster_id, freed)
    assert told()["slurm_start"] == instant(LOOKED_AT + 3 * 3600)
    page = few.client.raw("GET", "/", headers=HTML).text
    assert re.search("<div>Slurm plans its start <time [^>]*>in 2 h 59 min</time></div>", page)
    assert "Slurm plans its start for 15 Jan 10:59" in page, "in the chart, too"


def test_its_owner_is_told_where_the_logs_are(few: Site) -> None:
    with few.store.begin() as tx:
        first, *_ = chains.list_links(tx, few.cluster_id, chain_id(0))
        (job, *_) = job_history.list_jobs(tx, few.cluster_id, limit=1)
        line = "sbatch -o out-%j.txt job.sh"
        known = reread_record(job, job_id=first.job_id, submit=first.submit, submit_line=line)
        job_history.upsert_jobs(tx, few.cluster_id, [known])
    held = {"Cookie": f"mirage_session={session_of(few.store, few.cluster_id, 'alice')}"}
    answer = few.client.raw("GET", f"/api/v1/chains/{chain_id(0)}/timeline", headers=held).json()
    logs = [(log["file"], log["told"]) for log in answer["logs"]]
    assert logs[:2] == [("out-1000001.txt", True), ("slurm-1000002.out", False)]


def test_a_kept_page_is_made_anew_once_something_changes(few: Site) -> None:
    before = few.client.raw("GET", "/", headers=HTML).text
    assert "paused by carol" not in before
    with few.store.begin() as tx:
        chain = chains.get_chain(tx, few.cluster_id, chain_id(2))
        chain_service.request_state(
            tx, few.cluster_id, chain, ChainState.PAUSED, now=NOW, actor="carol"
        )
    assert "paused by carol" in few.client.raw("GET", "/", headers=HTML).text
