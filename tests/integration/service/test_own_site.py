"""A user's own service without a configuration: Slurm tells name and shape of the cluster."""

import os
from contextlib import closing
from pathlib import Path

import pytest

from mirage.config.settings import Settings, load_user_settings
from mirage.database.learning import learning_runs
from mirage.database.operations import clusters
from mirage.errors import ClusterError
from mirage.history.cluster_files.reader import load_cluster_file
from mirage.service import database_setup, own_site, wiring
from tests.support.mirage_process import SITE, QuietSlurm, run
from tests.support.slurm.captured import ALL

NONE_RESERVED = "No reservations in the system\n"
DOWN = "slurm_load_partitions: Unable to contact slurm controller (connect failure)"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MIRAGE_CONFIG", raising=False)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (tmp_path / "XDG_CONFIG_HOME" / "mirage").mkdir(parents=True)
    database_setup.make_user_state_dir(tmp_path / "XDG_STATE_HOME" / "mirage" / "service")
    return tmp_path


@pytest.fixture
def slurm(home: Path, monkeypatch: pytest.MonkeyPatch) -> QuietSlurm:
    """Slurm as it was captured, under the name lab."""
    made = QuietSlurm(home / "bin")
    answer_all(made)
    monkeypatch.setenv("PATH", made.path)
    return made


def answer_all(slurm: QuietSlurm) -> None:
    node, partition = (ALL[0].text(f"scontrol-show-{what}.txt") for what in ("node", "partition"))
    asked = {"nodes": node, "node": node, "partitions": partition, "partition": partition}
    slurm.answers("scontrol", SITE, by_argument=asked | {"reservation": NONE_RESERVED})


def start(*, config: str = "") -> Settings:
    """The settings with which `mirage serve --user` starts, with that configuration."""
    if config:
        file = Path(os.environ["XDG_CONFIG_HOME"]) / "mirage" / "mirage.toml"
        file.write_text(config)
    return own_site.complete_settings(load_user_settings(None), renews=True)


def get_file(settings: Settings) -> Path:
    return settings.service.state_dir / own_site.FILE


def test_without_a_configuration_slurm_tells_name_and_shape(slurm: QuietSlurm) -> None:
    settings = start()
    assert (settings.cluster.name, settings.cluster.file) == ("lab", get_file(settings))
    found = load_cluster_file(get_file(settings))
    assert (found.params.name, found.params.nodes > 0) == ("lab", True)
    assert wiring.check_settings(settings) == list(found.warnings)
    asked = len(slurm.calls("scontrol"))
    assert start().cluster == settings.cluster
    assert own_site.complete_settings(load_user_settings(None)).cluster == settings.cluster
    assert len(slurm.calls("scontrol")) == asked, "what is new is not asked for again"


def test_an_old_file_is_made_anew_and_kept_where_slurm_does_not_answer(slurm: QuietSlurm) -> None:
    file = get_file(start())
    before = file.read_text()
    file.write_text(before.replace('name = "lab"', 'name = "old"', 1))
    os.utime(file, (1_700_000_000, 1_700_000_000))
    slurm.answers("scontrol", stderr=DOWN, code=1)
    down = start()
    assert (down.cluster.name, down.cluster.file) == ("old", file)
    answer_all(slurm)
    assert start().cluster.name == "lab"
    assert file.read_text() == before


def test_where_no_file_can_be_made_the_name_still_comes_from_slurm(slurm: QuietSlurm) -> None:
    slurm.answers("scontrol", SITE)
    settings = start()
    assert (settings.cluster.name, settings.cluster.file) == ("lab", None)


def test_no_name_is_made_up(slurm: QuietSlurm) -> None:
    slurm.answers("scontrol", stderr=DOWN, code=1)
    with pytest.raises(ClusterError):
        start()


def test_what_the_user_wrote_stands(slurm: QuietSlurm) -> None:
    settings = start(config='[cluster]\nname = "mine"\n')
    assert (settings.cluster.name, settings.cluster.file) == ("mine", get_file(settings))
    mine = Path(os.environ["XDG_CONFIG_HOME"]) / "cluster.toml"
    assert start(config=f'[cluster]\nfile = "{mine}"\n').cluster.file == mine


def test_ones_own_service_learns_from_its_own_database(slurm: QuietSlurm, tmp_path: Path) -> None:
    settings = start()
    database_setup.upgrade_database(settings)
    own_site.name_cluster(settings)
    answer = run("learn", "--user", cwd=tmp_path)
    assert "mirage ingest" in " ".join(answer.err.split()), answer
    with closing(database_setup.open_store(settings)) as store, store.read() as tx:
        (cluster_id,) = clusters.list_cluster_names(tx)
        assert [r.state for r in learning_runs.read_runs(tx, cluster_id, most=9)] == ["failed"]
    assert (settings.service.state_dir / "models").is_dir()


@pytest.mark.usefixtures("slurm")
def test_the_rows_of_an_older_release_get_the_clusters_name() -> None:
    """33c702b5 took the name "cluster" where the user gave none."""
    unnamed = load_user_settings(None)
    database_setup.upgrade_database(unnamed)
    with closing(database_setup.open_store(unnamed)) as store, store.begin() as tx:
        known = clusters.ensure_cluster(tx, unnamed.cluster.name)
    settings = start()
    own_site.name_cluster(settings)
    own_site.name_cluster(settings)
    with closing(database_setup.open_store(settings)) as store, store.read() as tx:
        assert clusters.list_cluster_names(tx) == {known: "lab"}
