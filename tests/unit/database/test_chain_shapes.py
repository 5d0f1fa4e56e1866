"""What the links of the site's chains asked for, by owner."""

from typing import Any

from mirage.database.chains import chains
from mirage.database.chains.chain_shapes import OwnedShape, read_owned_shapes
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from tests.support.chains import make_chain, make_link

ASKED: dict[str, Any] = {"partition": "gpu", "nodes": 2, "time_limit_s": 3600}


def test_links_that_started_are_counted_by_owner_and_request(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        for name, user in (("a", "ann"), ("b", "ben"), ("c", "ben")):
            chains.save_chain(tx, cluster_id, make_chain(ChainId(name), user=user))
        rows = [
            *(make_link("a", 1, 1, start=100, **ASKED), make_link("a", 2, 2, start=200, **ASKED)),
            *(make_link("a", 3, 3, **ASKED), make_link("b", 1, 4, start=99, **ASKED)),
            *(make_link("b", 2, 5, start=100, **ASKED), make_link("c", 1, 6, start=100)),
            make_link("c", 2, 7, start=101, **ASKED | {"nodes": 4}),
        ]
        for link in rows:
            chains.save_link(tx, cluster_id, link)
        found = read_owned_shapes(tx, cluster_id, since=100)
        assert read_owned_shapes(tx, cluster_id + 1, since=100) == []
    assert sorted(found, key=lambda row: (row.user, row.nodes)) == [
        OwnedShape(user="ann", links=2, **ASKED),
        OwnedShape(user="ben", links=1, **ASKED),
        OwnedShape(user="ben", links=1, **ASKED | {"nodes": 4}),
    ]
