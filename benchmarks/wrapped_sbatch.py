"""What the wrapped sbatch adds to the real one, on a real Slurm: median of calls in turn.

`python -m benchmarks.wrapped_sbatch` as root on Debian 12. Four ways to submit the same held job
are taken in turn, so that all meet the same noise: the real sbatch, the wrapper without a chain
request, a chain with no service listening, and a chain that a running service registers.
"""

import argparse
import statistics
import time
from pathlib import Path

from tests.handover.scene import PORT, Scene
from tests.slurm_testbed import Testbed, TestbedSettings

_DEAD = "http://127.0.0.1:9"
_LIVE = f"http://127.0.0.1:{PORT}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=30)
    calls = parser.parse_args().calls
    testbed = Testbed()
    testbed.up(TestbedSettings(), fresh=True)
    scene = Scene.set_up(testbed)
    try:
        scene.start_service(mode="shadow")
        medians = measure(scene, calls)
    finally:
        scene.strike()
    real = medians["real"]
    print(f"median of {calls} calls each, in turn, milliseconds")
    for name, median in medians.items():
        print(
            f"{name:22} {1000 * median:6.1f}  +{1000 * (median - real):5.1f}  x{median / real:.1f}"
        )


def measure(scene: Scene, calls: int) -> dict[str, float]:
    """Seconds by way of submitting."""
    wrapper = str(scene.root / "slurm_plugin" / "sbatch")
    script = str(scene.root / "train.sh")
    chain = [wrapper, "--mirage-chain=3"]
    ways = {
        "real": (["/usr/bin/sbatch"], _DEAD),
        "wrapped, no chain": ([wrapper], _DEAD),
        "chain, service down": (chain, _DEAD),
        "chain, service up": (chain, _LIVE),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(calls):
        for name, (command, url) in ways.items():
            argv = [*command, "--hold", "--parsable", "-o", "/dev/null", script, "log", "1"]
            spent[name].append(_seconds(scene, argv, url))
    return {name: statistics.median(times) for name, times in spent.items()}


def _seconds(scene: Scene, argv: list[str], url: str) -> float:
    home: Path = scene.root / "alice"
    environment = {"MIRAGE_URL": url, "MIRAGE_STATE_DIR": str(home / "state")}
    begin = time.perf_counter()
    scene.testbed.run(argv, user="alice", env=environment, cwd=home)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
