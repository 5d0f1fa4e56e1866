"""The simulator against the real slurmctld, in small: docs/fidelity.md has the long ones.

Each test records what slurmctld does and judges it at once.
"""

import os
from pathlib import Path

import pytest

from tests.fidelity import record
from tests.fidelity import script as scripts
from tests.fidelity.judge import judge_forecasts, judge_free_run, judge_plans
from tests.fidelity.record import Recorder
from tests.fidelity.recording import Recording
from tests.slurm_testbed import Testbed

_HOURS = float(os.environ.get("FIDELITY_HOURS", "3"))
_FORETOLD_AT_LEAST = 0.90
"""In a run as short as CI's; 0.95 over 6 h. Misses come by the window of ten minutes, since one
start on the other side of a second changes those after it: an hour and a half has too few."""
_AGREE_AT_LEAST = 0.95

pytestmark = [pytest.mark.slurm, pytest.mark.slow]


def _judged(recording: record.Recording, folder: Path) -> Recording:
    path = folder / "recording.json.gz"
    record.write(recording, path)
    return Recording(path)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("priority", ["age", "fairshare"])
def test_plans_are_those_of_squeue_start(
    slurm_host: Testbed, tmp_path: Path, priority: str
) -> None:
    """Hundreds queued: shared GPUs, three users, a per-user limit, three partitions, pins."""
    script = scripts.queue(7, running=30, pending=250, mix=scripts.Mix(nice=2000))
    # Users differ in fair share once a tick, each minute, has seen what the first jobs used.
    warm_s = 70 if priority == "fairshare" else 0
    recorder = Recorder(slurm_host, record.scene_settings(priority))
    with record.site_for_fidelity(slurm_host):
        told = record.record_scene(recorder, script, warm_s=warm_s)
    plans = judge_plans(_judged(told, tmp_path))
    assert len(plans.both) > 150
    assert plans.agreement() >= _AGREE_AT_LEAST, plans.misses()


@pytest.mark.timeout(900)
def test_starts_of_the_next_ten_minutes_are_foretold(slurm_host: Testbed, tmp_path: Path) -> None:
    duration_s = int(_HOURS * 3600)
    script = scripts.make(11, duration_s, scripts.Mix())
    recorder = Recorder(slurm_host, record.run_settings("age"))
    with record.site_for_fidelity(slurm_host):
        recording = _judged(record.record_run(recorder, script, duration_s), tmp_path)
    forecasts = judge_forecasts(recording)
    assert len(forecasts.starts) > 20 * _HOURS
    assert forecasts.foretold() >= _FORETOLD_AT_LEAST, forecasts.misses()
    assert judge_free_run(recording).rank_correlation() > 0.5
