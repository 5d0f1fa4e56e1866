"""Opening the database, its transactions, and what it says when it cannot be used."""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, OperationalError

from mirage.database.chains import chains
from mirage.database.jobs import queue_sums
from mirage.database.operations import clusters
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.domain.chain import Chain, ChainId
from mirage.domain.decision import Mode
from mirage.errors import InputError, StoreError, StoreUnavailable
from tests.support.fixtures.store import PostgresServer
from tests.support.paths import MIGRATIONS

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become nobody")
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def nobodys_way() -> Iterator[Path]:
    """A directory of root's that others may look into (pytest's own are closed to them)."""
    folder = Path(tempfile.mkdtemp(prefix="mirage-unwritable-", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_commits_at_the_end(store: Store) -> None:
    with store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
    with store.read() as tx:
        assert list(clusters.list_cluster_names(tx).values()) == ["lab"]


def test_rolls_back_on_an_exception(store: Store) -> None:
    class Stop(Exception):
        pass

    def fail() -> None:
        with store.begin() as tx:
            clusters.ensure_cluster(tx, "lab")
            raise Stop

    with pytest.raises(Stop):
        fail()
    with store.read() as tx:
        assert clusters.list_cluster_names(tx) == {}


def test_reading_transaction_cannot_write(store: Store) -> None:
    with pytest.raises((StoreUnavailable, DBAPIError)), store.read() as tx:
        clusters.ensure_cluster(tx, "lab")
    with store.begin() as tx:  # and the connection can be written with afterwards
        clusters.ensure_cluster(tx, "lab")


def test_reading_transaction_sees_one_state(store: Store) -> None:
    with store.read() as reader:
        assert clusters.list_cluster_names(reader) == {}
        with store.begin() as writer:
            clusters.ensure_cluster(writer, "lab")
        assert clusters.list_cluster_names(reader) == {}
    with store.read() as reader:
        assert len(clusters.list_cluster_names(reader)) == 1


def test_writers_wait_for_each_other(store: Store, cluster_id: int) -> None:
    """Each reads, then writes: nothing is lost and nothing fails."""

    def write(partition: str) -> None:
        for _ in range(20):
            with store.begin() as tx:
                clusters.list_modes(tx, cluster_id)
                clusters.set_mode(tx, cluster_id, Mode.ACT, partition)

    threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.read() as tx:
        assert clusters.list_modes(tx, cluster_id) == {
            "": Mode.SHADOW,
            "a": Mode.ACT,
            "b": Mode.ACT,
            "c": Mode.ACT,
        }


def test_row_without_its_cluster_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="refused a row"), store.begin() as tx:
        chains.save_chain(tx, 99, Chain(chain_id=ChainId("abcdefgh"), uid=1))


def test_nan_in_features_is_refused_on_both(store: Store, cluster_id: int) -> None:
    with pytest.raises(Exception, match="not JSON compliant"), store.begin() as tx:
        queue_sums.add_snapshot(tx, cluster_id, 1, {"load": float("nan")})


def test_sqlite_is_in_wal_mode_and_durable(tmp_path: Path) -> None:
    with closing(Store(f"sqlite:///{tmp_path}/m.db")) as store, store.begin() as tx:
        assert tx.scalar(text("PRAGMA journal_mode")) == "wal"
        assert tx.scalar(text("PRAGMA synchronous")) == 2
        assert tx.scalar(text("PRAGMA foreign_keys")) == 1


def test_a_demos_commits_do_not_wait_for_the_disk(tmp_path: Path) -> None:
    with closing(Store(f"sqlite:///{tmp_path}/m.db", durable=False)) as store, store.read() as tx:
        assert tx.scalar(text("PRAGMA synchronous")) == 0


def test_one_connection_reads_and_writes_in_turn(tmp_path: Path) -> None:
    with closing(Store(f"sqlite:///{tmp_path}/m.db")) as store:
        for _ in range(2):
            with store.begin() as tx:
                tx.execute(text("CREATE TABLE IF NOT EXISTS t (n)"))
            with store.read() as tx, pytest.raises(OperationalError, match="readonly"):
                tx.execute(text("INSERT INTO t VALUES (1)"))


def test_missing_directory_is_said(tmp_path: Path) -> None:
    with (
        closing(Store(f"sqlite:///{tmp_path}/no/such/m.db")) as store,
        pytest.raises(
            StoreUnavailable, match=r"the directory .*/no/such does not exist$"
        ) as caught,
        store.begin(),
    ):
        pass
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)


def test_unwritable_state_directory_is_said(nobodys_way: Path) -> None:
    url = f"sqlite:///{nobodys_way}/m.db"
    with (
        closing(Store(url)) as store,
        as_nobody(),
        pytest.raises(StoreUnavailable) as caught,
        store.begin(),
    ):
        pass
    said = (
        f"cannot use the database {nobodys_way}/m.db: the directory {nobodys_way} is not writable"
        ": it is root's, so run this as that account"
    )
    assert str(caught.value) == said
    assert caught.value.exit_code == 4


def test_upgrade_of_an_unwritable_state_directory_is_said(nobodys_way: Path) -> None:
    with as_nobody(), pytest.raises(StoreUnavailable, match=r"is not writable: it is root's"):
        schema_migrations.upgrade_schema(f"sqlite:///{nobodys_way}/m.db", MIGRATIONS)


def test_unwritable_file_is_said(nobodys_way: Path) -> None:
    file = nobodys_way / "m.db"
    file.touch(mode=0o644)
    nobodys_way.chmod(0o777)
    with (
        closing(Store(f"sqlite:///{file}")) as store,
        as_nobody(),
        pytest.raises(StoreUnavailable, match=r"m\.db: the file is not writable$"),
        store.begin(),
    ):
        pass


def test_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "m.db").write_text("not a database, but long enough to be read as one" * 20)
    with (
        closing(Store(f"sqlite:///{tmp_path}/m.db")) as store,
        pytest.raises(StoreUnavailable, match="file is not a database"),
        store.begin(),
    ):
        pass


def test_unreachable_server_is_said_without_the_password() -> None:
    with (
        closing(Store("postgresql://mirage:hunter2@127.0.0.1:1/mirage")) as store,
        pytest.raises(StoreUnavailable, match=r"the database mirage on 127\.0\.0\.1") as caught,
        store.begin(),
    ):
        pass
    assert "hunter2" not in str(caught.value)


@pytest.mark.postgres
def test_missing_database_is_said(postgres_server: PostgresServer) -> None:
    with (
        closing(Store(postgres_server.url("nowhere"))) as store,
        pytest.raises(StoreUnavailable, match='database "nowhere" does not exist'),
        store.begin(),
    ):
        pass


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@h/d", "nonsense hunter2", "sqlite://", "sqlite:///:memory:", ""]
)
def test_url_of_no_known_database_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InputError, match="database URL") as caught:
        Store(url)
    assert "hunter2" not in str(caught.value)
