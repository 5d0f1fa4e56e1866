"""The static checks of `tests.static` reach all that is shipped, and say what is wrong where."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needed, static
from tests.support.paths import CHECKOUT, PLUGIN


def test_ruff_looks_at_all_of_the_plugin_s_programs() -> None:
    ruff = static.find_program("ruff")
    if ruff is None:
        needed.absent("ruff is not installed (the extra check)")
    told = subprocess.run(
        [ruff, "check", "--show-files"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    files = set(map(Path, told.stdout.splitlines()))
    assert set(static.plugin_programs()) <= files
    looked = {str(path.relative_to(PLUGIN)) for path in files if path.is_relative_to(PLUGIN)}
    assert {"sbatch", "mirage-handover", "hooks/mirage-rerun", "hooks/mirage_push.py"} <= looked
    assert {str(path.relative_to(PLUGIN)) for path in PLUGIN.rglob("*.py")} <= looked
    pieces = PLUGIN.glob("mirage_slurm/carrier/*")
    assert set(static.carrier_pieces()) == {str(path.relative_to(PLUGIN)) for path in pieces}


def test_all_shell_is_looked_at() -> None:
    looked = {str(path.relative_to(CHECKOUT)) for path in static.shell_scripts()}
    deb = {f"deploy/deb/{name}" for name in ("postinst", "postrm", "prerm", "files/mirage")}
    plugin = {"slurm_plugin/mirage-link", "slurm_plugin/hooks/mirage-push"}
    assert deb | plugin | {".ci/run", "deploy/testbed/apart.sh"} <= looked
    tracked = subprocess.run(
        ["git", "ls-files", "*.sh"], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    pieces = {f"slurm_plugin/{name}" for name in static.carrier_pieces()}
    assert set(tracked.stdout.split()) <= looked | pieces


def test_a_fault_in_a_piece_of_the_carrier_is_told_by_piece_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if static.find_program("shellcheck") is None:
        needed.absent("shellcheck is not installed (the extra check)")
    shutil.copytree(PLUGIN, tmp_path / "plugin")
    piece = tmp_path / "plugin/mirage_slurm/carrier/loops.sh"
    piece.write_text(f"{piece.read_text()}mirage_faulty() {{\n    rm -r $mirage_dir/x\n}}\n")
    line = piece.read_text().count("\n") - 1
    monkeypatch.setattr(static, "PLUGIN", tmp_path / "plugin")
    (told,) = static.complaints_of_carrier()
    assert told.startswith(f"slurm_plugin/mirage_slurm/carrier/loops.sh:{line}: ")
    assert told.endswith("[SC2086]")


@pytest.mark.parametrize("kind", static.CHECKS)
def test_an_absent_program_is_named_and_fails_in_ci_alone(
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for ci, code in (("", 0), ("true", 1)):
        monkeypatch.setenv("CI", ci)
        assert static.main([kind]) == code
        assert f"left out: {static.CHECKS[kind].program} (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "name", "text", "told"),
    [
        ("lua", "x.lua", "local never = 1\n", "unused variable 'never'"),
        ("c", "x.c", "static int f(int unused) { return 0; }\n", "unused parameter"),
        ("ruby", "x.rb", "def f\n  unused = 1\nend\n", "assigned but unused variable"),
        ("ruby", "x.html.erb", "<% if true %>\n", "syntax error"),
        ("spelling", "x.md", "\x54eh word.\n", "==> The"),
    ],
)
def test_a_fault_is_told(
    kind: str, name: str, text: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = static.CHECKS[kind].program
    if static.find_program(program) is None:
        needed.absent(f"{program} is not installed ({static.CHECKS[kind].brought_by})")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / name).write_text(text)
    for settings in ("pyproject.toml", ".luacheckrc"):
        shutil.copy(CHECKOUT / settings, tmp_path)
    monkeypatch.setattr(static, "CHECKOUT", tmp_path)
    assert any(told in line for line in static.CHECKS[kind].complaints())
