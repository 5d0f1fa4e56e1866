"""How long `mirage db copy` takes, and with how much memory: `python -m benchmarks.database_copy`.

A database of SQLite with 200,000 jobs, 1,000 chains and a year of ten-minute snapshots is copied
into a PostgreSQL of this host. The command is killed (SIGKILL) once a third of the rows is there,
and again at two thirds. Printed: rows, and the time, CPU time and peak memory of each run. Ends
with 1 if a row is missing, is there twice, or differs.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import text

from benchmarks.serving import read_peak_mib
from mirage.database.schema import schema_migrations
from mirage.database.schema.engine import Store
from mirage.errors import MirageError
from tests.support import postgres
from tests.support.database.copying import read_rows
from tests.support.mirage_process import MIRAGE, configured, environment
from tests.support.paths import MIGRATIONS
from tests.support.web.seeded import Size, seed

_SHARES = (1 / 3, 2 / 3)
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the command."""

    code: int
    seconds: float
    cpu_s: float
    memory_mib: float
    rows_before: int


def make_source(folder: Path, size: Size) -> Path:
    """Return the configuration of a service whose database has this size."""
    config = configured(folder)
    state = folder / "state"
    state.mkdir()
    url = f"sqlite:///{state}/mirage.db"
    schema_migrations.upgrade_schema(url, MIGRATIONS)
    with closing(Store(url)) as store:
        seed(store, size)
        with store.begin() as tx:
            tx.execute(text("DELETE FROM leases"))
    return config


def run_copy(config: Path, target: str, stop_at: int | None) -> Run:
    """Run the command; kill it once so many rows are copied."""
    rows_before, began = count_copied(target), time.monotonic()
    cpu_before_s = read_children_cpu_s()
    words = [*MIRAGE, "db", "copy", "--to", target, "--config", str(config)]
    process = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL)
    memory_mib = 0.0
    while process.poll() is None:
        memory_mib = max(memory_mib, read_peak_mib(process.pid))
        if stop_at is not None and count_copied(target) >= stop_at:
            process.send_signal(signal.SIGKILL)
            process.wait()
        time.sleep(_LOOK_S)
    return Run(
        code=process.returncode,
        seconds=time.monotonic() - began,
        cpu_s=read_children_cpu_s() - cpu_before_s,
        memory_mib=memory_mib,
        rows_before=rows_before,
    )


def read_children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def count_copied(target: str) -> int:
    """Return the rows that need not be copied again; 0 before the copy has begun."""
    try:
        with closing(Store(target)) as store, store.read() as tx:
            if tx.scalar(text("SELECT to_regclass('unfinished_copy')")) is None:
                return 0
            document = tx.execute(text("SELECT document FROM unfinished_copy")).scalar_one()
    except MirageError:
        return 0
    return sum(table["rows_read"] for table in json.loads(document)["tables"].values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--chains", type=int, default=1000)
    parser.add_argument("--days", type=int, default=365, help="of snapshots")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="mirage-copy-"))
    try:
        config = make_source(folder, Size(options.chains, options.jobs, options.days))
        source = folder / "state" / "mirage.db"
        rows = {name: len(stored) for name, stored in read_rows(f"sqlite:///{source}").items()}
        total = sum(rows.values())
        print(f"{total} rows, {source.stat().st_size / 2**20:.0f} MiB", flush=True)
        with postgres.running_postgres() as target:
            runs = [run_copy(config, target, round(share * total)) for share in _SHARES]
            runs.append(run_copy(config, target, None))
            is_same = read_rows(target) == read_rows(f"sqlite:///{source}")
    finally:
        shutil.rmtree(folder)
    for run in runs:
        print(
            f"from row {run.rows_before}: {run.seconds:.0f} s, CPU {run.cpu_s:.0f} s, "
            f"at most {run.memory_mib:.0f} MiB, exit code {run.code}"
        )
    print(f"Same rows: {is_same}. Load average {os.getloadavg()[0]:.1f}.")
    return 0 if is_same and runs[-1].code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
