"""`mirage plugin path`: the line for a profile makes `sbatch` the wrapped one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_line_puts_the_wrapped_sbatch_first(tmp_path: Path) -> None:
    line = subprocess.run(
        [sys.executable, "-m", "mirage", "plugin", "path"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert line.count("\n") == 1
    done = subprocess.run(
        ["sh", "-c", f"{line}command -v sbatch; command -v mirage-link; sbatch --mirage-help"],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    ).stdout.splitlines()
    assert [Path(word).name for word in done[:2]] == ["sbatch", "mirage-link"]
    assert Path(done[0]).with_name("carrier.sh").exists()
    assert "runs as a chain of jobs" in done[2]
