"""What `mirage report shadow` costs on the developers' training weeks of Lonestar6.

`python -m benchmarks.shadow_report [--since 28d] [OPTION...]`: the report of the weeks before
2023-02-07 with two processes, and its wall clock and CPU time. Further words go to the command.
"""

import resource
import subprocess
import sys
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
SHARED = CHECKOUT.parent / "shared"
UNTIL = "2023-02-07"
"""The end of the training weeks: shared/clusters/README.md."""


def main() -> None:
    if not SHARED.is_dir():
        sys.exit(f"shadow_report: the traces are not there: {SHARED}")
    trace, cluster = SHARED / "traces/tacc-ls6-a100.parquet", SHARED / "clusters/ls6.toml"
    words = ["--from-sacct", str(trace), "--cluster", str(cluster), "--until", UNTIL]
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "mirage", "report", "shadow", *words, "--jobs", "2", *sys.argv[1:]],
        cwd=CHECKOUT,
        check=False,
    )
    wall_s = time.perf_counter() - begun
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    print(f"shadow_report: {wall_s:.0f} s, {cpu_s:.0f} s of CPU", file=sys.stderr)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
