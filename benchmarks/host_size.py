"""What a host needs for so many chains: `python -m benchmarks.host_size --chains 10 --chains 100`.

A real `mirage serve` beside fake commands of Slurm (benchmarks/hostile_site.py), at the default
intervals. Of the chains one in sixty makes a hand-over each minute. The queue also has two waiting
jobs of others for each chain, and the database --jobs ended ones. Printed for each number of
chains: peak memory and CPU time of the service, the database's size, and the calls of Slurm's
commands with an estimate of their RPCs: two for squeue and sinfo, and one for the others; sacct
asks slurmdbd, not slurmctld. The twin does not run, since the cluster has no file.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks.hostile_site import Site
from benchmarks.serving import read_peak_mib
from tests.support.mirage_process import Serving, serving

EVERY_S = 60
"""The default of polling.queue_s."""
_RPCS = {"squeue": 2, "sinfo": 2, "scontrol": 1, "sdiag": 1, "scancel": 1}
_OTHERS_A_CHAIN = 2
_HANDOVERS_AN_HOUR = 1


@dataclass(frozen=True, slots=True)
class Need:
    """What the service took for so many chains."""

    chains: int
    jobs: int
    memory_mib: float
    cpu_s_a_minute: float
    """Without the start and the first look."""
    database_mib: float
    calls: Counter[str]
    """By command of Slurm, without the start and the first look."""
    moves: int
    minutes: float

    @property
    def rpcs_a_minute(self) -> float:
        rpcs = sum(_RPCS.get(name, 0) * count for name, count in self.calls.items())
        return rpcs / self.minutes


def measure_need(folder: Path, chains: int, jobs: int, minutes: float) -> Need:
    site = Site(folder, chains, EVERY_S, ended_jobs=jobs, others=_OTHERS_A_CHAIN * chains)
    with serving(site.config, site.slurm) as service:
        service.wait_until_ready()
        calls_before, cpu_before_s = count_calls(folder), read_cpu_s(service)
        begin = time.time()
        handovers = max(1, round(chains * _HANDOVERS_AN_HOUR * minutes / 60))
        site.due = [begin + 60 * minutes * n / handovers for n in range(handovers)]
        while time.time() < begin + 60 * minutes:
            site.look()
            time.sleep(1)
        passed_min = (time.time() - begin) / 60
        need = Need(
            chains=chains,
            jobs=jobs,
            memory_mib=read_peak_mib(service.process.pid),
            cpu_s_a_minute=(read_cpu_s(service) - cpu_before_s) / passed_min,
            database_mib=(folder / "state" / "mirage.db").stat().st_size / 2**20,
            calls=count_calls(folder) - calls_before,
            moves=len(site.moved_at),
            minutes=passed_min,
        )
        service.end()
    return need


def count_calls(folder: Path) -> Counter[str]:
    logs = (folder / "bin").glob("*.log")
    return Counter({log.stem: len(log.read_text().splitlines()) for log in logs})


def read_cpu_s(service: Serving) -> float:
    """Read the CPU time of the process itself; its Slurm commands are not in it."""
    fields = Path(f"/proc/{service.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def format_rows(needs: list[Need]) -> list[str]:
    """Format a table in Markdown."""
    rows = [
        "| chains | jobs in the queue | ended jobs | memory, MiB | CPU, s a minute "
        "| database, MiB | moves in minutes | RPCs a minute | calls |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for need in needs:
        calls = ", ".join(f"{name} {count}" for name, count in sorted(need.calls.items()))
        rows.append(
            f"| {need.chains} | {(1 + _OTHERS_A_CHAIN) * need.chains} | {need.jobs} "
            f"| {need.memory_mib:.0f} | {need.cpu_s_a_minute:.1f} | {need.database_mib:.0f} "
            f"| {need.moves} in {need.minutes:.0f} | {need.rpcs_a_minute:.1f} | {calls} |"
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, action="append", help="may be repeated")
    parser.add_argument("--jobs", type=int, default=20_000, help="ended jobs in the database")
    parser.add_argument("--minutes", type=float, default=10.0)
    options = parser.parse_args()
    needs = []
    for chains in options.chains or [10, 100, 1000]:
        with tempfile.TemporaryDirectory(prefix="mirage-size-") as folder:
            needs.append(measure_need(Path(folder), chains, options.jobs, options.minutes))
        print("\n".join(format_rows(needs)), flush=True)
    print(f"Load average {os.getloadavg()[0]:.1f}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
