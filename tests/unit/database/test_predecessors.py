"""The database pairs the links of a chain as `domain.handover` does."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirage.database.chains import chains
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import links as table
from mirage.domain.chain import Chain, ChainId, Link, LinkState
from mirage.domain.handover import list_handovers
from mirage.domain.job import JobId

WAITS, VANISHED, RUNS, RAN = range(4)


def build_link(index: int, fate: int) -> Link:
    started = 100 * index if fate in {RUNS, RAN} else None
    state = {WAITS: LinkState.PENDING, RUNS: LinkState.RUNNING}.get(fate, LinkState.ENDED)
    return Link(
        chain_id=ChainId("chain0001"),
        index=index,
        job_id=JobId(10 + index),
        submit=1,
        state=state,
        start=started,
        end=None if state is not LinkState.ENDED else 100 * index + 90,
    )


FATES = st.lists(st.integers(WAITS, RAN) | st.none(), max_size=9)
"""By index, from 1; None: that link is not known."""


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(FATES)
def test_sql_and_python_name_the_same_predecessors(
    lab_store: Store, fates: list[int | None]
) -> None:
    links = [build_link(i, fate) for i, fate in enumerate(fates, 1) if fate is not None]
    other = [replace(li, chain_id=ChainId("chain0002"), job_id=JobId(90)) for li in links[:1]]
    with lab_store.begin() as tx:
        tx.execute(table.delete())
        for chain_id in ("chain0001", "chain0002"):
            chains.save_chain(tx, 1, Chain(chain_id=ChainId(chain_id), uid=1001))
        for link in (*links, *other):
            chains.save_link(tx, 1, link)
        found = chains.list_handovers(tx, 1)
    complete = [pair for pair in list_handovers(links) if pair.over is not None]
    assert [(row.predecessor, row.successor) for row in found] == complete
