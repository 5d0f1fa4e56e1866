"""A site that keeps jobs private: a real Slurm, its service, and the users alice, bob and carol."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from mirage.domain.callers.request_signing import build_signed_text
from tests.support.paths import CHECKOUT
from tests.support.patient import PATIENCE_S
from tests.support.slurm_testbed import Testbed, TestbedSettings, python_for_users

PORT = 6499
URL = f"http://127.0.0.1:{PORT}"
KEY = Path("/etc/slurm/mirage-test-jwt.key")
SETTINGS = TestbedSettings(
    extra=(
        "PrivateData=jobs,usage",
        "AuthAltTypes=auth/jwt",
        f"AuthAltParameters=jwt_key={KEY}",
    )
)
COORDINATOR, ACCOUNT = "carol", "research"
"""carol coordinates this account, to which alice and bob belong; she belongs to another."""

_SCRIPT = "#!/bin/sh\nsleep 600\n"


@dataclass
class Site:
    testbed: Testbed
    root: Path
    settings: TestbedSettings
    service: subprocess.Popen[str] | None = None

    @classmethod
    def set_up(
        cls, testbed: Testbed, settings: TestbedSettings = SETTINGS, *, fresh: bool = False
    ) -> Site:
        """Start Slurm with a key for tokens, and make carol the coordinator of ACCOUNT.

        `fresh`: remove the jobs of earlier tests.
        """
        KEY.parent.mkdir(exist_ok=True)
        if not KEY.exists():  # slurmctld reads it once, and may run since an earlier test
            KEY.touch(mode=0o640)
            KEY.write_bytes(os.urandom(32))
        shutil.chown(KEY, "slurm")
        testbed.up(settings, fresh=fresh)  # which makes the accounts
        shutil.chown(KEY, "slurm", pwd.getpwnam("mirage").pw_gid)
        testbed.cancel_all()
        site = cls(testbed, Path(tempfile.mkdtemp(prefix="mirage-site-")), settings)
        site.root.chmod(0o755)
        shutil.copytree(CHECKOUT / "slurm_plugin", site.root / "slurm_plugin")
        for user in ("alice", "bob", "carol", "mirage"):
            home = site.root / user
            home.mkdir()
            shutil.chown(home, user)
            (home / "job.sh").write_text(_SCRIPT)
        site.accounting("add", "coordinator")
        return site

    def strike(self) -> None:
        self.stop_service()
        self.testbed.cancel_all()
        self.accounting("delete", "coordinator")
        shutil.rmtree(self.root)

    def accounting(self, *words: str) -> None:
        argv = ["sacctmgr", "-i", *words, f"account={ACCOUNT}", f"names={COORDINATOR}"]
        self.testbed.run(argv)

    # The service, as Operator

    def start_service(self, *, history_s: int = 300) -> None:
        home = self.root / "mirage"
        (home / "mirage.toml").write_text(
            'log_format = "console"\n'
            f'[cluster]\nname = "testbed"\n[service]\nport = {PORT}\nstate_dir = "{home}"\n'
            f'socket = "{home}/socket"\n'
            f'[auth]\njwt_key_file = "{KEY}"\n[polling]\nqueue_s = 1\n'
            f"history_s = {history_s}\n"
        )
        self.mirage("db", "upgrade", user="mirage")
        with (home / "serve.log").open("w") as log:
            self.service = self.popen("serve", user="mirage", log=log)
        self.testbed.wait_until(self._is_ready, 30, "the service to be ready")

    def stop_service(self) -> None:
        if self.service is not None:
            end(self.service)
            self.service = None

    def _is_ready(self) -> bool:
        assert self.service is not None
        assert self.service.poll() is None, self.log()
        return answers(f"{URL}/readyz")

    def log(self) -> str:
        return (self.root / "mirage" / "serve.log").read_text()

    def audit(self) -> list[dict[str, Any]]:
        """Return the audit's rows from the database, oldest first."""
        with closing(sqlite3.connect(self.root / "mirage" / "mirage.db")) as db:
            rows = db.execute("SELECT actor, event, chain_id, detail FROM audit ORDER BY id")
            names = ("actor", "event", "chain_id", "detail")
            return [dict(zip(names, row, strict=True)) for row in rows]

    # Users

    def environment(self, user: str) -> dict[str, str]:
        home = self.root / user
        _, environment = python_for_users()
        variables = {"HOME": str(home), "COLUMNS": "200", "MIRAGE_STATE_DIR": str(home / "chains")}
        if user == "mirage":
            variables["MIRAGE_CONFIG"] = str(home / "mirage.toml")
        return environment | variables | {"MIRAGE_URL": URL}

    def mirage(
        self, *words: str, user: str, check: bool = True, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of `mirage` as that user."""
        python, _ = python_for_users()
        environment = self.environment(user) | more
        argv = [python, "-m", "mirage", *words]
        home = self.root / user
        return self.testbed.run(argv, user=user, check=check, env=environment, cwd=home)

    def popen(self, *words: str, user: str, log: Any, **more: str) -> subprocess.Popen[str]:
        python, _ = python_for_users()
        return self.testbed.popen(
            [python, "-m", "mirage", *words],
            user=user,
            env=self.environment(user) | more,
            cwd=self.root / user,
            output=log,
        )

    def run(
        self, argv: Sequence[str], *, user: str, check: bool = True, **more: str
    ) -> subprocess.CompletedProcess[str]:
        environment = self.environment(user) | more
        return self.testbed.run(argv, user=user, check=check, env=environment, cwd=self.root / user)

    def submit_chain(self, user: str, *words: str, **more: str) -> str:
        """Submit a chain with the wrapped sbatch, which registers it; return the chain's id."""
        argv = [str(self.root / "slurm_plugin" / "sbatch"), "--parsable", "--mirage-chain=3"]
        argv += ["--time=30", "-n1", "--output=/dev/null", *words]
        argv.append(str(self.root / user / "job.sh"))
        result = self.run(argv, user=user, check=True, **more)
        comment = self.testbed.job(int(result.stdout))["Comment"]
        return comment.rpartition("mirage:")[2].partition(":")[0]

    def token(self, user: str, *words: str) -> str:
        """Return a token of Slurm, made by `scontrol token`."""
        result = self.run(["scontrol", "token", *words], user=user)
        return result.stdout.strip().removeprefix("SLURM_JWT=")

    def ask(self, method: str, path: str, token: str, body: bytes = b"") -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        with httpx.Client(trust_env=False, timeout=PATIENCE_S) as http:
            return http.request(method, f"{URL}/api/v1{path}", headers=headers, content=body)

    def munge(self, user: str, method: str, path: str, *, ttl: int | None = None) -> str:
        """Return the header's value with a MUNGE credential of `user`; the request has no body."""
        signed_text = build_signed_text(method, f"/api/v1{path}", b"", "testbed")
        words = ["munge", *([] if ttl is None else [f"--ttl={ttl}"])]
        return "MUNGE " + self.testbed.run(words, user=user, input=signed_text).stdout.strip()

    def sack(
        self, user: str, method: str, path: str, *, reader: str = "mirage", socket: str = ""
    ) -> str:
        """Return a credential of Slurm's own socket, or of the one at `socket`, as `munge` does.

        `reader`: the user who may verify it.
        """
        signed_text = build_signed_text(method, f"/api/v1{path}", b"", "testbed")
        uid = pwd.getpwnam(reader).pw_uid
        program = (
            "import os, sys; from mirage_slurm.client import sack; "
            f"print(sack.create_credential(sys.stdin.read(), {uid}, os.environ, {PATIENCE_S}))"
        )
        environment = {"PYTHONPATH": str(self.root / "slurm_plugin"), "SLURM_SACK_SOCKET": socket}
        words = ["/usr/bin/python3", "-BSc", program]
        process = self.testbed.run(words, user=user, input=signed_text, env=environment)
        return f"SACK {process.stdout.strip()}"

    def send(self, method: str, path: str, credential: str) -> httpx.Response:
        """Send a request with this value of the header Authorization."""
        with httpx.Client(trust_env=False, timeout=PATIENCE_S) as http:
            headers = {"Authorization": credential}
            return http.request(method, f"{URL}/api/v1{path}", headers=headers)

    def chain_jobs(self, chain_id: str) -> dict[int, str]:
        """Return, by job id, the owner of each queued job with this chain's mark, as root sees."""
        lines = self.testbed.run(["squeue", "-h", "-O", "JobID:20,UserName:20,Comment:200"]).stdout
        rows = [line.split(maxsplit=2) for line in lines.splitlines()]
        return {int(r[0]): r[1] for r in rows if len(r) > 2 and f"mirage:{chain_id}:" in r[2]}

    def links(self, chain_id: str, user: str) -> list[dict[str, Any]]:
        """Return the links that the service shows to `user`; none before it knows the chain."""
        answer = self.ask("GET", f"/chains/{chain_id}", self.token(user))
        links: list[dict[str, Any]] = answer.json().get("links", [])
        return links


def answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=5).is_success
    except httpx.HTTPError:
        return False


def end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
