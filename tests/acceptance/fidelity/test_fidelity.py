"""The simulator against the real slurmctld, in small: docs/research/fidelity.md has the long ones.

Each test records what slurmctld does and judges it at once.
"""

from pathlib import Path

import pytest

from tests.support.fidelity import record
from tests.support.fidelity import script as scripts
from tests.support.fidelity.judge import judge_forecasts, judge_free_run, judge_plans
from tests.support.fidelity.record import Recorder
from tests.support.fidelity.recording import Recording
from tests.support.slurm_testbed import Testbed

_HOURS = 1.5
_FORETOLD_AT_LEAST = 0.90
_AGREE_AT_LEAST = 0.95

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def _judged(recording: record.Recording, folder: Path) -> Recording:
    path = folder / "recording.json.gz"
    record.write(recording, path)
    return Recording(path)


@pytest.mark.parametrize("priority", ["age", "fairshare"])
def test_plans_are_those_of_squeue_start(
    slurm_host: Testbed, tmp_path: Path, priority: str
) -> None:
    """Hundreds queued: shared GPUs, three users, a per-user limit, three partitions, pins."""
    script = scripts.build_queue_script(7, running=30, pending=250, mix=scripts.Mix(nice=2000))
    # Users differ in fair share once a tick, each minute, has seen what the first jobs used.
    warm_s = 70 if priority == "fairshare" else 0
    recorder = Recorder(slurm_host, record.scene_settings(priority))
    with record.site_for_fidelity(slurm_host):
        told = record.record_scene(recorder, script, warm_s=warm_s)
    plans = judge_plans(_judged(told, tmp_path))
    assert len(plans.starts) > 150
    assert plans.agreement() >= _AGREE_AT_LEAST, plans.misses()


def test_starts_of_the_next_ten_minutes_are_foretold(slurm_host: Testbed, tmp_path: Path) -> None:
    """As well as a long run's in an hour and a half, or nearly as well in three times as long.

    Misses come by the window of ten minutes, since one start on the other side of a second changes
    those after it, and an hour and a half has few windows: two more runs are added to it then.
    """
    first = _run(slurm_host, tmp_path, seed=11)
    forecasts = judge_forecasts(first)
    assert len(forecasts.starts) > 20 * _HOURS
    if forecasts.foretold() < _AGREE_AT_LEAST:
        for seed in (12, 13):
            forecasts.starts += judge_forecasts(_run(slurm_host, tmp_path, seed)).starts
    assert forecasts.foretold() >= _FORETOLD_AT_LEAST, forecasts.misses()
    assert judge_free_run(first).rank_correlation() > 0.5


def _run(slurm_host: Testbed, folder: Path, seed: int) -> Recording:
    duration_s = int(_HOURS * 3600)
    script = scripts.make(seed, duration_s, scripts.Mix())
    recorder = Recorder(slurm_host, record.run_settings("age"))
    with record.site_for_fidelity(slurm_host):
        return _judged(record.record_run(recorder, script, duration_s), folder)
