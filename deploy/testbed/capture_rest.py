"""Writes what a real slurmrestd answers to tests/data/slurm-22.05-rest/.

With the commands' own answers of the same moment beside them: `.venv/bin/python
deploy/testbed/capture_rest.py`, as root, about a minute. Of a job and a record only the keys that
Mirage reads are kept, of the OpenAPI document only paths and their parameters.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT))

import clients  # noqa: E402 - after the path
import clock  # noqa: E402
import cluster  # noqa: E402
import daemons  # noqa: E402
import workload  # noqa: E402
from settings import RUN, SERVICE_USER, Settings, TestbedError  # noqa: E402

from mirage.cluster.rest_http import RestHttp  # noqa: E402
from mirage.cluster.rest_token import Token, read_token  # noqa: E402
from mirage.cluster.runner import PLAIN_ANSWERS  # noqa: E402
from mirage.slurm import sacct, sinfo, squeue  # noqa: E402

_DATA = _ROOT / "tests" / "data" / "slurm-22.05-rest"
_SEPARATOR = "\x1f7e57\x1f"
_SPEED = 60
_FOLDER = RUN / "restd"
_JOB = """
account array_task_string comment cpus dependency eligible_time end_time het_job_id job_id job_state
name node_count nodes partition priority qos start_time state_description state_reason submit_time
time_limit tres_alloc_str tres_per_job tres_per_node tres_req_str user_id user_name
"""
_NODE = "alloc_cpus cpus gres gres_used name partitions state state_flags"
_RECORD = """
account allocation_nodes array comment exit_code het job_id name nodes partition priority qos state
submit_line time tres user
"""


def main() -> int:
    try:
        with cluster.exclusively():
            # A new cluster, and one that remembers ended jobs for hours.
            cluster.up(Settings(speed=_SPEED, extra=("MinJobAge=14400",)))
            jobs = workload.submit()
            clients.run(["scontrol", "update", "NodeName=gpu07", "State=drain", "Reason=try"])
            _capture(jobs)
    except TestbedError as error:
        sys.stderr.write(f"capture_rest: {error}\n")
        return 1
    finally:
        daemons.stop(["slurmrestd"])
    return 0


def _capture(jobs: workload.Jobs) -> None:
    _DATA.mkdir(parents=True, exist_ok=True)
    http = RestHttp(_start(), identity=_token)
    now = int(clock.now())
    fields = sacct.fields(_answer(sacct.helpformat_argv()))
    _keep("jobs-by-fate", {"taken_at": now, "jobs": jobs})
    _keep("openapi", _paths(http.get("/openapi/v3", "openapi").body))
    _text("squeue", squeue.argv(), squeue.environment(_SEPARATOR))
    _keep("jobs", _trimmed(http.get("/slurm/v0.0.38/jobs", "jobs").body, "jobs", _JOB))
    _text("sinfo", sinfo.argv())
    _keep("nodes", _trimmed(http.get("/slurm/v0.0.38/nodes", "nodes").body, "nodes", _NODE))
    span = {"start_time": f"uts{now - 86400}", "end_time": f"uts{now + 60}", "skip_steps": "true"}
    records = http.get("/slurmdb/v0.0.38/jobs", "records", span).body
    window = sacct.in_window(now - 86400, now + 60)
    _text("sacct", sacct.argv(fields.facts, window))
    _text("sacct-texts", sacct.argv(fields.texts, window, _SEPARATOR))
    _keep("records", _trimmed(records, "jobs", _RECORD))
    _text("sacct-helpformat", sacct.helpformat_argv())
    _keep("diag", http.get("/slurm/v0.0.38/diag", "diag").body)
    for name, path in {
        "no-such-job": "/slurm/v0.0.38/job/999999",
        "no-such-record": "/slurmdb/v0.0.38/job/999999",
    }.items():
        _keep(name, http.get(path, name).body)


def _start() -> str:
    """A slurmrestd of nobody's, which lets tokens pass through to slurmctld."""
    _FOLDER.mkdir(exist_ok=True)
    shutil.chown(_FOLDER, "nobody")
    socket = _FOLDER / "socket"
    socket.unlink(missing_ok=True)
    argv = ["slurmrestd", "-a", "rest_auth/jwt", "-s", "openapi/v0.0.38,openapi/dbv0.0.38"]
    environment = clock.environment() | {"SLURM_JWT": "daemon"}
    daemons.start("slurmrestd", [*argv, f"unix:{socket}"], user="nobody", env=environment)
    daemons.wait_for("slurmrestd", socket.exists, timeout_s=20, daemon="slurmrestd")
    return f"unix:{socket}"


def _token() -> Token:
    argv = ["scontrol", "token", f"username={SERVICE_USER}", "lifespan=36000"]
    return read_token(clients.run(argv).stdout)


def _paths(document: Mapping[str, Any]) -> dict[str, Any]:
    """Paths, methods and the names of parameters."""
    return {
        "paths": {
            path: {
                method: {"parameters": [{"name": p["name"]} for p in told.get("parameters", ())]}
                for method, told in methods.items()
                if isinstance(told, dict)
            }
            for path, methods in document["paths"].items()
        }
    }


def _trimmed(answer: Mapping[str, Any], key: str, kept: str) -> dict[str, Any]:
    rows = [{name: row[name] for name in kept.split() if name in row} for row in answer[key]]
    return {"errors": answer["errors"], key: rows}


def _keep(name: str, body: Any) -> None:
    (_DATA / f"{name}.json").write_text(json.dumps(body, indent=None, sort_keys=True) + "\n")


def _text(name: str, argv: list[str], more: Mapping[str, str] | None = None) -> None:
    (_DATA / f"{name}.txt").write_text(_answer(argv, more))


def _answer(argv: list[str], more: Mapping[str, str] | None = None) -> str:
    done = clients.run(argv, user=SERVICE_USER, env={**PLAIN_ANSWERS, **(more or {})})
    if done.returncode != 0:
        raise TestbedError(f"{argv}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
