"""Fake Slurm commands: real processes, first on PATH, whose answers a test sets."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

_SCRIPT = """#!{python} -IS
import json, os, re, sys, time
settings = json.loads({settings!r})
with open(settings["log"], "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if "--helpformat" in sys.argv and settings["helpformat"]:
    sys.stdout.write(settings["helpformat"])
    sys.exit(0)
time.sleep(settings["seconds"])
form = [*sys.argv, "--Format=" + os.environ.get("SQUEUE_FORMAT2", "")]
match = re.search(r"(?:Format=\\w+:|delimiter=)([^,]*)", "\\n".join(form))
texts = settings["texts"] if any("Comment" in word for word in sys.argv) else ""
separator = match.group(1).split("\\n")[0] if match else ""
by_argument = settings["by_argument"]
special = next((by_argument[word] for word in sys.argv if word in by_argument), "")
out = (special or texts or settings["stdout"]).replace(settings["separator"], separator).encode()
sys.stdout.buffer.write(out[: len(out) - settings["cut"]])
sys.stderr.write(settings["stderr"])
sys.exit(settings["code"])
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
        by_argument: Mapping[str, str] | None = None,
    ) -> None:
        """Set the answer of the command `name`; in `stdout` `|` stands for the caller's separator.

        `texts`: the answer to a call that asks for the texts of users (sacct). `by_argument`: the
        answer to a call that has this argument, such as `--jobs=7`.
        """
        settings = {
            "log": str(self._log(name)),
            "stdout": stdout,
            "separator": "|",
            "stderr": stderr,
            "code": code,
            "seconds": seconds,
            "cut": cut,
            "helpformat": helpformat,
            "texts": texts,
            "by_argument": dict(by_argument or {}),
        }
        self.runs(name, _SCRIPT.format(python=sys.executable, settings=json.dumps(settings)))

    def runs(self, name: str, script: str) -> None:
        """Set the script that runs as the command `name`."""
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
