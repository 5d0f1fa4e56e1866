"""The audit."""

from dataclasses import replace

from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.schema.engine import Store
from mirage.domain.chain import ChainId
from mirage.domain.job import JobId

ADOPTED = AuditEntry(
    at=100,
    actor="mirage",
    event="link adopted",
    chain_id=ChainId("abcdefgh"),
    job_id=JobId(7),
    detail={"position": "free"},
)
MODE = AuditEntry(at=200, actor="root", event="mode set")


def test_entries_come_back_newest_first(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        first = audit.write_entry(tx, cluster_id, ADOPTED)
        second = audit.write_entry(tx, cluster_id, MODE)
        assert audit.list_entries(tx, cluster_id) == [
            replace(MODE, id=second),
            replace(ADOPTED, id=first),
        ]


def test_entries_are_filtered_and_paged(store: Store, cluster_id: int) -> None:
    with store.begin() as tx:
        ids = [audit.write_entry(tx, cluster_id, e) for e in (ADOPTED, MODE, ADOPTED)]
        of_chain = audit.list_entries(tx, cluster_id, chain_id=ChainId("abcdefgh"))
        assert [e.id for e in of_chain] == [ids[2], ids[0]]
        assert [e.id for e in audit.list_entries(tx, cluster_id, event="mode set")] == [ids[1]]
        assert [e.id for e in audit.list_entries(tx, cluster_id, after=ids[2], limit=1)] == [ids[1]]
        assert audit.list_entries(tx, cluster_id + 1) == []
