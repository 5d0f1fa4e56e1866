"""Writes what a real slurmrestd answers to moves to tests/data/slurmrestd-moves/<version>.json.

`.venv/bin/python deploy/testbed/capture_rest_moves.py`, as root, half a minute, in each release: a
file for each version that it serves and that no file is of. Each answer is kept with its status and
as it came, but for the OpenAPI document, jobs and records, of which what Mirage reads is kept.
"""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT))

from mirage.slurm.clients.restd.token import RestToken  # noqa: E402 - after the path
from mirage.slurm.restd import envelope  # noqa: E402
from tests.support.cluster.rest_host import RestHost, running_slurmrestd  # noqa: E402
from tests.support.slurm_testbed import Testbed, TestbedSettings  # noqa: E402

_DATA = _ROOT / "tests" / "data" / "slurmrestd-moves"
_KEPT = """
account allocation_nodes array comment cpus dependency eligible_time end_time exit_code het job_id
job_state name node_count nodes partition priority qos required_nodes start_time state state_reason
submit_time time time_limit tres tres_alloc_str tres_req_str user user_id user_name
"""
_WHOLLY = ("skip_steps", "show_duplicates", "disable_truncate_usage_time")


@dataclass
class Asker:
    """Asks in one version, and keeps the answers by name."""

    host: RestHost
    version: str
    answers: dict[str, Any] = field(default_factory=dict)

    def ask(
        self, name: str, method: str, path: str, *, body: Any = None, token: RestToken | None = None
    ) -> Any:
        headers = (token or self.host.token("mirage")).build_headers()
        status, raw = _exchange(self.host.socket, method, path, body, headers)
        answer = _trimmed(raw, self.version)
        self.answers[name] = {"status": status, "body": answer}
        return answer

    def job(self, name: str, method: str, job_id: int, **more: Any) -> Any:
        return self.ask(name, method, f"/slurm/{self.version}/job/{job_id}", **more)

    def records(self, name: str, *query: tuple[str, str]) -> Any:
        return self.ask(name, "GET", f"/slurmdb/{self.version}/jobs?{urlencode(query)}")


def main() -> int:
    testbed = Testbed()
    testbed.up(TestbedSettings(nodes=2), fresh=True)
    release = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True).stdout
    _DATA.mkdir(parents=True, exist_ok=True)
    try:
        with running_slurmrestd(testbed) as host:
            for version in _served(host):
                asker = Asker(host, version)
                _capture(testbed, asker)
                document = {"release": release.split()[-1], "answers": asker.answers}
                text = json.dumps(document, sort_keys=True, separators=(",", ":"))
                (_DATA / f"{version}.json").write_text(text + "\n")
    finally:
        testbed.down()
    return 0


def _served(host: RestHost) -> list[str]:
    document = Asker(host, "").ask("openapi", "GET", "/openapi/v3")
    versions = [
        version for version in envelope.SUPPORTED_VERSIONS if f"/slurm/{version}/" in str(document)
    ]
    return [version for version in versions if not (_DATA / f"{version}.json").exists()]


def _capture(testbed: Testbed, asker: Asker) -> None:
    asker.ask("openapi", "GET", "/openapi/v3")
    asker.ask("no-such-path", "GET", f"/slurm/{asker.version}/nowhere")
    first = testbed.sbatch("-N1", "--exclusive", "-t", "60")
    testbed.wait_until(lambda: testbed.state(first) == "RUNNING", 60, "the predecessor")
    standby = testbed.sbatch("-N1", "--exclusive", "-t", "60", f"--dependency=afterany:{first}")
    _moves(testbed, asker, first, standby)
    _history(testbed, asker, first, standby)
    _without_the_daemons(testbed, asker, standby)
    testbed.cancel_all()


def _moves(testbed: Testbed, asker: Asker, first: int, standby: int) -> None:
    nodes, later = testbed.job(first)["NodeList"], asker.version != envelope.EARLIEST
    key, bob = "required_nodes" if later else "nodelist", asker.host.token("bob")
    asker.job("held", "GET", standby)
    pin = {"dependency": "", key: [nodes] if later else nodes}
    asker.job("pin", "POST", standby, body=pin)
    asker.job("pinned", "GET", standby)
    behind = {"dependency": f"afterany:{first}"}
    asker.job("unpin-by-empty", "POST", standby, body={**behind, key: [] if later else ""})
    asker.job("after-unpin-by-empty", "GET", standby)
    asker.job("unpin", "POST", standby, body={**behind, key: [""] if later else ""})
    asker.job("unpinned", "GET", standby)
    asker.job("update-ignored", "POST", standby, body={"nonsense": 1})
    asker.job("update-refused", "POST", standby, body={"dependency": ""}, token=bob)
    asker.job("cancel-refused", "DELETE", standby, token=bob)
    asker.job("unknown", "GET", 999_999)
    asker.job("cancel-unknown", "DELETE", 999_999)
    ended = testbed.sbatch("-n1", "-t", "1", run="exit 7")
    testbed.wait_until(lambda: testbed.state(ended) == "FAILED", 60, "its end")
    asker.job("cancel-ended", "DELETE", ended)
    victim = testbed.sbatch("-n1", "-t", "5")
    testbed.wait_until(lambda: testbed.state(victim) == "RUNNING", 60, "the victim")
    asker.job("cancel", "DELETE", victim)
    asker.job("cancelled", "GET", victim)
    by_id = [("step", str(ended)), ("step", str(victim))]
    _kept_by_dbd(testbed, victim)
    asker.records("by-id", *by_id)
    asker.records("by-id-in-one", ("step", f"{ended},{victim}"))


def _kept_by_dbd(testbed: Testbed, job_id: int) -> None:
    argv = ["sacct", "-nXP", "-j", str(job_id), "-o", "State"]
    testbed.wait_until(
        lambda: testbed.run(argv).stdout.startswith("CANCELLED"), 60, "the victim's record"
    )


def _history(testbed: Testbed, asker: Asker, first: int, standby: int) -> None:
    """Of a window in which the first job ran and the second waited."""
    now = int(testbed.now())
    window = [("start_time", f"uts{now - 1}"), ("end_time", f"uts{now + 1}")]
    testbed.wait_until(lambda: testbed.now() > now + 1, 10, "the window's end")
    flags = [flag for flag in _WHOLLY if f"'{flag}'" in str(asker.answers["openapi"])]
    asker.records("window-cut", *window, *((flag, "true") for flag in flags[:2]))
    asker.records("window", *window, *((flag, "true") for flag in flags))
    asker.answers["jobs"] = {
        "running": first,
        "waiting": standby,
        "since": now - 1,
        "until": now + 1,
    }


def _without_the_daemons(testbed: Testbed, asker: Asker, standby: int) -> None:
    token = asker.host.token("mirage")
    forged = replace(token, text=f"{token.text[:-4]}AAAA")
    asker.job("forged-token", "GET", standby, token=forged)
    testbed.stop_dbd()
    asker.records("dbd-away", ("step", str(standby)))
    testbed.start_dbd()
    testbed.stop_ctld()
    asker.job("ctld-away", "GET", standby, token=token)
    testbed.start_ctld()


def _exchange(
    address: str, method: str, path: str, body: Any, headers: Mapping[str, str]
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(address.removeprefix("unix:"))
    raw = None if body is None else json.dumps(body)
    more = {"Accept": "application/json", "Content-Type": "application/json"}
    connection.request(method, path, raw, more | dict(headers))
    answer = connection.getresponse()
    try:
        return answer.status, answer.read()
    finally:
        connection.close()


def _trimmed(raw: bytes, version: str) -> Any:
    try:
        document = json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")
    if "paths" in document:
        return {"paths": _paths(document["paths"], version)}
    answer = {key: value for key, value in document.items() if key != "meta"}
    if "jobs" in answer:
        answer["jobs"] = [
            {k: v for k, v in job.items() if k in _KEPT.split()} for job in answer["jobs"]
        ]
    return answer


def _paths(paths: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Those of jobs of the version (of every one where it is empty), with their parameters."""
    job_paths = [
        path for path in paths if f"/{version}" in path and path.rstrip("/").endswith("/jobs")
    ]
    return {
        path: {
            method: {"parameters": [{"name": p["name"]} for p in operation.get("parameters", ())]}
            for method, operation in paths[path].items()
            if isinstance(operation, dict)
        }
        for path in job_paths
    }


if __name__ == "__main__":
    sys.exit(main())
