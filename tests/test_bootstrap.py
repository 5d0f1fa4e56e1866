"""What settings become, and what is told of them."""

import os
from pathlib import Path

import pytest

from mirage import bootstrap
from mirage.cluster.simulated import SimulatedCluster
from mirage.ports import Cluster
from mirage.services.desk import Rules
from mirage.settings import Settings
from mirage.sim.types import Params
from tests.mirage_process import SITE, QuietSlurm

_ALWAYS = """[cluster]\nname = "lab"\nnodes = 2\n[scheduler]\nPriorityFlags = "ACCRUE_ALWAYS"\n"""


def rules(tmp_path: Path, cluster: Cluster | None = None, **own: object) -> Rules:
    settings = Settings.model_validate(
        {"cluster": {"name": "lab", **own}, "service": {"state_dir": tmp_path / "state"}}
    )
    bootstrap.upgrade_database(settings)
    service = bootstrap.service(settings, cluster)
    service.store.close()
    return bootstrap.rules(service)


@pytest.mark.parametrize(("flags", "accrues"), [("ACCRUE_ALWAYS", True), ("SMALL_RELATIVE", False)])
def test_slurm_is_asked_once_whether_age_always_accrues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, accrues: bool
) -> None:
    slurm = QuietSlurm(tmp_path / "bin")
    line = next(line for line in SITE.splitlines() if line.startswith("PriorityFlags"))
    slurm.answers("scontrol", SITE.replace(line, f"PriorityFlags = {flags}"))
    monkeypatch.setenv("PATH", slurm.path + os.pathsep + os.environ["PATH"])
    found = rules(tmp_path)
    assert [found.accrues_always(), found.accrues_always()] == [accrues, accrues]
    assert len(slurm.calls("scontrol")) == 1


def test_elsewhere_the_cluster_file_tells(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(_ALWAYS)
    cluster = SimulatedCluster(Params(nodes=2), now=0)
    assert rules(tmp_path, cluster, file=file).accrues_always()
    assert not rules(tmp_path, cluster).accrues_always()


def test_a_folder_of_models_that_is_not_there_is_told(tmp_path: Path) -> None:
    settings = Settings.model_validate({"provision": {"models_dir": tmp_path / "nowhere"}})
    (told,) = bootstrap.check(settings)
    assert "there are no models" in told
