"""The folder of models of an installation whose configuration names none."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mirage.config.settings import Settings
from mirage.errors import InputError
from mirage.policies import registry, site_models
from mirage.service import wiring
from mirage.service.models_folder import prepare_models_folder
from mirage.shipped_files import get_data_dir
from tests.support.mirage_process import run

SHIPPED = sorted(path.name for path in get_data_dir("models").iterdir() if path.is_dir())


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state").mkdir()
    return Settings.model_validate({"service": {"state_dir": tmp_path / "state"}})


def test_the_shipped_models_are_in_the_folder_of_the_sites_own(settings: Settings) -> None:
    assert settings.models_dir == get_data_dir("models")
    prepare_models_folder(settings)
    assert settings.models_dir == settings.service.state_dir / "models"
    assert sorted(path.name for path in settings.models_dir.iterdir()) == SHIPPED
    assert registry.list_model_folders(settings.models_dir)


def test_a_running_service_sees_a_model_of_the_site_without_a_restart(settings: Settings) -> None:
    prepare_models_folder(settings)
    load: Callable[[str], object] = wiring.get_policy_loader(settings)
    (card,) = get_data_dir("models").glob(f"{SHIPPED[0]}/*/card.json")
    with pytest.raises(InputError):
        load("models/site-lab")
    made = settings.models_dir / "site-lab" / "20261129"
    made.mkdir(parents=True)
    for file in card.parent.iterdir():
        (made / file.name).write_bytes(file.read_bytes())
    registry.promote_version(made)
    assert load("models/site-lab").name == "models/site-lab/20261129"  # type: ignore[attr-defined]
    assert site_models.find_champion("lab", settings.models_dir) == "models/site-lab/20261129"


def test_links_follow_an_upgrade_and_what_the_site_made_stays(settings: Settings) -> None:
    folder = settings.service.state_dir / "models"
    folder.mkdir()
    (folder / SHIPPED[0]).symlink_to(settings.service.state_dir / "an-older-release")
    (folder / SHIPPED[1]).mkdir()
    for _ in range(2):
        prepare_models_folder(settings)
        assert (folder / SHIPPED[0]).resolve() == (get_data_dir("models") / SHIPPED[0]).resolve()
        assert not (folder / SHIPPED[1]).is_symlink()
        assert sorted(path.name for path in folder.iterdir()) == SHIPPED


def test_links_are_renewed_by_a_service_that_runs_in_its_state_directory(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As mirage.service: there `models` is the folder, too."""
    monkeypatch.chdir(settings.service.state_dir)
    prepare_models_folder(settings)
    (settings.service.state_dir / "models" / SHIPPED[0]).unlink()
    prepare_models_folder(settings)
    assert sorted(path.name for path in Path("models").iterdir()) == SHIPPED


def test_a_folder_that_the_configuration_names_is_left_alone(
    settings: Settings, tmp_path: Path
) -> None:
    own = settings.model_copy(
        update={"provision": settings.provision.model_copy(update={"models_dir": tmp_path / "m"})}
    )
    prepare_models_folder(own)
    assert own.models_dir == tmp_path / "m"
    assert list(settings.service.state_dir.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_a_sentence(settings: Settings) -> None:
    (settings.service.state_dir / "models").write_text("no folder")
    with pytest.raises(InputError, match=r"set provision\.models_dir to another one"):
        prepare_models_folder(settings)


def test_every_command_uses_the_folder(tmp_path: Path) -> None:
    config = tmp_path / "mirage.toml"
    cluster = tmp_path / "C.toml"
    cluster.write_text('[cluster]\nname = "lab"\nnodes = 2\n')
    (tmp_path / "state").mkdir()
    config.write_text(
        f'[cluster]\nname = "lab"\nfile = "{cluster}"\n[service]\nstate_dir = "{tmp_path}/state"\n'
    )

    def mirage(*words: str) -> str:
        answer = run(*words, "--config", config, cwd=tmp_path)
        return answer.out + answer.err

    assert str(get_data_dir("models")) in mirage("models", "list", "--json")
    mirage("db", "upgrade")
    mirage("learn")
    assert f"{tmp_path}/state/models" in mirage("models", "list", "--json")
    assert f"in {tmp_path}/state/models, each matches" in " ".join(mirage("doctor").split())
