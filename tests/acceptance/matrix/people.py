"""A site with everybody of the matrix, and how each of them speaks to the service."""

from __future__ import annotations

import base64
import hmac
import itertools
import json
import os
import pwd
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.support.identity.site import COORDINATOR, URL, Site
from tests.support.patient import PATIENCE_S
from tests.support.slurm_testbed import Testbed

USERS = {
    "stranger": "nobody",
    "bob": "bob",
    "alice": "alice",
    "coordinator": COORDINATOR,
    "Operator": "oscar",
    "admin": "ada",
    "alice elsewhere": "alice",
}
"""By actor: the Unix user. `nobody` has no account in Slurm."""
OPERATOR, ADMIN = USERS["Operator"], USERS["admin"]
IN_SLURM = ("bob", "alice", "coordinator", "Operator", "admin")
ELSEWHERE = "https://elsewhere.example.org"

# Its links last until the test lets them end, and say that they ran.
JOB = """#!/bin/sh
echo "$SLURM_JOB_ID" >"{home}/ran-$MIRAGE_CHAIN_ID-$MIRAGE_LINK"
until [ -e "{home}/end-$MIRAGE_CHAIN_ID-$MIRAGE_LINK" ]; do sleep 0.5; done
"""


@dataclass(frozen=True, slots=True)
class Said:
    """What came of one thing that an actor did."""

    ok: bool
    text: str


@dataclass
class People(Site):
    tokens: dict[str, str] = field(default_factory=dict)
    """Slurm's JSON web tokens, by actor; of the stranger some that are no good."""
    browsers: dict[str, httpx.Client] = field(default_factory=dict)
    http: httpx.Client = field(
        default_factory=lambda: httpx.Client(trust_env=False, timeout=PATIENCE_S)
    )
    _bad: Iterator[str] = field(default_factory=lambda: iter(()))

    @classmethod
    @contextmanager
    def at(cls, testbed: Testbed) -> Iterator[People]:
        """The site, its service, and credentials for everybody, until the end."""
        made = cls.set_up(testbed, fresh=True)
        assert isinstance(made, People)
        try:
            made._add_people()
            made._give_time_to_register()
            made.start_service()
            made.testbed.wait_until(made._knows_everybody, 120, "the service to know Slurm's roles")
            made._log_in()
            yield made
        finally:
            for client in (made.http, *made.browsers.values()):
                client.close()
            made._take_away_people()
            made.strike()

    def environment(self, user: str) -> dict[str, str]:
        more = {}
        if user == "mirage":
            more = {
                "MIRAGE_SERVICE_ADMINS": ADMIN,
                "MIRAGE_PROVISION_POLICY": "reactive",  # the twin would be compiled first
                "MIRAGE_PROVISION_MAX_CHAINS_PER_USER": "1000",
            }
        return super().environment(user) | more

    # Setting up

    def _add_people(self) -> None:
        for user in (OPERATOR, ADMIN):
            with suppress(KeyError):
                pwd.getpwnam(user)
                continue
            self.testbed.run(["useradd", "--create-home", "--shell", "/bin/sh", user])
        words = ["sacctmgr", "-i", "-Q", "add", "user"]
        self.testbed.run([*words, f"{OPERATOR},{ADMIN}", "account=students"], check=False)
        level = ["sacctmgr", "-i", "modify", "user", OPERATOR, "set", "adminlevel=Operator"]
        self.testbed.run(level)
        for user in dict.fromkeys(USERS.values()):
            home = self.root / user
            home.mkdir(exist_ok=True)
            (home / "job.sh").write_text(JOB.format(home=home))
            entry = pwd.getpwnam(user)
            for path in (home, home / "job.sh"):
                os.chown(path, entry.pw_uid, entry.pw_gid)

    def _take_away_people(self) -> None:
        for user in (OPERATOR, ADMIN):
            self.testbed.run(["scancel", "--quiet", "-u", user], check=False)
            self.testbed.run(["sacctmgr", "-i", "-Q", "delete", "user", user], check=False)
            self.testbed.run(["userdel", "--force", "--remove", user], check=False)

    def _give_time_to_register(self) -> None:
        """The plugin waits two seconds for the service: on a busy machine that may be too short."""
        module = self.root / "slurm_plugin/mirage_slurm/client/request.py"
        text, found = re.subn(r"(?m)^LIMIT_S = .*$", "LIMIT_S = 60.0", module.read_text())
        assert found == 1
        module.write_text(text)

    def _knows_everybody(self) -> bool:
        self.tokens = {actor: self.token(USERS[actor], "lifespan=3600") for actor in IN_SLURM}
        self._bad = itertools.cycle(self._bad_tokens())
        private = self.http.get(f"{URL}/api/v1/chains").status_code == httpx.codes.UNAUTHORIZED
        operator = self.api("Operator", "GET", "/audit?limit=1").ok
        return private and operator and self.api("admin", "GET", "/audit?limit=1").ok

    def _bad_tokens(self) -> tuple[str, ...]:
        """Of Mirage's own form, with alice's name and a signature of another key, and cut off."""
        claims = {"exp": int(time.time()) + 3600, "iat": int(time.time()), "sun": "alice"}
        head = f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part(claims)}"
        tail = base64.urlsafe_b64encode(hmac.new(b"guess" * 8, head.encode(), "sha256").digest())
        return (
            "mirage_0123456789_" + "x" * 43,
            f"{head}.{tail.rstrip(b'=').decode()}",
            self.tokens["alice"].rpartition(".")[0] + ".",
        )

    def _log_in(self) -> None:
        """A session for each, of a token that an admin made."""
        made = {actor: self._own_token(USERS[actor]) for actor in IN_SLURM}
        for actor in ("no credential", "stranger", *IN_SLURM):
            browser = self.browsers[actor] = httpx.Client(
                base_url=URL, trust_env=False, timeout=PATIENCE_S, headers={"Accept": "text/html"}
            )
            if actor in made:
                token, _ = made[actor].communicate()
                assert made[actor].returncode == 0
                self._log_in_one(browser, token.strip())
        name = next(iter(self.browsers["alice"].cookies.jar)).name
        self.browsers["stranger"].cookies.set(name, "x" * 43)
        self.browsers["alice elsewhere"] = httpx.Client(
            base_url=URL,
            trust_env=False,
            timeout=PATIENCE_S,
            headers={"Accept": "text/html", "Origin": ELSEWHERE, "Sec-Fetch-Site": "cross-site"},
            cookies=self.browsers["alice"].cookies,
        )

    def _own_token(self, user: str) -> subprocess.Popen[str]:
        words = ("token", "create", f"of-{user}", "--role", "admin", "--user", user)
        return self.popen(*words, user="mirage", log=None)

    def _log_in_one(self, browser: httpx.Client, token: str) -> None:
        answer = browser.post("/login", data={"token": token}, headers={"Origin": URL})
        assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
        browser.headers["Origin"] = URL

    # What they do

    def api(self, actor: str, method: str, path: str, body: object = None) -> Said:
        headers = {"Content-Type": "application/json"}
        client = self.http
        if actor == "alice elsewhere":
            client = self.browsers[actor]
        elif actor != "no credential":
            token = next(self._bad) if actor == "stranger" else self.tokens[actor]
            headers["Authorization"] = f"Bearer {token}"
        content = b"" if body is None else json.dumps(body).encode()
        url = f"{URL}/api/v1{path}"
        return _said(_patiently(client, method, url, content=content, headers=headers))

    def page(self, actor: str, method: str, path: str) -> Said:
        return _said(_patiently(self.browsers[actor], method, path))

    def by_hand(self, actor: str, *argv: str, **more: str) -> Said:
        """A command of the actor's, from their own directory."""
        done = self.run(argv, user=USERS[actor], check=False, **more)
        return Said(done.returncode == 0, (done.stdout + done.stderr).strip())

    def shell(self, actor: str, script: str, **more: str) -> Said:
        return self.by_hand(actor, "sh", "-c", script, **more)

    def new_ids(self, actor: str, number: int) -> list[str]:
        """Ids of chains as the wrapped sbatch makes them, tied to that user."""
        program = (
            "import sys; sys.path.insert(0, sys.argv[1]); from mirage_slurm.wrapper import chain\n"
            "for _ in range(int(sys.argv[2])): print(chain.make_id())"
        )
        plugin = str(self.root / "slurm_plugin")
        argv = ("/usr/bin/python3", "-c", program, plugin, str(number))
        return self.run(argv, user=USERS[actor]).stdout.split()

    def home(self, actor: str) -> Path:
        return self.root / USERS[actor]

    def directory(self, chain_id: str) -> Path:
        """Of a chain of alice's."""
        return self.home("alice") / "chains" / chain_id


def _patiently(client: httpx.Client, method: str, url: str, **more: Any) -> httpx.Response:
    """Again where the service asks for a pause: how much one may ask is another test's matter."""
    while True:
        answer = client.request(method, url, **more)
        if answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
            return answer
        time.sleep(float(answer.headers.get("Retry-After", 1)))


def _said(answer: httpx.Response) -> Said:
    """A page sends on to /login whoever it does not know, and back to itself whoever it obeyed."""
    to_login = "/login" in answer.headers.get("Location", "")
    ok = (answer.is_success or answer.is_redirect) and not to_login
    return Said(ok, f"{answer.status_code} {answer.headers.get('Location', '')} {answer.text}")


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
