"""Fake Slurm commands: real processes, first on PATH, that answer as they are told."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

_SCRIPT = """#!{python} -IS
import json, os, re, sys, time
told = json.loads({told!r})
with open(told["log"], "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if "--helpformat" in sys.argv and told["helpformat"]:
    sys.stdout.write(told["helpformat"])
    sys.exit(0)
time.sleep(told["seconds"])
form = [*sys.argv, "--Format=" + os.environ.get("SQUEUE_FORMAT2", "")]
asked = re.search(r"(?:Format=\\w+:|delimiter=)([^,]*)", "\\n".join(form))
texts = told["texts"] if any("Comment" in word for word in sys.argv) else ""
separator = asked.group(1).split("\\n")[0] if asked else ""
alone = next((told["asked"][word] for word in sys.argv if word in told["asked"]), "")
out = (alone or texts or told["stdout"]).replace(told["separator"], separator).encode()
sys.stdout.buffer.write(out[: len(out) - told["cut"]])
sys.stderr.write(told["stderr"])
sys.exit(told["code"])
"""


class FakeCommands:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def answers(  # noqa: PLR0913 what a command can do is much
        self,
        name: str,
        stdout: str = "",
        *,
        stderr: str = "",
        code: int = 0,
        seconds: float = 0.0,
        cut: int = 0,
        helpformat: str = "",
        texts: str = "",
        asked: Mapping[str, str] | None = None,
    ) -> None:
        """From now on `name` answers so; in `stdout` `|` stands for the separator asked for.

        `texts`: what it answers where it is asked for what users write (sacct). `asked`: what it
        answers to an argument, such as `--jobs=7`.
        """
        told = {
            "log": str(self._log(name)),
            "stdout": stdout,
            "separator": "|",
            "stderr": stderr,
            "code": code,
            "seconds": seconds,
            "cut": cut,
            "helpformat": helpformat,
            "texts": texts,
            "asked": dict(asked or {}),
        }
        self.runs(name, _SCRIPT.format(python=sys.executable, told=json.dumps(told)))

    def runs(self, name: str, script: str) -> None:
        """From now on `name` is this script."""
        part = self._folder / f"{name}.part"
        part.write_text(script)
        part.chmod(0o755)
        part.rename(self._folder / name)

    def calls(self, name: str) -> list[list[str]]:
        """The arguments of each call of `name` so far."""
        if not self._log(name).exists():
            return []
        return [json.loads(line) for line in self._log(name).read_text().splitlines()]

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"
