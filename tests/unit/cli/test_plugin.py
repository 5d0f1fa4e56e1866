"""`mirage plugin path`: the line for a profile makes `sbatch` the wrapped one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirage.shipped_files import load_client_module

plugin_path = load_client_module("command.plugin_path")


def test_the_line_puts_the_wrapped_sbatch_first(tmp_path: Path) -> None:
    line = subprocess.run(
        [sys.executable, "-m", "mirage", "plugin", "path"],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "SHELL": "/bin/sh"},
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
    assert Path(done[0]).with_name("mirage_slurm").is_dir()
    assert "runs as a chain of jobs" in done[2]


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("/bin/tcsh", "setenv PATH '/opt/it'\"'\"'s \\!':\"$PATH\""),
        ("/usr/local/bin/csh", "setenv PATH '/opt/it'\"'\"'s \\!':\"$PATH\""),
        ("/bin/bash", "export PATH='/opt/it'\"'\"'s !':\"$PATH\""),
        ("/usr/bin/zsh", "export PATH='/opt/it'\"'\"'s !':\"$PATH\""),
        ("fish", "set -gx PATH '/opt/it\\'s !' $PATH"),
        ("", "export PATH='/opt/it'\"'\"'s !':\"$PATH\""),
    ],
)
def test_the_line_is_in_the_words_of_the_login_shell(shell: str, line: str) -> None:
    assert plugin_path.format_path_line("/opt/it's !", shell) == line


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", 'export PATH=/opt/m:"$PATH":/home/a/bin'),
        ("zsh", 'export PATH=/opt/m:"$PATH":/home/a/bin'),
        ("ksh", 'export PATH=/opt/m:"$PATH":/home/a/bin'),
        ("tcsh", 'setenv PATH /opt/m:"$PATH":/home/a/bin'),
        ("fish", "set -gx PATH '/opt/m' $PATH '/home/a/bin'"),
    ],
)
def test_the_environments_own_commands_come_last(shell: str, line: str) -> None:
    """Its python must not be in front of the user's."""
    assert plugin_path.format_path_line("/opt/m", shell, "/home/a/bin") == line


def test_a_shell_of_other_words_gets_a_sentence_and_no_line() -> None:
    """Its login shell may be one, such as xonsh, or none, such as nologin."""
    words = [sys.executable, "-m", "mirage", "plugin", "path"]
    environ = {**os.environ, "SHELL": "/usr/bin/xonsh"}
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert "knows no line for the shell xonsh: put the folder /" in done.stderr
