"""The static checks of `tests.static` reach all that is shipped, and say what is wrong where."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests import needed, static
from tests.support.paths import CHECKOUT, PLUGIN


def test_all_of_the_plugin_s_programs_are_looked_at() -> None:
    looked = {str(path.relative_to(PLUGIN)) for path in static.plugin_programs()}
    assert {"sbatch", "mirage-handover", "hooks/mirage-rerun", "hooks/mirage_push.py"} <= looked
    assert {str(path.relative_to(PLUGIN)) for path in PLUGIN.rglob("*.py")} <= looked
    assert set(static.carrier_pieces()) == {p.name for p in PLUGIN.glob("carrier*.sh")}


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
    if shutil.which("shellcheck") is None:
        needed.absent("shellcheck is not installed (Debian's package shellcheck)")
    shutil.copytree(PLUGIN, tmp_path / "plugin")
    piece = tmp_path / "plugin" / "carrier_loops.sh"
    piece.write_text(f"{piece.read_text()}mirage_faulty() {{\n    rm -r $mirage_dir/x\n}}\n")
    line = piece.read_text().count("\n") - 1
    monkeypatch.setattr(static, "PLUGIN", tmp_path / "plugin")
    (told,) = static.complaints_of_carrier()
    assert told.startswith(f"slurm_plugin/carrier_loops.sh:{line}: ")
    assert told.endswith("[SC2086]")


def test_where_shellcheck_is_absent_that_is_said_and_fails_in_ci_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for ci, code in (("", 0), ("true", 1)):
        monkeypatch.setenv("CI", ci)
        assert static.main() == code
        assert "left out: shellcheck" in capsys.readouterr().err
