"""How many links a switch chain uses where jobs have waited for longer than its time limit."""

import pytest

from benchmarks.switch_pairs import format_links, measure_links
from tests.support.fixtures.slurm import testbed_with
from tests.support.handover.scene import Scene
from tests.support.slurm_testbed import TestbedSettings

pytestmark = pytest.mark.slurm


@testbed_with(TestbedSettings(speed=60))
def test_idle_or_full_with_a_service_or_without_it_uses_two_links_more_at_most(
    scene: Scene,
) -> None:
    used = measure_links(scene, "idle", "full")
    assert not any(one.is_too_many for one in used), "\n".join(format_links(used))
