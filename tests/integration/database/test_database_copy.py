"""A copy has every row and no row twice, wherever it was stopped; half of one is not usable."""

import json
import shutil
import signal
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Float,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
)

from mirage.database.chains import decisions
from mirage.database.copying import database_copy
from mirage.database.events import audit
from mirage.database.events.audit import AuditEntry
from mirage.database.operations import clusters
from mirage.database.schema import engine, schema_migrations
from mirage.database.schema.engine import Store
from mirage.database.schema.tables import VERSION_TABLE, jobs, metadata, snapshots
from mirage.domain.decision import Action, Decision, PolicyView
from mirage.domain.ports import Policy, SimplePolicy
from mirage.errors import InputError, SchemaMismatch, StoreError, StoreUnavailable
from mirage.provision.handover_decider import DecisionSettings
from mirage.service.worker import Worker
from tests.support.api.running import NOW
from tests.support.cli import shells
from tests.support.database.copying import copy_url, read_rows
from tests.support.fixtures.store import BOTH, PostgresServer, empty_database
from tests.support.mirage_process import MIRAGE, environment, run
from tests.support.paths import MIGRATIONS
from tests.support.patient import wait_until
from tests.support.provision import slurm_jobs
from tests.support.provision.scene import Always
from tests.support.service.fixtures import config, ready_config
from tests.support.web.seeded import Size, seed

__all__ = ["config", "ready_config"]

LATER = 2**40
"""An instant, epoch seconds, that is after each clock's."""


@pytest.fixture
def source(sqlite_template: Path, tmp_path: Path) -> str:
    """A database with the schema of today and nothing in it."""
    return f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'old.db')}"


@pytest.fixture
def target(empty_database_url: str) -> str:
    return empty_database_url


def execute(url: str, *statements: str, **values: Any) -> None:
    with closing(Store(url)) as store, store.begin() as tx:
        for statement in statements:
            parameters = {name: values[name] for name in values if f":{name}" in statement}
            tx.execute(text(statement), parameters)


def fill(url: str, *, chains: int, jobs: int) -> None:
    with closing(Store(url)) as store:
        seed(store, Size(chains=chains, jobs=jobs, days=1))
    execute(url, "DELETE FROM leases")


# All tables, and what may stand in them.

_numbers = count(1)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
_VALUES: dict[type, st.SearchStrategy[Any]] = {
    BigInteger: st.integers(-(2**63), 2**63 - 1),
    Boolean: st.booleans(),
    Float: st.floats(allow_nan=False),
    JSON: _DOCUMENTS,
    LargeBinary: st.binary(max_size=40),
    Text: _TEXTS,
}
Rows = dict[str, list[dict[str, Any]]]


@st.composite
def draw_database(draw: st.DrawFn) -> Rows:
    """Rows of every table. Keys are unique, and what refers to another row refers to one."""
    rows: Rows = {}
    for table in metadata.sorted_tables:
        rows[table.name] = []
        parents = min((len(rows[name]) for name in list_parents(table)), default=2)
        # A key that is a parent's alone has one row for each parent.
        most = parents if parents < 2 and is_keyed_by_parent(table) else 2 * (parents > 0)
        for _ in range(draw(st.integers(0, most), label=table.name)):
            rows[table.name].append(draw_row(draw, table, rows))
    return rows


def list_parents(table: Table) -> set[str]:
    return {key.column.table.name for key in table.foreign_keys}


def is_keyed_by_parent(table: Table) -> bool:
    return all(column.foreign_keys for column in table.primary_key)


def draw_row(draw: st.DrawFn, table: Table, rows: Rows) -> dict[str, Any]:
    unique = {
        column.name
        for constraint in table.constraints
        if isinstance(constraint, UniqueConstraint | PrimaryKeyConstraint)
        for column in constraint.columns
    }
    place = len(rows[table.name]) if is_keyed_by_parent(table) else 0
    row: dict[str, Any] = {}
    for column in table.columns:
        if column.foreign_keys:
            (key,) = column.foreign_keys
            row[column.name] = rows[key.column.table.name][place][key.column.name]
        elif column.name in unique:
            number = next(_numbers)
            is_text = isinstance(column.type, Text)
            row[column.name] = f"{draw(_TEXTS)}{number}" if is_text else number
        elif column.nullable and draw(st.booleans()):
            row[column.name] = None
        else:
            row[column.name] = draw(_VALUES[type(column.type)])
    return row


def insert_rows(url: str, rows: Rows) -> None:
    with closing(Store(url)) as store, store.begin() as tx:
        for table in metadata.sorted_tables:
            if rows[table.name]:
                tx.execute(insert(table), rows[table.name])


def replace_nul(rows: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    """What PostgreSQL stores of these rows."""
    return {
        table.name: sorted(
            (
                tuple(
                    value.replace("\0", "\ufffd")
                    if isinstance(column.type, Text) and value is not None
                    else value
                    for column, value in zip(table.columns, row, strict=True)
                )
                for row in rows[table.name]
            ),
            key=repr,
        )
        for table in metadata.sorted_tables
    }


@pytest.mark.parametrize("kind", BOTH)
@settings(
    max_examples=6,
    phases=[Phase.generate],  # a copy takes a second: too long to look for the smallest
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=draw_database())
def test_every_value_of_every_table_is_copied_there_and_back(
    rows: Rows,
    kind: str,
    sqlite_template: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    folder = tmp_path / str(next(_numbers))
    folder.mkdir()
    first, last = f"sqlite:///{folder}/first.db", f"sqlite:///{folder}/last.db"
    for name in ("first", "middle", "last"):
        shutil.copy(sqlite_template, folder / f"{name}.db")
    middle = f"sqlite:///{folder}/middle.db"
    if kind == "postgresql":
        middle = request.getfixturevalue("postgres_migrated")
        empty_database(middle)
    for row in rows["leases"]:
        row["until"] = -abs(row["until"])  # no service is at work
    insert_rows(first, rows)
    report = copy_url(first, middle)
    expected = replace_nul(read_rows(first))
    assert {name: len(stored) for name, stored in expected.items()} == {
        name: len(inserted) for name, inserted in rows.items()
    }
    assert read_rows(middle) == expected
    assert {table.name: table.rows for table in report.tables} == {
        name: len(stored) for name, stored in expected.items()
    }
    copy_url(middle, last)
    assert read_rows(last) == expected
    shutil.rmtree(folder)


def test_no_table_that_the_migrations_make_is_unknown_to_the_copy(source: str, target: str) -> None:
    copied = {table.name for table in copy_url(source, target).tables}
    with closing(Store(source)) as store, store.read() as tx:
        assert copied == set(inspect(tx).get_table_names()) - {VERSION_TABLE}


# Stopped in the middle.


@pytest.fixture
def postgres_target(postgres_server: PostgresServer) -> Iterator[tuple[str, PostgresServer, str]]:
    name = postgres_server.new_database()
    url = postgres_server.url(name)
    schema_migrations.upgrade_schema(url, MIGRATIONS)
    yield url, postgres_server, name
    postgres_server.run(f"DROP DATABASE {name} WITH (FORCE)")


_STOP = """
CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.job_id = 12500 THEN PERFORM pg_advisory_xact_lock(40); END IF;
    RETURN NEW;
END $$
"""
_WITHIN_A_BATCH = (
    "CREATE TRIGGER stop BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION stop_here()"
)
_AT_A_COMMIT = (
    "CREATE CONSTRAINT TRIGGER stop AFTER INSERT ON jobs DEFERRABLE INITIALLY DEFERRED "
    "FOR EACH ROW EXECUTE FUNCTION stop_here()"
)


_OTHER_SESSIONS = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""


def kill_at_trigger(config: Path, url: str, trigger: str) -> None:
    """Start a copy, and kill it while the trigger keeps PostgreSQL waiting; then let PostgreSQL
    go on with what it has been sent."""
    execute(url, trigger)
    with closing(Store(url)) as store:
        with store.begin() as tx:
            tx.execute(text("SELECT pg_advisory_xact_lock(40)"))

            def count_sessions(condition: str) -> int:
                tx.execute(text("SELECT pg_stat_clear_snapshot()"))
                return int(tx.execute(text(_OTHER_SESSIONS + condition)).scalar_one())

            process = subprocess.Popen(
                [*MIRAGE, "db", "copy", "--to", url, "--config", str(config)], env=environment()
            )
            try:
                wait_until(lambda: count_sessions("AND wait_event = 'advisory'") == 1)
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
        with store.read() as tx:
            wait_until(lambda: count_sessions("") == 0)
    execute(url, "DROP TRIGGER stop ON jobs")


@pytest.mark.postgres
def test_a_copy_that_is_killed_twice_has_each_row_once(
    ready_config: Path, tmp_path: Path, postgres_target: tuple[str, PostgresServer, str]
) -> None:
    """Killed within a batch, and while a batch is committed, of which it does not hear."""
    url, _, _ = postgres_target
    source = f"sqlite:///{tmp_path}/state/mirage.db"
    fill(source, chains=20, jobs=4500)
    execute(url, _STOP)

    def count_copied() -> int:
        with closing(Store(url)) as store, store.read() as tx:
            return len(tx.execute(select(jobs.c.job_id)).all())

    kill_at_trigger(ready_config, url, _WITHIN_A_BATCH)
    assert count_copied() == 2 * database_copy.BATCH_ROWS
    for words in (("serve",), ("mode",), ("token", "list"), ("db", "upgrade")):
        refused = run(*words, "--config", ready_config, MIRAGE_DATABASE_URL=url)
        assert (refused.code, "is an unfinished copy: run the same" in refused.err) == (4, True)
    kill_at_trigger(ready_config, url, _AT_A_COMMIT)
    assert count_copied() == 3 * database_copy.BATCH_ROWS
    done = run("db", "copy", "--to", url, "--config", ready_config)
    assert (done.code, done.err) == (0, "")
    assert "copied " in done.out
    assert read_rows(url) == read_rows(source)
    assert run("mode", "--config", ready_config, MIRAGE_DATABASE_URL=url).code == 0


@pytest.mark.postgres
def test_new_rows_are_numbered_after_the_copied_ones(
    source: str, postgres_target: tuple[str, PostgresServer, str]
) -> None:
    url, _, _ = postgres_target
    fill(source, chains=3, jobs=10)
    copy_url(source, url)
    with closing(Store(url)) as store, store.begin() as tx:
        audit.write_entry(tx, 1, AuditEntry(at=NOW, actor="root", event="moved"))
        snapshot = insert(snapshots).values(cluster_id=1, taken_at=1, features={})
        tx.execute(snapshot)
        assert clusters.ensure_cluster(tx, "other") == 2


class Waiting(SimplePolicy):
    name = "waiting"

    def decide(self, view: PolicyView) -> Decision:
        return Decision(action=Action.WAIT, reason="not yet", policy=self.name)


def test_a_worker_frees_the_standby_of_a_chain_on_the_copy(
    acting_store: Store, sqlite_file: Path, target: str
) -> None:
    cluster = slurm_jobs.WrittenCluster(slurm_jobs.running(1), slurm_jobs.standby(2))
    first = build_worker(acting_store, cluster, Waiting())
    first.run_tick()
    assert slurm_jobs.links(acting_store)[2].freed_at is None
    end_worker(first)
    copy_url(f"sqlite:///{sqlite_file}", target)
    with closing(Store(target)) as store:
        cluster.at += 60
        build_worker(store, cluster, Always()).run_tick()
        assert [(name, job_id) for name, job_id, _ in cluster.moves] == [("free", 12)]
        assert slurm_jobs.links(store)[2].freed_at is not None
        with store.read() as tx:
            rows = decisions.list_decisions(tx, 1, chain_id=slurm_jobs.CHAIN)
        assert [row.policy for row in rows] == ["always", "waiting"], "newest first"


def build_worker(store: Store, cluster: slurm_jobs.WrittenCluster, policy: Policy) -> Worker:
    decides = DecisionSettings(get_policy=lambda _name: policy, default_policy=policy.name)
    return Worker(store, cluster, 1, settings=decides)


def end_worker(worker: Worker) -> None:
    stop = threading.Event()
    stop.set()
    worker.run(stop)


# What is refused.


def test_a_working_service_is_named_and_nothing_is_copied(source: str, target: str) -> None:
    execute(
        source,
        "INSERT INTO clusters (id, name) VALUES (1, 'lab')",
        "INSERT INTO leases VALUES (1, 'login7:4711', :until)",
        until=LATER,
    )
    with pytest.raises(StoreUnavailable, match=r"service of cluster lab .* as login7:4711: stop"):
        copy_url(source, target)
    assert read_version(target) is None


def read_version(url: str) -> str | None:
    with closing(Store(url)) as store, store.read() as tx:
        return engine.read_schema_version(tx)


def test_a_writer_to_the_old_database_is_said_and_nothing_is_copied(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (engine, database_copy):
        monkeypatch.setattr(module, "BUSY_S", 1.0)
    target = f"sqlite:///{tmp_path}/copy.db"
    with closing(Store(database_url)) as store, store.begin() as tx:
        clusters.ensure_cluster(tx, "lab")
        with pytest.raises(StoreUnavailable, match="something writes to the database"):
            copy_url(database_url, target)
    assert read_version(target) is None


def test_nobody_else_writes_to_the_old_database_during_a_copy(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_S", 0.1)
    refused = []

    def write(_steps: int) -> None:
        with pytest.raises(StoreUnavailable) as caught:
            execute_at_once(database_url, "INSERT INTO clusters (name) VALUES ('lab')")
        refused.append(caught.value)

    copy_url(database_url, f"sqlite:///{tmp_path}/copy.db", show_steps=write)
    assert refused


def execute_at_once(url: str, statement: str) -> None:
    """Execute it, or fail where somebody has a lock."""
    with closing(Store(url)) as store, store.begin() as tx:
        if tx.dialect.name == "postgresql":
            tx.execute(text("SET LOCAL lock_timeout = '100ms'"))
        tx.execute(text(statement))


def test_a_database_in_use_is_not_copied_over(source: str, target: str) -> None:
    schema_migrations.upgrade_schema(target, MIGRATIONS)
    execute(target, "INSERT INTO clusters (name) VALUES ('theirs')")
    with pytest.raises(InputError, match="is in use: its table clusters has rows"):
        copy_url(source, target)
    with closing(Store(target)) as store, store.read() as tx:
        assert list(clusters.list_cluster_names(tx).values()) == ["theirs"]


def test_a_database_with_tables_of_others_is_refused(source: str, target: str) -> None:
    execute(target, "CREATE TABLE wiki (page TEXT)")
    with pytest.raises(InputError, match=r"tables that are not Mirage's \(wiki\)"):
        copy_url(source, target)
    assert read_version(target) is None


def test_a_table_of_others_in_the_old_database_is_named(source: str, target: str) -> None:
    execute(source, "CREATE TABLE wiki (page TEXT)")
    assert copy_url(source, target).other_tables == ("wiki",)


@pytest.mark.postgres
def test_a_database_that_cannot_store_all_text_is_refused(
    source: str, postgres_server: PostgresServer
) -> None:
    postgres_server.run("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")
    with pytest.raises(InputError, match="stores text as LATIN1"):
        copy_url(source, postgres_server.url("latin"))
    postgres_server.run("DROP DATABASE latin WITH (FORCE)")


# Rows that PostgreSQL does not store.

_INTO_SNAPSHOTS = "INSERT INTO snapshots (cluster_id, taken_at, features) VALUES "
_MANY_SNAPSHOTS = """
WITH RECURSIVE n (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 1510)
INSERT INTO snapshots (cluster_id, taken_at, features) SELECT 1, i, '{}' FROM n
"""
_INTO_TOKENS = (
    'INSERT INTO tokens (token_id, digest, name, role, "user", uid, read_only, created_at, '
    "created_by, expires_at) VALUES "
)


def spoil(source: str) -> None:
    """Rows as SQLite stores them too: two that only need their text mended, and four that no column
    of PostgreSQL has a place for, beside one good row each."""
    execute(
        source,
        "INSERT INTO clusters (id, name) VALUES (1, 'lab')",
        f"{_INTO_SNAPSHOTS} (1, 1, '{{}}'), (1, 2, 'hunter2'), (1, 3, '{{}}')",
        f"{_INTO_TOKENS} ('a', 'good', '', '', '', 1, 1, 1, '', 1), "
        "('b', 'x' || char(0) || 'y', '', '', '', 1, 1, 1, '', 1), "
        "('c', CAST(x'78ff79' AS TEXT), '', '', '', 1, 1, 1, '', 1), "
        "('d', x'6263', '', '', '', 1, 1, 1, '', 1), "
        "('e', '', '', '', '', 1.5, 1, 1, '', 1), "
        "('f', '', '', '', '', 1, 2, 1, '', 1)",
    )


_LEFT_OUT = [
    "tokens (token_id d): digest is not text",
    "tokens (token_id e): uid is not a whole number",
    "tokens (token_id f): read_only is neither true nor false",
]
_BAD_DOCUMENT = "snapshots (id 2): invalid input syntax for type json"


@pytest.mark.postgres
def test_a_row_that_is_refused_costs_itself_and_is_named(
    source: str,
    postgres_target: tuple[str, PostgresServer, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    url, _, _ = postgres_target
    spoil(source)
    execute(source, _MANY_SNAPSHOTS)
    with pytest.raises(StoreError) as caught:
        copy_url(source, url)
    message = str(caught.value)
    assert "refused 4 row(s), and is not usable yet" in message
    assert [line.strip() for line in message.splitlines()[1:-1]] == [_BAD_DOCUMENT, *_LEFT_OUT]
    assert "--skip-bad-rows" in message
    assert "hunter2" not in message, "a value may be a secret"
    assert caplog.text == "", "psycopg's words about it go to nobody"
    with closing(Store(url)) as store, pytest.raises(SchemaMismatch, match="unfinished copy"):
        store.check_schema()
    tables = {table.name: table for table in copy_url(source, url, skip_bad_rows=True).tables}
    assert list(tables["tokens"].left_out) == _LEFT_OUT
    assert list(tables["tokens"].replaced) == [
        "tokens (token_id b): digest",
        "tokens (token_id c): digest",
    ]
    assert (tables["tokens"].rows, tables["tokens"].rows_left_out) == (3, 3)
    rows = read_rows(url)
    assert [row[1] for row in rows["tokens"]] == ["good", "x\ufffdy", "x\ufffdy"]
    assert sorted(row[2] for row in rows["snapshots"]) == [1, 3, *range(10, 1511)]


def test_a_row_whose_parent_is_missing_is_named(source: str, target: str) -> None:
    # Without foreign keys, as while a migration rebuilds a table.
    with closing(sqlite3.connect(source.removeprefix("sqlite:///"))) as database:
        database.execute("INSERT INTO recipes VALUES ('gone', 1, '{}')")
        database.commit()
    with pytest.raises(StoreError, match=r"recipes \(chain_id gone\): .*(?i:foreign key)"):
        copy_url(source, target)


def test_a_change_of_the_old_database_between_two_runs_is_found(source: str, target: str) -> None:
    spoil(source)
    with pytest.raises(StoreError, match="refused"):
        copy_url(source, target)
    execute(source, "UPDATE clusters SET history_until = 7")
    with pytest.raises(StoreError, match="table clusters differs: 1 rows to copy, 1 in"):
        copy_url(source, target, skip_bad_rows=True)
    with closing(Store(target)) as store, pytest.raises(SchemaMismatch, match="unfinished"):
        store.check_schema()


def test_an_unfinished_copy_of_another_database_is_left_alone(
    source: str, target: str, tmp_path: Path, sqlite_template: Path
) -> None:
    spoil(source)
    with pytest.raises(StoreError, match="refused"):
        copy_url(source, target)
    shutil.copy(sqlite_template, tmp_path / "other.db")
    with pytest.raises(InputError, match=r"an unfinished copy of the database .*old\.db, not of"):
        copy_url(f"sqlite:///{tmp_path}/other.db", target)


def test_of_two_copies_into_one_database_one_ends(source: str, target: str) -> None:
    fill(source, chains=2, jobs=50)
    others: list[str] = []

    def be_overtaken(_steps: int) -> None:
        if not others:
            others.append("another run")
            execute(target, "UPDATE unfinished_copy SET document = document || ' '")

    with pytest.raises(StoreError, match="another `mirage db copy` writes"):
        copy_url(source, target, show_steps=be_overtaken)
    copy_url(source, target)
    assert read_rows(target) == read_rows(source)


# The command.


def test_the_command_says_what_to_do_next(ready_config: Path, tmp_path: Path) -> None:
    execute(f"sqlite:///{tmp_path}/state/mirage.db", "INSERT INTO clusters (name) VALUES ('lab')")
    done = run("db", "copy", "--to", f"sqlite:///{tmp_path}/copy.db", "--config", ready_config)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"copied 1 rows of {len(metadata.tables)} tables\n")
    assert f"MIRAGE_DATABASE_URL=sqlite:///{tmp_path}/copy.db\n" in done.out
    assert "systemctl restart mirage" in done.out
    again = run("db", "copy", "--to", f"sqlite:///{tmp_path}/copy.db", "--config", ready_config)
    assert (again.code, "is in use" in again.err) == (2, True)
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) & 0o007 == 0


def test_the_command_prints_json(ready_config: Path, tmp_path: Path) -> None:
    to = f"sqlite:///{tmp_path}/copy.db"
    done = run("db", "copy", "--to", to, "--json", "--config", ready_config)
    report = json.loads(done.out)
    assert {table["name"] for table in report["tables"]} == set(metadata.tables)
    assert report["other_tables"] == []


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("postgresql://mirage:hunter2@127.0.0.1:1/mirage", "cannot use the database mirage on"),
        ("mysql://mirage:hunter2@db/mirage", "the database URL must be"),
    ],
)
def test_a_refusal_shows_no_password(ready_config: Path, to: str, message: str) -> None:
    refused = run("db", "copy", "--to", to, "--config", ready_config)
    assert refused.code in {2, 4}
    assert message in refused.err
    assert "hunter2" not in refused.out + refused.err


@pytest.mark.postgres
def test_the_url_of_the_new_database_is_printed_without_its_password(
    ready_config: Path, postgres_target: tuple[str, PostgresServer, str]
) -> None:
    url, _, _ = postgres_target
    secret = url.replace("postgres@", "postgres:hunter2@")
    done = run("db", "copy", "--to", secret, "--config", ready_config)
    assert (done.code, "hunter2" in done.out + done.err) == (0, False)
    assert "MIRAGE_DATABASE_URL='postgresql://postgres:***@" in done.out


def test_the_configured_database_is_no_place_for_its_copy(
    ready_config: Path, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "state")
    to = f"sqlite:///{tmp_path}/link/mirage.db"
    refused = run("db", "copy", "--to", to, "--config", ready_config)
    assert (refused.code, "name another one" in refused.err) == (2, True)


def test_a_folder_where_others_may_write_is_no_place_for_a_copy(
    ready_config: Path, tmp_path: Path
) -> None:
    """A file or a link that somebody else has put there would get every row."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    to = f"sqlite:///{folder}/copy.db"
    refused = run("db", "copy", "--to", to, "--config", ready_config)
    assert (refused.code, refused.out) == (2, "")
    assert f"others may write in {folder}: run `chmod go-w" in refused.err
    assert list(folder.iterdir()) == []


def test_an_older_schema_is_upgraded_first(ready_config: Path, tmp_path: Path) -> None:
    execute(
        f"sqlite:///{tmp_path}/state/mirage.db", "UPDATE schema_version SET version_num = '0001'"
    )
    refused = run("db", "copy", "--to", f"sqlite:///{tmp_path}/copy.db", "--config", ready_config)
    assert (refused.code, "run `mirage db upgrade`" in refused.err) == (4, True)
    assert not (tmp_path / "copy.db").exists()


def test_a_terminal_sees_how_far_the_copy_is(ready_config: Path, tmp_path: Path) -> None:
    environ = shells.environment(tmp_path, "http://127.0.0.1:9") | {"TERM": "xterm"}
    words = [
        *MIRAGE,
        "db",
        "copy",
        "--to",
        f"sqlite:///{tmp_path}/copy.db",
        "--config",
        str(ready_config),
    ]
    shells.type_at_terminal(words, "", "systemctl restart", environ, ready="copying the database")
