"""The wheels are the whole product: installed outside the checkout they migrate, submit and run."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import CHECKOUT

pytestmark = pytest.mark.slow

DATA = "mirage/_data/"
LEFT_BEHIND = shutil.ignore_patterns(".git", ".venv", ".*_cache", ".hypothesis", "*.db*")

DEMO = (
    *("--once", "--json", "--port", "0", "--preset", "light", "--cluster", "lab.toml"),
    *("--chains", "1", "--links", "2", "--from", "2026-01-06"),
)
AS_PYTHON = {"NUMBA_DISABLE_JIT": "1"}
"""Compiled, a demo of seconds takes minutes in an install that was never used."""


def python(*words: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pip_wheel(source: Path, into: Path) -> Path:
    """As `pip install` builds it, but with the hatchling of this environment."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    python("pip", "wheel", *quiet, "--wheel-dir", str(into), str(source), cwd=into.parent)
    (wheel,) = into.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout as a clone has it, and a cache of Python's that must not get into the wheel."""
    copy = tmp_path_factory.mktemp("clone") / "mirage"
    shutil.copytree(CHECKOUT, copy, ignore=LEFT_BEHIND)
    for room in ("mirage", "migrations", "slurm_plugin"):
        (copy / room / "__pycache__").mkdir(exist_ok=True)
        (copy / room / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"")
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pip_wheel(source, tmp_path_factory.mktemp("built") / "wheel")


@pytest.fixture(scope="module")
def client_wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pip_wheel(source / "slurm_plugin", tmp_path_factory.mktemp("client") / "wheel")


@pytest.fixture(scope="module")
def installed(wheel: Path, client_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment with both wheels in it.

    Mirage's dependencies are those of this environment, found through a .pth file; the editable
    install there is not, since .pth files found that way are not read.
    """
    folder = tmp_path_factory.mktemp("installed")
    python("venv", "--without-pip", str(folder), cwd=folder)
    own = folder / "bin" / "python"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps")
    python(
        "pip", "--python", str(own), "install", *quiet, str(wheel), str(client_wheel), cwd=folder
    )
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run(command: Path, *words: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    done = _run(command, *words, cwd=cwd, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _run(command: Path, *words: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("MIRAGE_", "PYTHON"))}
    return subprocess.run(
        [command, *words], cwd=cwd, env=plain | more, capture_output=True, text=True, check=False
    )


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_it_carries_what_is_not_python_and_no_caches(wheel: Path, source: Path) -> None:
    data = {name.removeprefix(DATA) for name in names(wheel) if name.startswith(DATA)}
    expected = {
        str(path.relative_to(source))
        for folder in ("migrations", "models")
        for path in (source / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert data == expected
    assert "migrations/env.py" in data
    assert not [name for name in names(wheel) if "mirage_slurm" in name], "that is mirage-slurm's"
    pages = {"templates/layout.html", "static/live.js", "static/mirage.css", "static/mirage.svg"}
    assert {f"mirage/web/{name}" for name in pages} <= names(wheel)
    assert not [name for name in names(wheel) if "__pycache__" in name or name.endswith(".pyc")]


def test_the_source_archive_makes_the_same_wheel(wheel: Path, source: Path, tmp_path: Path) -> None:
    python("hatchling", "build", "-t", "sdist", "-d", str(tmp_path), cwd=source)
    (archive,) = tmp_path.glob("*.tar.gz")
    assert names(pip_wheel(archive, tmp_path / "wheel")) == names(wheel)


def test_all_is_found_in_the_install(installed: Path, tmp_path: Path) -> None:
    program = (
        "import mirage; from mirage.shipped_files import get_data_dir\n"
        "print(mirage.__file__, *map(get_data_dir, ('migrations', 'models', 'slurm_plugin')))"
    )
    found = run(installed / "python", "-c", program, cwd=tmp_path).stdout.split()
    assert len(found) == 4
    for place in map(Path, found):
        assert place.exists()
        assert place.is_relative_to(installed.parent)


def test_commands_of_the_plugin_stay_executable(installed: Path) -> None:
    for name in ("sbatch", "mirage-link"):
        (path,) = installed.parent.glob(f"lib/python*/site-packages/mirage_slurm_plugin/{name}")
        assert os.access(path, os.X_OK)


def test_the_line_for_the_profile_names_the_install(installed: Path, tmp_path: Path) -> None:
    line = run(installed / "mirage", "plugin", "path", cwd=tmp_path).stdout
    folder = Path(line.removeprefix("export PATH=").partition(":")[0])
    assert folder.is_relative_to(installed.parent)
    assert (folder / "sbatch").exists()


def test_a_chain_is_submitted(installed: Path, tmp_path: Path) -> None:
    sbatch, script = tmp_path / "sbatch", tmp_path / "job.sh"
    sbatch.write_text("#!/bin/sh\necho Submitted batch job 7\n")
    sbatch.chmod(0o755)
    script.write_text("#!/bin/sh\ntrue\n")
    done = run(
        installed / "mirage",
        *("chain", "submit", "--links", "3", str(script)),
        cwd=tmp_path,
        HOME=str(tmp_path),
        MIRAGE_REAL_SBATCH=str(sbatch),
        MIRAGE_URL="http://127.0.0.1:9",
    )
    assert done.stdout == "Submitted batch job 7\n"
    (chain,) = (tmp_path / ".local" / "state" / "mirage").iterdir()
    assert (chain / "carrier" / "job.sh").read_text().endswith("#!/bin/sh\ntrue\n")


def test_a_command_for_chains_looks_who_answers(installed: Path, tmp_path: Path) -> None:
    """By the plugin's own rules, which come with the wheel."""
    nowhere = f"unix://{tmp_path}/none"
    words = (installed / "mirage", "chain", "list")
    done = _run(*words, cwd=tmp_path, MIRAGE_URL=nowhere)
    assert done.returncode == 5
    assert f"there is no {tmp_path}/none on this host: " in done.stderr


def test_the_database_is_made_and_the_demo_runs(installed: Path, tmp_path: Path) -> None:
    mirage = installed / "mirage"
    assert "demo" in run(mirage, "--help", cwd=tmp_path).stdout
    url = f"sqlite:///{tmp_path}/mirage.db"
    run(mirage, "db", "upgrade", cwd=tmp_path, MIRAGE_DATABASE_URL=url)
    assert (
        "lab: shadow"
        in run(
            *(mirage, "mode"),
            cwd=tmp_path,
            MIRAGE_DATABASE_URL=url,
            MIRAGE_CONFIG=str(named(tmp_path)),
        ).stdout
    )
    (tmp_path / "lab.toml").write_text('[cluster]\nname = "lab"\nnodes = 2\n')
    told = json.loads(run(mirage, "demo", *DEMO, cwd=tmp_path, **AS_PYTHON).stdout)
    assert list(told) == ["policies"]
    assert {"reactive", "average", "quantile", "at-once"} <= set(told["policies"])
    for outcome in told["policies"].values():
        assert {"interruption_h", "overlap_h", "zero_interruption_pct"} <= set(outcome)
        assert outcome["handovers"] == 1


def named(folder: Path) -> Path:
    path = folder / "mirage.toml"
    path.write_text('[cluster]\nname = "lab"\n')
    return path
