"""What the wrapped sbatch adds to the real one, on a real Slurm: median and longest of many calls.

`python -m benchmarks.wrapper` as root on Debian 12. Each way of submitting the same held job is
taken in turn after a call of the real sbatch, so that both meet the same noise, and what is shown
is the difference of the two: a call without a chain and one with a chain, beside a service that is
up, that answers after four minutes, that is down, and that answers nonsense.
"""

import argparse
import shutil
import statistics
from collections.abc import Iterator

from tests.support.handover.scene import Scene
from tests.support.slurm_plugin.conformance import SLOW_S, STATES, Side, babbling
from tests.support.slurm_plugin.invocations import call
from tests.support.slurm_testbed import Testbed, TestbedSettings

PLAIN = call("--hold", "--parsable", "-o", "/dev/null", "job.sh", "log", "1")
CHAIN = PLAIN.with_words("--mirage-chain=3")
WAITS = 5
"""Calls with a chain beside the slow service, each of which waits its two seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=50)
    calls = parser.parse_args().calls
    testbed = Testbed()
    try:
        testbed.up(TestbedSettings(), fresh=True)
        _show_all(testbed, calls)
    finally:
        # Its users too: a host that kept them would no longer be a fresh one.
        testbed.down(purge=True)


def _show_all(testbed: Testbed, calls: int) -> None:
    scene = Scene.set_up(testbed)
    try:
        with babbling(SLOW_S) as slow, babbling(0.0) as garbage:
            side = Side.set_up(scene, slow, garbage)
            _show(measure(side, calls))
    finally:
        scene.strike()
        shutil.rmtree(scene.root, ignore_errors=True)


def measure(side: Side, calls: int) -> Iterator[tuple[str, str, list[tuple[float, float]]]]:
    """(way, state of the service, what the wrapper took more: seconds, seconds of computing)."""
    for way, invocation in (("no chain", PLAIN), ("chain", CHAIN)):
        for state in STATES:
            turns = min(calls, WAITS) if (way, state) == ("chain", "slow") else calls
            pair = [
                side.call(PLAIN, wrapped=False),
                side.call(invocation, wrapped=True, state=state),
            ]
            answers = side.run(pair * (turns + 1))[2:]  # the first two warm up
            differences = [
                (wrapped_call.seconds - real_call.seconds, wrapped_call.cpu_s - real_call.cpu_s)
                for real_call, wrapped_call in zip(answers[::2], answers[1::2], strict=True)
            ]
            yield way, state, differences


def _show(measured: Iterator[tuple[str, str, list[tuple[float, float]]]]) -> None:
    print("wrapped minus real sbatch, milliseconds; computing: median, the same on a busy machine")
    print(f"{'':9} {'service':8} {'calls':>5} {'median':>7} {'longest':>8} {'computing':>10}")
    for way, state, differences in measured:
        wall_ms, cpu_ms = (
            [1000 * seconds for seconds in column] for column in zip(*differences, strict=True)
        )
        median, longest = statistics.median(wall_ms), max(wall_ms)
        row = f"{way:9} {state:8} {len(differences):5} {median:7.1f} {longest:8.1f}"
        print(f"{row} {statistics.median(cpu_ms):10.1f}")


if __name__ == "__main__":
    main()
