"""What the pages tell of links that gave their nodes back."""

from dataclasses import replace

import httpx

from mirage.database.chains import chains, handover_outcomes
from mirage.database.chains.handover_outcomes import OutcomeKind, OutcomeRow
from mirage.domain.chain import Style
from tests.support.api.running import NOW
from tests.support.web.seeded_chain import chain_id
from tests.support.web.serving import Site

ID = chain_id(0)


def test_the_pages_tell_how_often_links_gave_their_nodes_back(site: Site) -> None:
    with site.store.begin() as tx:
        link = chains.list_links(tx, site.cluster_id, ID)[-1]
        back = replace(link, nodes=4, returns=2, returned_s=75, returned_at=NOW)
        chains.save_link(tx, site.cluster_id, back)
        asked = replace(chains.get_chain(tx, site.cluster_id, ID), style=Style.SEQUENTIAL)
        chains.save_chain(tx, site.cluster_id, replace(asked, max_returns=3, max_overlap_s=60))
        row = OutcomeRow(
            chain_id=ID,
            index=link.index,
            at=NOW - 60,
            partition="gpu",
            account="ml",
            user="alice",
            uid=1001,
            nodes=4,
            kind=OutcomeKind.ACT,
            actual=(0, 75),
            returns=2,
            returned_s=75,
            returns_saved_s=3600,
            by_policy={},
        )
        handover_outcomes.put_outcomes(tx, site.cluster_id, [row])
    page = httpx.get(f"{site.url}/chains/{ID}").text
    assert "gave its nodes back 2 times, after 5 min of node time" in page
    assert "2 times; at most 3 times a link" in page
    page = httpx.get(f"{site.url}/impact").text
    assert "<b>2</b> times an early link gave its nodes back" in page
    assert "it had held them for 0.08 h of node time" in page
    assert "the nodes would have stood idle for 4 h of node time more" in page
