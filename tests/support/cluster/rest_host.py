"""The real slurmrestd of the testbed: an unprivileged user's, on a unix socket and on TCP."""

import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mirage.slurm.clients.cli.client import SlurmCli
from mirage.slurm.clients.restd.client import Slurmrestd
from mirage.slurm.clients.restd.http import RestHttp
from mirage.slurm.clients.restd.token import RestToken, TokenFile, parse_token
from mirage.slurm.restd import envelope
from tests.support.slurm_testbed import Testbed, TestbedFailure

_LIFE_S = 1800
_USER = "nobody"


@dataclass(kw_only=True)
class RestHost:
    testbed: Testbed
    socket: str
    tcp: str
    folder: Path
    _files: dict[str, Path] = field(default_factory=dict)

    def token(self, user: str, life_s: int = _LIFE_S) -> RestToken:
        argv = ["scontrol", "token", f"username={user}", f"lifespan={life_s}"]
        return parse_token(self.testbed.run(argv).stdout)

    def token_file(self, user: str) -> Path:
        """Return the file of the user's token, made once a session: a token takes a while."""
        if user not in self._files:
            path = self.folder / f"{user}.jwt"
            path.touch(mode=0o600)
            path.write_text(self.token(user).text)
            self._files[user] = path
        return self._files[user]

    def cluster(
        self, user: str = "mirage", *, commands: SlurmCli | None = None, url: str = ""
    ) -> Slurmrestd:
        return Slurmrestd(
            RestHttp(url or self.socket, identity=TokenFile(self.token_file(user)).load_token),
            commands=commands,
        )

    def versions(self) -> list[str]:
        """List the versions of the API that it serves and Mirage reads."""
        document = str(self.cluster().http.get("/openapi/v3", "openapi").body)
        return [
            version for version in envelope.SUPPORTED_VERSIONS if f"/slurm/{version}/" in document
        ]


def build_version_options(testbed: Testbed, version: str) -> list[str]:
    """Build the options by which a slurmrestd serves that version alone."""
    help_text = testbed.run(["slurmrestd", "--help"], check=False)
    if re.search(r"^\s*-d ", help_text.stdout + help_text.stderr, re.MULTILINE):
        return ["-d", version]
    return ["-s", f"openapi/{version},openapi/db{version}"]


@contextmanager
def running_slurmrestd(testbed: Testbed, *options: str) -> Iterator[RestHost]:
    """Run a slurmrestd until the end of the block. Without `options` it serves all versions."""
    folder = Path(tempfile.mkdtemp(prefix="mirage-restd-"))
    folder.chmod(0o711)
    sockets = folder / "sockets"
    sockets.mkdir()
    shutil.chown(sockets, _USER)
    path, port = sockets / "restd", _free_port()
    listen = [f"unix:{path}", f"127.0.0.1:{port}"]
    with (folder / "log").open("w") as log:
        argv = ["slurmrestd", "-a", "rest_auth/jwt", *options, *listen]
        process = testbed.popen(
            argv, user=_USER, env={"SLURM_JWT": "daemon"}, cwd=Path("/"), output=log
        )
        try:
            _wait(testbed, path, process, folder / "log")
            yield RestHost(
                testbed=testbed,
                socket=f"unix:{path}",
                tcp=f"http://127.0.0.1:{port}",
                folder=folder,
            )
        finally:
            process.terminate()
            process.wait(10)
            shutil.rmtree(folder, ignore_errors=True)


def _wait(testbed: Testbed, path: Path, process: subprocess.Popen[str], log: Path) -> None:
    testbed.wait_until(lambda: path.is_socket() or process.poll() is not None, 20, "slurmrestd")
    if process.poll() is not None:
        raise TestbedFailure(f"slurmrestd ended:\n{log.read_text()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
