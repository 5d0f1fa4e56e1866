"""What settings become, and what is told of them."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mirage.config.settings import Settings
from mirage.domain.ports import Cluster
from mirage.errors import ConfigError, StoreUnavailable
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.provision.handover_decider import DecisionSettings
from mirage.service import database_setup, wiring
from mirage.simulator.types import Params
from tests.support.mirage_process import SITE, QuietSlurm

_ALWAYS = """[cluster]\nname = "lab"\nnodes = 2\n[scheduler]\nPriorityFlags = "ACCRUE_ALWAYS"\n"""


def build_settings(
    tmp_path: Path, cluster: Cluster | None = None, **own: object
) -> DecisionSettings:
    settings = Settings.model_validate(
        {"cluster": {"name": "lab", **own}, "service": {"state_dir": tmp_path / "state"}}
    )
    database_setup.upgrade_database(settings)
    service = wiring.build_service(settings, cluster)
    service.store.close()
    return wiring.build_decision_settings(service)


@pytest.mark.parametrize(("flags", "accrues"), [("ACCRUE_ALWAYS", True), ("SMALL_RELATIVE", False)])
def test_slurm_is_asked_once_whether_age_always_accrues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, accrues: bool
) -> None:
    slurm = QuietSlurm(tmp_path / "bin")
    line = next(line for line in SITE.splitlines() if line.startswith("PriorityFlags"))
    slurm.answers("scontrol", SITE.replace(line, f"PriorityFlags = {flags}"))
    monkeypatch.setenv("PATH", slurm.path + os.pathsep + os.environ["PATH"])
    settings = build_settings(tmp_path)
    assert [settings.accrues_always(), settings.accrues_always()] == [accrues, accrues]
    assert len(slurm.calls("scontrol")) == 1


def test_elsewhere_the_cluster_file_tells(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(_ALWAYS)
    cluster = SimulatedCluster(Params(nodes=2), now=0)
    assert build_settings(tmp_path, cluster, file=file).accrues_always()
    assert not build_settings(tmp_path, cluster).accrues_always()


def test_the_cluster_file_has_each_partitions_longest_time(tmp_path: Path) -> None:
    file = tmp_path / "lab.toml"
    file.write_text(
        '[cluster]\nname = "lab"\nnodes = 2\n'
        '[[partitions]]\nPartitionName = "gpu"\nMaxTime = "2-0"\n'
        '[[partitions]]\nPartitionName = "long"\n'
    )
    settings = Settings.model_validate({"cluster": {"name": "lab", "file": file}})
    assert wiring.get_max_time_s(settings) == {"gpu": 48 * 3600}
    assert wiring.get_max_time_s(Settings()) == {}
    with file.open("a") as more:
        more.write('[[qos]]\nName = "days"\nFlags = "PartitionTimeLimit"\n')
    assert wiring.get_max_time_s(settings) == {}, "a question names no QOS"


def test_a_folder_of_models_that_is_not_there_is_told(tmp_path: Path) -> None:
    settings = Settings.model_validate({"provision": {"models_dir": tmp_path / "nowhere"}})
    (told,) = wiring.check_settings(settings)
    assert "there are no models" in told


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to others")
@pytest.mark.parametrize("how", ["as made", "open to all", "somebody else's", "a link", "its own"])
def test_a_users_own_service_lives_where_nobody_else_may_write(tmp_path: Path, how: str) -> None:
    state = tmp_path / "home" / "mirage" / "service"
    if how == "as made":
        database_setup.make_user_state_dir(state)
        assert state.stat().st_mode & 0o777 == 0o700
        return
    state.mkdir(parents=True, mode=0o700)
    if how == "open to all":
        state.parent.chmod(0o777)
    elif how == "somebody else's":
        shutil.chown(state.parent, "nobody")
    elif how == "its own":
        state.chmod(0o750)
    else:
        state.rename(tmp_path / "moved")
        state.symlink_to(tmp_path / "moved")
    with pytest.raises(StoreUnavailable, match=re.escape(str(state))):
        database_setup.make_user_state_dir(state)


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to others")
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("as made", ""),
        ("of its own group", ""),
        ("open to all", "others may write in {state}: run `chmod go-w {state}`"),
        ("open to all and sticky", "others may write in {state}: run `chmod go-w {state}`"),
        ("open to a group", "others may write in {state}: run `chmod go-w {state}`"),
        ("somebody else's", "{state} belongs to nobody, not to root"),
        ("below an open one", "others may replace {state}, since they may write in {state.parent}"),
        ("by a link of theirs", "others may replace {link}, since they may write in {link.parent}"),
        ("the file theirs", "{file} belongs to nobody, not to root"),
        ("the file open", "others may write in {file}: run `chmod go-w {file}`"),
    ],
)
def test_nobody_else_may_change_what_the_service_keeps(tmp_path: Path, how: str, told: str) -> None:
    state, link = tmp_path / "srv" / "state", tmp_path / "link" / "state"
    named = link if "link" in how else state
    settings = Settings.model_validate({"service": {"state_dir": named}})
    state.mkdir(parents=True, mode=0o755)
    link.parent.symlink_to(state.parent)
    database_setup.upgrade_database(settings)
    file = state / "mirage.db"
    if how == "open to a group":
        shutil.chown(state, group="users")
    spoilt: dict[str, Callable[[], None]] = {
        "of its own group": lambda: state.chmod(0o775),
        "open to all": lambda: state.chmod(0o777),
        "open to all and sticky": lambda: state.chmod(0o1777),
        "open to a group": lambda: state.chmod(0o775),
        "somebody else's": lambda: shutil.chown(state, "nobody"),
        "below an open one": lambda: state.parent.chmod(0o777),
        "by a link of theirs": lambda: os.lchown(link.parent, 65534, 65534),
        "the file theirs": lambda: shutil.chown(file, "nobody"),
        "the file open": lambda: file.chmod(0o666),
    }
    spoilt.get(how, lambda: None)()
    if not told:
        database_setup.check_path_security(settings)
        return
    with pytest.raises(ConfigError) as caught:
        database_setup.check_path_security(settings)
    assert caught.value.faults == [told.format(state=state, link=link, file=file)]


@pytest.mark.parametrize(
    ("given", "user_h"),
    [
        ({}, 250.0),
        ({"account_overlap_node_h": 100.0}, 50.0),
        ({"cluster_overlap_node_h": 80.0}, 40.0),
        ({"cluster_overlap_node_h": 80.0, "user_overlap_node_h": 80.0}, 80.0),
    ],
)
def test_one_user_cannot_use_up_budgets_that_were_set_before_there_was_a_users_own(
    given: dict[str, float], user_h: float
) -> None:
    settings = Settings.model_validate({"provision": given})
    assert wiring.build_limits(settings).user_overlap_node_h == user_h
