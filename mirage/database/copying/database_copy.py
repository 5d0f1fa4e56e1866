"""Copies every row of one database into an empty one, in batches, and compares the two.

The source is only read, and nobody else can write to it meanwhile. The target has a mark until it
is whole (`unfinished_copy`). A batch and the number of rows read so far are one transaction, so a
copy that ended at any instant goes on without a row twice or left out.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Table, func, insert, inspect, select, text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from mirage.database.copying.row_conversion import (
    DIGEST_MODULUS,
    ConvertedRow,
    RowReader,
    build_untyped_table,
)
from mirage.database.copying.unfinished_copy import (
    MOST_EXAMPLES,
    PROGRESS_TABLE,
    TableProgress,
    UnfinishedCopy,
)
from mirage.database.schema import (  # noqa: F401 - metadata has their tables too
    learning_tables,
    read_model_tables,
)
from mirage.database.schema.engine import BUSY_S, Store, Transaction, read_schema_version
from mirage.database.schema.tables import UNFINISHED, VERSION_TABLE, clusters, leases, metadata
from mirage.errors import InputError, StoreError, StoreUnavailable

BATCH_ROWS = 1000
"""Rows of one transaction."""
_BATCH_BYTES = 4 * 2**20
"""Bytes of text after which a batch is full."""
_ROW_FAULTS = {"22", "23", "54"}
"""Classes of PostgreSQL's error codes that are about the row: data, constraints, limits."""
_BUSY_CODES = {"55P03", 5}
"""The codes of a lock that was not to be had: PostgreSQL's and SQLite's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    name: str
    rows: int
    """Rows that both databases have."""
    rows_left_out: int
    rows_replaced: int
    left_out: tuple[str, ...]
    """The first rows that were left out, each with the reason."""
    replaced: tuple[str, ...]
    """The first rows of which text was replaced, each with the columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    tables: tuple[CopiedTable, ...]
    other_tables: tuple[str, ...]
    """Tables of the source that are not Mirage's. They are not copied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySteps:
    """What is done besides copying."""

    upgrade_target: Callable[[], None]
    """Gives the empty target its tables."""
    show_total: Callable[[int], None]
    """Is called once, with the number of steps: reading a row, or comparing one."""
    show_steps: Callable[[int], None]
    """Is called with the number of steps since the last call."""


def copy_database(
    source: Store, target: Store, steps: CopySteps, *, now: int, skip_bad_rows: bool = False
) -> CopyReport:
    """Copy `source`, of this program's schema, into the empty `target`, or finish that copy.

    `now`: epoch seconds. `skip_bad_rows`: finish although rows that the target refuses are left
    out. Raises InputError if the target has rows, StoreUnavailable if something writes to the
    source, and StoreError if rows are left out or the databases differ. The target is then marked
    still, and the next call goes on.
    """
    with _mute_driver(), _read_alone(source) as read_tx:
        _refuse_working_service(read_tx, source, now)
        copy = _open_copy(source, target, steps)
        counts = _count_rows(read_tx)
        already_read = sum(one.rows_read for one in copy.tables.values())
        steps.show_total(2 * sum(counts.values()))
        steps.show_steps(already_read)
        for table in metadata.sorted_tables:
            _copy_table(read_tx, target, copy, table, steps)
        if not skip_bad_rows:
            _refuse_left_out_rows(copy, target)
        tables = _compare(read_tx, target, copy, counts, steps)
        other_tables = _list_tables(read_tx) - set(metadata.tables) - {VERSION_TABLE}
        with target.begin() as tx:
            copy.lock(tx)
            _complete_postgresql(tx)
            copy.finish(tx)
    return CopyReport(tables=tables, other_tables=tuple(sorted(other_tables)))


@contextmanager
def _mute_driver() -> Iterator[None]:
    """Keep psycopg from printing warnings about rows that are refused: they are reported."""
    logger = logging.getLogger("psycopg")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _read_alone(source: Store) -> Iterator[Transaction]:
    """Open a transaction during which nobody else can write. On SQLite each transaction of
    `Store.begin` is one."""
    is_open = False
    try:
        with source.begin() as tx:
            if tx.dialect.name != "sqlite":
                format_table = tx.dialect.identifier_preparer.format_table
                names = ", ".join(map(format_table, metadata.sorted_tables))
                tx.exec_driver_sql(f"SET LOCAL lock_timeout = '{BUSY_S:.0f}s'")
                tx.exec_driver_sql(f"LOCK TABLE {names} IN SHARE MODE")
            is_open = True
            yield tx
    except StoreUnavailable as error:
        if is_open or not _is_busy(error):
            raise
        raise StoreUnavailable(
            f"something writes to {source.description}: stop the service (systemctl stop mirage) "
            "and every other command of Mirage that uses it, then run this again"
        ) from error


def _is_busy(error: StoreUnavailable) -> bool:
    driver_error = getattr(error.__cause__, "orig", None)
    codes = {getattr(driver_error, name, None) for name in ("sqlstate", "sqlite_errorcode")}
    return bool(codes & _BUSY_CODES)


def _refuse_working_service(tx: Transaction, source: Store, now: int) -> None:
    """Raise StoreUnavailable while a worker has a lease. A worker that ends in order gives it
    up."""
    query = select(clusters.c.name, leases.c.holder, leases.c.until).join(leases)
    row = tx.execute(query.where(leases.c.until > now)).first()
    if row is not None:
        raise StoreUnavailable(
            f"the service of cluster {row.name} works on {source.description}, as {row.holder}: "
            "stop it (systemctl stop mirage), then run this again. If it was killed, wait "
            f"{row.until - now} s"
        )


def _open_copy(source: Store, target: Store, steps: CopySteps) -> UnfinishedCopy:
    """Begin the copy, or read how far the last run of it came."""
    with target.read() as tx:
        version, names = read_schema_version(tx), _list_tables(tx)
        _refuse_encoding(tx, target)
    if version == UNFINISHED:
        with target.read() as tx:
            return UnfinishedCopy.resume(tx, source.description)
    if unknown := names - set(metadata.tables) - {VERSION_TABLE}:
        raise InputError(
            f"{target.description} has tables that are not Mirage's ({', '.join(sorted(unknown))}):"
            " give an empty database"
        )
    if version is None:
        steps.upgrade_target()
    target.check_schema()
    with target.begin() as tx:
        for table in metadata.sorted_tables:
            if tx.execute(select(1).select_from(table).limit(1)).first() is not None:
                raise InputError(
                    f"{target.description} is in use: its table {table.name} has rows. "
                    "Give an empty database"
                )
        return UnfinishedCopy.begin(tx, source.description, metadata.tables)


def _refuse_encoding(tx: Transaction, target: Store) -> None:
    if tx.dialect.name == "sqlite":
        return
    encoding = tx.scalar(text("SHOW server_encoding"))
    if encoding != "UTF8":
        raise InputError(
            f"{target.description} stores text as {encoding}: make it with `createdb -E UTF8 -T "
            "template0`"
        )


def _list_tables(tx: Transaction) -> set[str]:
    return set(inspect(tx).get_table_names()) - {PROGRESS_TABLE}


def _count_rows(tx: Transaction) -> dict[str, int]:
    return {
        table.name: tx.execute(select(func.count()).select_from(table)).scalar_one()
        for table in metadata.sorted_tables
    }


def _copy_table(
    read_tx: Transaction, target: Store, copy: UnfinishedCopy, table: Table, steps: CopySteps
) -> None:
    """Copy the rows that the last run did not come to."""
    reader, progress = RowReader(table), copy.tables[table.name]
    for batch in _split_into_batches(reader.read_rows(read_tx, progress.rows_read)):
        with target.begin() as tx:
            copy.lock(tx)
            _store_batch(tx, reader, batch, progress)
            copy.save(tx)
        steps.show_steps(len(batch))


def _split_into_batches(rows: Iterable[ConvertedRow]) -> Iterator[list[ConvertedRow]]:
    batch: list[ConvertedRow] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row.values if isinstance(value, str | bytes))
        if len(batch) >= BATCH_ROWS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _store_batch(
    tx: Transaction, reader: RowReader, batch: list[ConvertedRow], progress: TableProgress
) -> None:
    """Insert the rows. A row that the database refuses is left out, and noted."""
    good = [row for row in batch if not row.fault]
    refused = [(row, row.fault) for row in batch if row.fault]
    if good and _insert(tx, reader, good):
        refused += [(row, fault) for row in good if (fault := _insert(tx, reader, [row]))]
    for row, fault in refused:
        _note(progress.left_out, f"{reader.describe_row(row)}: {fault}")
        progress.left_out_digest = (
            progress.left_out_digest + row.compute_digest()
        ) % DIGEST_MODULUS
    for row in good:
        if row.replaced_columns:
            progress.rows_replaced += 1
            names = ", ".join(row.replaced_columns)
            _note(progress.replaced, f"{reader.describe_row(row)}: {names}")
    progress.rows_left_out += len(refused)
    progress.rows_read += len(batch)


def _note(examples: list[str], line: str) -> None:
    if len(examples) < MOST_EXAMPLES:
        examples.append(line)


def _insert(tx: Transaction, reader: RowReader, rows: list[ConvertedRow]) -> str:
    """Insert all of the rows or none; return why not, empty if they are inserted."""
    statement = insert(build_untyped_table(reader.table))
    try:
        with tx.begin_nested():
            tx.execute(statement, [reader.to_parameters(row) for row in rows])
    except DBAPIError as error:
        if not _is_about_row(error):
            raise
        return _explain(error)
    return ""


def _is_about_row(error: DBAPIError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        return isinstance(error, (DataError, IntegrityError))
    return state[:2] in _ROW_FAULTS


def _explain(error: DBAPIError) -> str:
    """Return PostgreSQL's first line alone: the others repeat values."""
    diagnosis = getattr(error.orig, "diag", None)
    message = getattr(diagnosis, "message_primary", None) or str(error.orig)
    return " ".join(message.split())


def _refuse_left_out_rows(copy: UnfinishedCopy, target: Store) -> None:
    count = sum(one.rows_left_out for one in copy.tables.values())
    if count:
        examples = [line for one in copy.tables.values() for line in one.left_out]
        more = f"\n  and {count - len(examples)} more" if count > len(examples) else ""
        raise StoreError(
            f"{target.description} refused {count} row(s), and is not usable yet:\n  "
            + "\n  ".join(examples)
            + f"{more}\nMend the rows in the old database and begin again with an empty one, or "
            "run this again with --skip-bad-rows to do without them"
        )


def _compare(
    read_tx: Transaction,
    target: Store,
    copy: UnfinishedCopy,
    counts: dict[str, int],
    steps: CopySteps,
) -> tuple[CopiedTable, ...]:
    """Compare the number of rows and the sum of their digests, table by table."""
    tables = []
    for table in metadata.sorted_tables:
        progress = copy.tables[table.name]
        digest = _sum_digests(read_tx, table, steps.show_steps)
        with target.read() as tx:
            target_rows = tx.execute(select(func.count()).select_from(table)).scalar_one()
            target_digest = _sum_digests(tx, table, _show_nothing)
        rows = counts[table.name] - progress.rows_left_out
        expected = rows, (digest - progress.left_out_digest) % DIGEST_MODULUS
        if (target_rows, target_digest) != expected:
            raise StoreError(
                f"table {table.name} differs: {rows} rows to copy, {target_rows} in "
                f"{target.description}. The old database was changed between two runs, or somebody "
                "wrote to the new one: begin again with an empty database"
            )
        tables.append(
            CopiedTable(
                name=table.name,
                rows=rows,
                rows_left_out=progress.rows_left_out,
                rows_replaced=progress.rows_replaced,
                left_out=tuple(progress.left_out),
                replaced=tuple(progress.replaced),
            )
        )
    return tuple(tables)


def _sum_digests(tx: Transaction, table: Table, show_steps: Callable[[int], None]) -> int:
    """Sum the digests of all rows: the order, which differs between databases, does not matter."""
    total = 0
    for number, row in enumerate(RowReader(table).read_rows(tx), start=1):
        total += row.compute_digest()
        if number % BATCH_ROWS == 0:
            show_steps(BATCH_ROWS)
    return total % DIGEST_MODULUS


def _show_nothing(_steps: int) -> None:
    """Show no progress: the source's rows stand for both."""


def _complete_postgresql(tx: Transaction) -> None:
    """Have new rows numbered after the copied ones, and the planner know the tables' sizes."""
    if tx.dialect.name == "sqlite":
        return
    for table in metadata.sorted_tables:
        for key in table.primary_key:
            sequence = tx.scalar(
                text("SELECT pg_get_serial_sequence(:table, :key)"),
                {"table": table.name, "key": key.name},
            )
            newest = None if sequence is None else tx.scalar(select(func.max(key)))
            if newest is not None:
                tx.execute(select(func.setval(sequence, newest)))
        name = tx.dialect.identifier_preparer.format_table(table)
        tx.exec_driver_sql(f"ANALYZE {name}")
