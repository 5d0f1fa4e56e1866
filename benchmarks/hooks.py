"""What the SPANK plugin and the cli_filter add to a plain sbatch: `python -m benchmarks.hooks`.

As root on Debian 12: a real Slurm is started. Jobs are submitted held, in turn without and with
both hooks, so that both meet the same noise. Shown are the medians, and the median of what each
call with the hooks took more than the call before it.
"""

import argparse
import statistics
import time

from tests.support.slurm_plugin.hooked import TRUE, Hooked, set_up_hooks
from tests.support.slurm_testbed import Testbed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=51)
    calls = parser.parse_args().calls
    testbed = Testbed()
    try:
        with set_up_hooks(testbed) as scene:
            scene.write("job.sh", TRUE)
            pairs = [_time_pair(scene) for _ in range(calls + 1)][1:]  # the first warms up
    finally:
        testbed.down(purge=True)
    without, with_hooks = zip(*pairs, strict=True)
    more = statistics.median(b - a for a, b in pairs)
    print(
        f"medians of {calls} calls of sbatch: without hooks {statistics.median(without):.1f} ms, "
        f"with hooks {statistics.median(with_hooks):.1f} ms, more by {more:.1f} ms"
    )


def _time_pair(scene: Hooked) -> tuple[float, float]:
    scene.all_off()
    without = _time_call(scene)
    scene.spank_on()
    scene.load_cli(scene.hooks)
    return without, _time_call(scene)


def _time_call(scene: Hooked) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    scene.sbatch("--hold", "job.sh").check_returncode()
    return 1000 * (time.perf_counter() - began)


if __name__ == "__main__":
    main()
