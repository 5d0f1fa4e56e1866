"""A real Slurm with Mirage's hooks. A test installs and removes each of them."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from tests import needed
from tests.support.paths import PLUGIN
from tests.support.slurm_testbed import Testbed, TestbedSettings

WITH_LUA = TestbedSettings(extra=("JobSubmitPlugins=lua", "CliFilterPlugins=lua"))
CONF = Path("/etc/slurm")
STACK = CONF / "plugstack.conf.d" / "mirage.conf"
LOADERS = ("cli_filter.lua", "job_submit.lua")
NOBODY = "http://127.0.0.1:9"  # nothing listens there
SHIPPED = "/opt/mirage/slurm_plugin/hooks"
NO_SUCH = "/nonexistent/hooks"
JOB = "#!/bin/sh\n#SBATCH --time=5 --output=/dev/null\n"
TRUE = JOB + "true\n"
DIRECTIVE = JOB.replace("--time", "--mirage-chain=2 --time") + "true\n"
MIRAGE_LINE = JOB + "#MIRAGE --chain=2\ntrue\n"
COMMENT_LINE = JOB + "#SBATCH --comment='mine mirage:chain=2'\ntrue\n"
SCRIPTS = {
    "job.sh": TRUE,
    "directive.sh": DIRECTIVE,
    "line.sh": MIRAGE_LINE,
    "comment.sh": COMMENT_LINE,
}

Form = tuple[list[str], str | None, dict[str, str]]
"""sbatch's words, its standard input (a name: that file; text: a pipe), its environment."""
BOTH: list[Form] = [
    (["--mirage-chain=2", "job.sh", "an argument"], None, {}),
    (["--mirage-chain", "2", "--wrap", "true 'a  b'"], None, {}),
    (["job.sh"], None, {"MIRAGE_CHAIN": "2"}),
    (["--mirage-chain=2"], "job.sh", {}),
    (["--mirage-chain=2"], TRUE, {}),
    ([], TRUE, {"MIRAGE_CHAIN": "2"}),
    (["--mirage-chain=2", "-N1", ":", "-N1", "job.sh"], None, {}),
]
OF_SPANK: list[Form] = [
    *BOTH,
    (["directive.sh", "--mirage-chain=9"], None, {}),
    ([], "directive.sh", {}),
    (["--export=NONE", "directive.sh"], None, {"MIRAGE_CHAIN": "2"}),
]
OF_CLI: list[Form] = [
    *BOTH,
    (["line.sh"], None, {}),
    ([], "line.sh", {}),
    (["comment.sh"], None, {}),
    (["--comment=mirage:chain=2"], TRUE, {}),
    (["--comment", "mirage:chain=2", "job.sh"], None, {}),
]


def compiled(folder: Path) -> Path:
    """Build the SPANK plugin as a site does."""
    process = subprocess.run(["make", "-C", folder], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    return folder / "mirage_spank.so"


@dataclass(frozen=True, slots=True)
class Hooked:
    """alice's sbatch, never with a wrapper on PATH, and the plugin where all may read it."""

    testbed: Testbed
    root: Path
    home: Path

    @classmethod
    def at(cls, testbed: Testbed) -> Hooked:
        root = Path(tempfile.mkdtemp(prefix="mirage-hooks-", dir="/var/tmp"))  # not root's alone
        root.chmod(0o755)
        scene = cls(testbed, root, Path(pwd.getpwnam("alice").pw_dir) / root.name)
        scene.install()
        compiled(root / "plugin" / "spank")
        scene.spank(None)
        scene.load_cli(NO_SUCH)
        scene.load_submit(NO_SUCH)
        scene.home.mkdir()
        scene.own(scene.home)
        return scene

    def install(self) -> Path:
        """Install a whole plugin over one that a test may have broken; compiled files stay."""
        without_caches = shutil.ignore_patterns("__pycache__")
        return Path(shutil.copytree(PLUGIN, self.plugin, dirs_exist_ok=True, ignore=without_caches))

    def remove(self) -> None:
        for path in (STACK, *(CONF / name for name in LOADERS)):
            path.unlink(missing_ok=True)
        for folder in (self.root, self.home):
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def plugin(self) -> Path:
        return self.root / "plugin"

    @property
    def hooks(self) -> str:
        return str(self.plugin / "hooks")

    def own(self, path: Path, user: str = "alice") -> None:
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)

    def spank(self, plugin: Path | str | None, wrapper: Path | None = None) -> None:
        """Load this SPANK plugin from now on; None loads none."""
        STACK.parent.mkdir(exist_ok=True)
        line = f"optional {plugin} wrapper={wrapper or self.plugin / 'sbatch'}\n"
        STACK.write_text("" if plugin is None else line)

    def spank_on(self) -> None:
        self.spank(self.plugin / "spank" / "mirage_spank.so")

    def load_cli(self, hooks: str) -> None:
        """Install the shipped cli_filter.lua with what it loads at another place."""
        text = (PLUGIN / "hooks" / "cli_filter.lua").read_text()
        assert SHIPPED in text
        (CONF / "cli_filter.lua").write_text(text.replace(SHIPPED, hooks))

    def load_submit(self, hooks: str) -> None:
        """Install job_submit.lua so that slurmctld sees it is newer: it counts in seconds."""
        path = CONF / "job_submit.lua"
        text = (PLUGIN / "hooks" / "job_submit.lua").read_text()
        assert SHIPPED in text
        later = max(time.time(), path.stat().st_mtime if path.exists() else 0) + 10
        path.write_text(text.replace(SHIPPED, hooks))
        os.utime(path, (later, later))

    def all_off(self) -> None:
        self.spank(None)
        self.load_cli(NO_SUCH)

    def write(self, name: str, text: str) -> None:
        (self.home / name).write_text(text)
        self.own(self.home / name)

    def sbatch(
        self,
        *words: str,
        stdin: str | Path | None = None,
        env: dict[str, str] | None = None,
        user: str = "alice",
        program: str = "sbatch",
    ) -> subprocess.CompletedProcess[str]:
        """Run sbatch. `stdin`: text comes through a pipe, a path is opened."""
        variables = {"MIRAGE_STATE_DIR": f"{self.home}/state", "MIRAGE_URL": NOBODY, **(env or {})}
        if isinstance(stdin, Path):
            command = 'exec sbatch "$@" <"$0"'
            words, stdin = (str(stdin), *words), None
        else:
            command = 'exec "$0" "$@"'
            words = (program, *words)
        return self.testbed.run(
            ["/bin/sh", "-c", command, *words],
            user=user,
            check=False,
            input=stdin,
            cwd=self.home if user == "alice" else Path("/"),
            env=variables,
        )

    def call(self, form: Form, *more: str) -> subprocess.CompletedProcess[str]:
        words, stdin, env = form
        source = self.home / stdin if stdin in SCRIPTS else stdin
        return self.sbatch(*more, *words, stdin=source, env=env)

    def job(self, process: subprocess.CompletedProcess[str]) -> dict[str, str]:
        """Return what Slurm shows of the submitted job."""
        assert process.returncode == 0, process.stderr
        assert process.stdout.startswith("Submitted batch job "), process
        return self.testbed.job(int(process.stdout.split()[3]))

    def chains(self) -> list[Path]:
        state = self.home / "state"
        return sorted(state.iterdir()) if state.is_dir() else []

    def forget_chains(self) -> None:
        shutil.rmtree(self.home / "state", ignore_errors=True)

    def stored_script(self, job: int) -> str:
        return self.testbed.run(["scontrol", "write", "batch_script", str(job), "-"]).stdout


@contextmanager
def service(answer: bytes | None) -> Iterator[str]:
    """Run a service that gives this answer to each call; None: it accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connections: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connections.append(connection)
                if answer is not None:
                    with suppress(OSError):  # a peer that only probed the port is gone by now
                        connection.sendall(answer)
                        connection.shutdown(socket.SHUT_WR)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        for connection in connections:
            connection.close()


@contextmanager
def set_up_hooks(testbed: Testbed) -> Iterator[Hooked]:
    """Yield a Slurm with Lua plugins and a compiled SPANK plugin; afterwards restore it."""
    if missing := {"gcc", "libc6-dev", "libslurm-dev", "make"} & set(needed.missing()):
        needed.absent(f"the SPANK plugin cannot be compiled without {', '.join(sorted(missing))}")
    with ExitStack() as stack:
        testbed.up()  # makes the users
        scene = Hooked.at(testbed)
        stack.callback(scene.remove)
        testbed.up(WITH_LUA)
        yield scene
        testbed.cancel_all()
        testbed.up()
