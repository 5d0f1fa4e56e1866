"""mirage-slurm as users install it: small, complete, and alone, in old Pythons and new ones."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from deploy.client_dependency import name_client
from tests.support.paths import CHECKOUT, PLUGIN

pytestmark = pytest.mark.slow

MOST_BYTES = 1_000_000
PYENV = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"


def run(*words: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MIRAGE_", "PYTHON"))}
    return subprocess.run(
        words, cwd=cwd, env=plain | more, capture_output=True, text=True, check=False
    )


def done(*words: str | Path, cwd: Path, **more: str) -> str:
    ended = run(*words, cwd=cwd, **more)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source archive, from a copy with a cache of Python's."""
    folder = tmp_path_factory.mktemp("client")
    copy = folder / "slurm_plugin"
    shutil.copytree(PLUGIN, copy, ignore=shutil.ignore_patterns("__pycache__", "*.so", "dist"))
    (copy / "mirage_slurm" / "__pycache__").mkdir()
    (copy / "mirage_slurm" / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"")
    done(sys.executable, "-m", "hatchling", "build", "-d", str(folder), cwd=copy)
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, archive


def tracked() -> set[str]:
    """The files of slurm_plugin that a clone has."""
    listed = done("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=PLUGIN)
    return {name for name in listed.split("\0") if name and (PLUGIN / name).exists()}


def test_the_wheel_is_the_whole_folder_and_small(built: tuple[Path, Path]) -> None:
    wheel, _ = built
    assert wheel.stat().st_size < MOST_BYTES
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert archive.read("mirage_slurm.pth") == b"mirage_slurm_plugin\n"
    folder = "mirage_slurm_plugin/"
    expected = {f"{folder}{name}" for name in tracked() - {"mirage_slurm.pth"}}
    assert names == expected | {"mirage_slurm.pth"}


def test_an_index_takes_the_metadata(built: tuple[Path, Path]) -> None:
    """packaging checks what an index checks. The description has no relative link."""
    wheel, source = built
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        raw = archive.read(name)
    metadata = Metadata.from_email(raw, validate=True)
    assert str(metadata.requires_python) == ">=3.6"
    assert not metadata.requires_dist
    assert metadata.description_content_type == "text/markdown"
    assert "](" not in message_from_bytes(raw).get_payload()
    with tarfile.open(source) as sources:
        assert any(one.endswith("/PKG-INFO") for one in sources.getnames())
    assert (PLUGIN / "LICENSE").read_text() == (CHECKOUT / "LICENSE").read_text()


def found_pythons() -> list[str]:
    """The oldest Python that this host has from 3.6 on, its newest, and the one that runs this."""
    names = [shutil.which(f"python3.{minor}") for minor in range(6, 15)]
    paths = [*filter(None, names), *map(str, PYENV.glob("3.*/bin/python")), sys.executable]
    program = "import ensurepip, sys; print(*sys.version_info[:2], sys.executable)"
    by_version: dict[tuple[int, int], str] = {}
    for path in paths:
        told = subprocess.run([path, "-c", program], capture_output=True, text=True, check=False)
        major, minor, own = (told.stdout.split() or (0, 0, ""))[:3]
        if (int(major), int(minor)) >= (3, 6):
            by_version[int(major), int(minor)] = str(own)
    chosen = {min(by_version), sys.version_info[:2], max(by_version)}
    return [by_version[version] for version in sorted(chosen)]


@pytest.mark.parametrize("python", found_pythons(), ids=lambda path: path.strip("/"))
def test_a_fresh_environment_and_one_line_are_enough(
    built: tuple[Path, Path], python: str, tmp_path: Path
) -> None:
    wheel, _ = built
    bin_folder = tmp_path / "mirage" / "bin"
    done(python, "-m", "venv", str(tmp_path / "mirage"), cwd=tmp_path)
    done(bin_folder / "pip", "install", "--quiet", "--no-index", str(wheel), cwd=tmp_path)
    bare = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
    line = done(bin_folder / "mirage", "plugin", "path", cwd=tmp_path, **bare)
    found = "for name in sbatch mirage mirage-link; do command -v $name; done"
    asked = f"{line}{found}; sbatch --mirage-help; mirage chain list"
    told = done("sh", "-c", asked, cwd=tmp_path, **bare).splitlines()
    assert told[0].endswith("/site-packages/mirage_slurm_plugin/sbatch")
    assert told[1] == str(bin_folder / "mirage")
    assert told[2].endswith("/mirage_slurm_plugin/mirage-link")
    assert "runs as a chain of jobs" in told[3]
    assert told[-1] == "no chains"
    program = "import mirage_slurm, mirage_handover; print(mirage_handover.Handover.__module__)"
    assert done(bin_folder / "python", "-c", program, cwd=tmp_path).startswith("mirage_slurm.")
    away = run(bin_folder / "mirage", "serve", cwd=tmp_path, **bare)
    assert (away.returncode, away.stdout) == (1, "")
    assert "is a command of the package mirage-provisioner" in away.stderr
    done(bin_folder / "pip", "uninstall", "--quiet", "--yes", "mirage-slurm", cwd=tmp_path)
    left = [path for path in (tmp_path / "mirage").rglob("*mirage_slurm*/**/*") if path.is_file()]
    assert {path.suffix for path in left} <= {".pyc"}, "bytecode by other Pythons alone"
    assert not (bin_folder / "mirage").exists()


def test_pip_takes_the_clients_folder_of_a_checkout_and_an_index_gets_its_version() -> None:
    assert name_client(CHECKOUT, "1.2.3", by_pip=False) == "mirage-slurm==1.2.3"
    assert name_client(CHECKOUT, "1.2.3", by_pip=True) == f"mirage-slurm @ {PLUGIN.as_uri()}"


def test_what_pip_builds_from_a_source_archive_names_the_version(tmp_path: Path) -> None:
    (tmp_path / "slurm_plugin").mkdir()
    (tmp_path / "slurm_plugin" / "pyproject.toml").touch()
    assert "@" in name_client(tmp_path, "1.2.3", by_pip=True)
    (tmp_path / "PKG-INFO").touch()
    assert name_client(tmp_path, "1.2.3", by_pip=True) == "mirage-slurm==1.2.3"
