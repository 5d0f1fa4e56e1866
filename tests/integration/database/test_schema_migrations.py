"""Migrations go up, down and up; strange schemas are refused."""

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, select, text

from mirage.database.chains import chains
from mirage.database.jobs import job_history, snapshots
from mirage.database.learning import challenges, learning_runs
from mirage.database.operations import clusters
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.database.schema.read_model_tables import policy_outcomes
from mirage.database.schema.tables import SCHEMA, VERSION_TABLE, metadata
from mirage.domain.chain import Chain, ChainId, Link
from mirage.domain.job import Job, JobId, JobState
from mirage.errors import SchemaMismatch, StoreUnavailable
from tests.support.paths import MIGRATIONS

CHAIN = Chain(chain_id=ChainId("abcdefgh"), uid=1)

NEXT = f"{int(SCHEMA) + 1:04}"

REBUILD_CHAINS = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "{next}", "{last}"
def upgrade():
    # PostgreSQL alters the column; SQLite makes the table anew and drops the old one.
    with op.batch_alter_table("chains") as batch:
        batch.alter_column("user", nullable=True)
"""

FAIL_HALFWAY = """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "{next}", "{last}"
def upgrade():
    op.create_table("half", sa.Column("x", sa.Integer))
    op.execute("SELECT * FROM nowhere")
"""


@pytest.fixture
def own_url(empty_database_url: str) -> str:
    """A migrated database of the test's own: its schema may be changed."""
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    return empty_database_url


def tables_of(url: str) -> set[str]:
    with closing(Store(url)) as store, store.read() as tx:
        return set(inspect(tx).get_table_names())


def set_version(url: str, revision: str) -> None:
    with closing(Store(url)) as store, store.begin() as tx:
        tx.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'"))  # noqa: S608


def with_second(folder: Path, code: str) -> Path:
    migrations = shutil.copytree(MIGRATIONS, folder / "migrations")
    code = code.replace("{next}", NEXT).replace("{last}", SCHEMA)
    (migrations / "versions" / f"{NEXT}_second.py").write_text(code)
    return migrations


def test_an_empty_database_gets_the_tables(own_url: str) -> None:
    assert tables_of(own_url) == {*metadata.tables, VERSION_TABLE}


def test_upgrading_twice_changes_nothing(own_url: str) -> None:
    schema_migrations.upgrade_schema(own_url, MIGRATIONS)
    with closing(Store(own_url)) as store:
        store.check_schema()


def test_there_is_one_head_and_it_is_the_schema_of_this_program() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [SCHEMA]


def test_migrated_schema_is_that_of_the_tables(store: Store) -> None:
    def ours(_object: object, name: str | None, kind: str, *_: object) -> bool:
        return (kind, name) != ("table", VERSION_TABLE)

    with store.read() as tx:
        context = MigrationContext.configure(
            tx, opts={"compare_type": True, "include_object": ours}
        )
        assert compare_metadata(context, metadata) == []


def test_constraints_have_the_names_of_the_convention(store: Store) -> None:
    with store.read() as tx:
        assert unique_names(tx, "links") == {
            "uq_links_chain_id_index",
            "uq_links_cluster_id_job_id_submit",
        }
        assert unique_names(tx, "snapshots") == {"uq_snapshots_cluster_id_taken_at"}


def unique_names(tx: Connection, table: str) -> set[str | None]:
    return {c["name"] for c in inspect(tx).get_unique_constraints(table)}


def test_schema_of_today_is_accepted(store: Store) -> None:
    store.check_schema()


def test_database_without_schema_is_refused(empty_database_url: str) -> None:
    with (
        closing(Store(empty_database_url)) as store,
        pytest.raises(
            SchemaMismatch, match=r"has no schema yet: run `mirage db upgrade`"
        ) as caught,
    ):
        store.check_schema()
    assert caught.value.exit_code == 4


def test_older_schema_is_refused_with_the_remedy(own_url: str) -> None:
    set_version(own_url, "0000")
    with (
        closing(Store(own_url)) as store,
        pytest.raises(
            SchemaMismatch,
            match=rf"has schema 0000, this program needs {SCHEMA}: run `mirage db upgrade`",
        ),
    ):
        store.check_schema()


def test_newer_schema_is_refused_and_named(own_url: str) -> None:
    set_version(own_url, "9999")
    said = f"has schema 9999, newer than {SCHEMA}, the newest this program knows"
    with (
        closing(Store(own_url)) as store,
        pytest.raises(SchemaMismatch, match=said) as caught,
    ):
        store.check_schema()
    assert caught.value.exit_code == 4
    with pytest.raises(SchemaMismatch, match=said):
        schema_migrations.upgrade_schema(own_url, MIGRATIONS)


def test_rebuilding_a_table_keeps_the_rows_that_point_at_it(own_url: str, tmp_path: Path) -> None:
    link = Link(chain_id=CHAIN.chain_id, index=1, job_id=JobId(7), submit=1)
    with closing(Store(own_url)) as store, store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        chains.save_chain(tx, cluster_id, CHAIN)
        chains.save_link(tx, cluster_id, link)
    schema_migrations.upgrade_schema(own_url, with_second(tmp_path, REBUILD_CHAINS))
    with closing(Store(own_url)) as store, store.read() as tx:
        assert chains.list_links(tx, cluster_id, CHAIN.chain_id) == [link]
        assert chains.get_chain(tx, cluster_id, CHAIN.chain_id) == CHAIN


def test_upgrade_that_fails_halfway_leaves_the_database_as_it_was(
    own_url: str, tmp_path: Path
) -> None:
    with pytest.raises(StoreUnavailable, match="nowhere"):
        schema_migrations.upgrade_schema(own_url, with_second(tmp_path, FAIL_HALFWAY))
    assert tables_of(own_url) == {*metadata.tables, VERSION_TABLE}
    with closing(Store(own_url)) as store:
        store.check_schema()


def test_chains_of_before_are_what_their_wrapper_meant(empty_database_url: str) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, "0001")
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        tx.execute(text("INSERT INTO clusters (id, name) VALUES (1, 'lab')"))
        tx.execute(
            text(
                'INSERT INTO chains (chain_id, cluster_id, uid, "user", state, overlap_price, '
                "created_at, note) VALUES ('abcdefgh', 1, 1, '', 'active', 0.5, 0, '')"
            )
        )
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store, store.read() as tx:
        assert chains.get_chain(tx, 1, CHAIN.chain_id) == replace(CHAIN, max_overlap_s=4 * 3600)


def test_outcomes_of_policies_become_rows(empty_database_url: str) -> None:
    """One hand-over is compared, one is not; a policy that had no columns has rows from then on."""
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, "0170")
    names = [
        f"{policy}_{figure}_s"
        for policy in ("mirage", "reactive", "fixed_lead", "average", "slurm_estimate")
        for figure in ("interruption", "overlap")
    ]
    told, untold = list(range(10)), [None] * 10
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
        tx.execute(_OLDER_CHAIN, {"chain_id": CHAIN.chain_id, "price": 0.5})
        insert = text(
            f'INSERT INTO outcomes (cluster_id, chain_id, "index", at, "partition", account, '  # noqa: S608
            f'"user", uid, nodes, kind, interruption_s, overlap_s, {", ".join(names)}) VALUES '
            f"(1, 'abcdefgh', :index, 9, 'gpu', 'ml', 'alice', 1, 2, 'act', 5, 6, "
            f"{', '.join(f':{name}' for name in names)})"
        )
        for index, values in ((2, told), (3, untold)):
            tx.execute(insert, {"index": index} | dict(zip(names, values, strict=True)))
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    row = {"chain_id": CHAIN.chain_id, "index": 3, "policy": "new"}
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        rows = tx.execute(select(policy_outcomes).order_by(policy_outcomes.c.interruption_s))
        assert [tuple(row) for row in rows] == [
            (CHAIN.chain_id, 2, policy, 2 * place, 2 * place + 1)
            for place, policy in enumerate(
                ("mirage", "reactive", "fixed-lead", "average", "slurm-estimate")
            )
        ]
        tx.execute(policy_outcomes.insert().values(**row, interruption_s=1, overlap_s=1))


def test_snapshots_lose_their_raw_columns_alone(empty_database_url: str) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, "0210")
    rows = [
        {"at": 60, "features": '{"nodes": 3}', "queue": b"packed", "nodes": b"packed"},
        {"at": 120, "features": "{}", "queue": b"packed", "nodes": None},
        {"at": 180, "features": "{}", "queue": None, "nodes": None},
    ]
    insert = text(
        "INSERT INTO snapshots (cluster_id, taken_at, features, queue, nodes) "
        "VALUES (1, :at, :features, :queue, :nodes)"
    )
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
        tx.execute(insert, rows)
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        snapshots.add_snapshot(tx, 1, 240, {})
        kept = snapshots.list_snapshots(tx, 1, 0)
    assert [(row.taken_at, row.features) for row in kept] == [
        *((60, {"nodes": 3}), (120, {}), (180, {}), (240, {})),
    ]


_OLDER_CHAIN = text(
    'INSERT INTO chains (chain_id, cluster_id, uid, "user", state, overlap_price, presubmit, mode, '
    "created_at, at_risk) VALUES (:chain_id, 1, 1, '', 'active', :price, 'next', 'standby', 0, '')"
)


_OLDER_LINK = text(
    'INSERT INTO links (chain_id, "index", cluster_id, job_id, submit, state, position, '
    '"partition", account, nodes, seen_at, reason, hindered) VALUES (:chain_id, 1, 1, :job_id, 9, '
    "'ended', 'free', 'gpu', 'ml', 1, 9, '', '')"
)


def test_a_price_other_than_the_old_default_was_its_users(empty_database_url: str) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, "0180")
    prices = {"abcdefgh": 0.5, "abcdefgi": 0.05}
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
        for chain_id, price in prices.items():
            tx.execute(_OLDER_CHAIN, {"chain_id": chain_id, "price": price})
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store, store.read() as tx:
        found = {name: chains.get_chain(tx, 1, ChainId(name)) for name in prices}
    assert {name: chain.overlap_price for name, chain in found.items()} == prices
    assert [found[name].asked_price for name in prices] == [None, 0.05]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ({"submit_line": "sbatch --mirage-chain=4 --mirage-overlap-price=0.5 a.sh"}, 0.5),
        ({"comment": "mirage:chain=4,overlap-price=0.5"}, 0.5),
        ({"submit_line": "sbatch --mirage-chain=4 --mirage-overlap-price 0.5 a.sh"}, 0.5),
        ({"submit_line": "sbatch --mirage-chain=4 a.sh"}, None),
        ({"submit_line": "sbatch --mirage-chain=4 a.sh --overlap-price=0.7"}, None),
        ({"comment": "overlap-price=0.7 mirage:chain=4,style=switch"}, None),
    ],
)
def test_the_old_default_was_its_users_where_a_job_names_it(
    empty_database_url: str, said: dict[str, Any], asked: float | None
) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, "0180")
    chain_id = ChainId("abcdefgh")
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        cluster_id = clusters.ensure_cluster(tx, "lab")
        tx.execute(_OLDER_CHAIN, {"chain_id": chain_id, "price": 0.5})
        tx.execute(_OLDER_LINK, {"chain_id": chain_id, "job_id": 7})
        job = Job(job_id=JobId(7), submit=9, state=JobState.RUNNING, **said)
        job_history.upsert_jobs(tx, cluster_id, [job])
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store, store.read() as tx:
        found = chains.get_chain(tx, cluster_id, chain_id)
    assert (found.overlap_price, found.asked_price) == (0.5, asked)


def test_links_of_before_gave_no_nodes_back(empty_database_url: str) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, "0220")
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
        tx.execute(_OLDER_CHAIN, {"chain_id": CHAIN.chain_id, "price": 0.5})
        tx.execute(_OLDER_LINK, {"chain_id": CHAIN.chain_id, "job_id": 7})
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store, store.read() as tx:
        (found,) = chains.list_links(tx, 1, CHAIN.chain_id)
    assert (found.job_id, found.returns, found.returned_s, found.returned_at) == (7, 0, 0, None)
    assert found.returned_wait_s is None


def test_of_chains_of_before_nobody_has_said_how_often_links_give_nodes_back(
    empty_database_url: str,
) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, "0230")
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
        tx.execute(_OLDER_CHAIN, {"chain_id": CHAIN.chain_id, "price": 0.5})
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store, store.read() as tx:
        assert chains.get_chain(tx, 1, CHAIN.chain_id).max_returns is None


def test_a_database_of_before_learns_nothing_until_then(empty_database_url: str) -> None:
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS, "0250")
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
        tx.execute(_OLDER_CHAIN, {"chain_id": CHAIN.chain_id, "price": 0.5})
    schema_migrations.upgrade_schema(empty_database_url, MIGRATIONS)
    with closing(Store(empty_database_url)) as store, store.begin() as tx:
        assert learning_runs.read_runs(tx, 1, most=9) == []
        assert challenges.find_standing_challenge(tx, 1) is None
        challenges.start_challenge(tx, 1, model="models/site-lab/1", champion=None, at=9)
        assert chains.get_chain(tx, 1, CHAIN.chain_id).overlap_price == 0.5
