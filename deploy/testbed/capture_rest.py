"""Writes what the slurmrestd here answers to tests/data/slurm-RELEASE-rest/.

With the commands' own answers of the same moment beside them: `.venv/bin/python
deploy/testbed/capture_rest.py`, as root, about a minute. Each version that it serves and Mirage
reads is asked: the newest of all jobs, the others of some. Of a job, a node and a record only the
keys that Mirage reads are kept, of the OpenAPI document the paths that Mirage may ask.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_ROOT))

import clients  # noqa: E402 - after the path
import clock  # noqa: E402
import cluster  # noqa: E402
import daemons  # noqa: E402
import release  # noqa: E402
import workload  # noqa: E402
from settings import RUN, SERVICE_USER, Settings, TestbedError  # noqa: E402

from mirage.slurm.clients.cli.command_runner import PLAIN_ANSWERS  # noqa: E402
from mirage.slurm.clients.restd.http import RestHttp  # noqa: E402
from mirage.slurm.clients.restd.token import RestToken, parse_token  # noqa: E402
from mirage.slurm.commands import sacct, sinfo, squeue  # noqa: E402

_SEPARATOR = "\x1f7e57\x1f"
_SPEED = 60
_FOLDER = RUN / "restd"
_JOB = """
account array_task_string comment cpus dependency eligible_time end_time gres_detail het_job_id
job_id job_state name node_count nodes partition priority qos required_nodes sockets_per_node
start_time state_description state_reason submit_time tasks time_limit tres_alloc_str tres_per_job
tres_per_node tres_per_socket tres_per_task tres_req_str user_id user_name
"""
_NODE = "alloc_cpus cpus gres gres_used name partitions state state_flags"
_RECORD = """
account allocation_nodes array comment exit_code het job_id name nodes partition priority qos
required state submit_line time tres user
"""
_SOME = "completed failed signaled timeout running successor array cancelled-held het unlimited"
"""The jobs that every version is asked for; the newest is asked for all."""
_OLDEST = 38
_PREFACE = """\
# Answers of slurmrestd of a real {release}

Written by `deploy/testbed/capture_rest.py`, with the commands' own answers of the same moment
beside them (`*.txt`, as in the folder of queries). The newest version was asked for all jobs, the
others for some. Jobs, nodes and records are cut to the keys that Mirage reads, the OpenAPI document
to the paths that it may ask, diag is whole; `jobs-by-fate.json` says what became of which job.
"""
_ASKED = re.compile(r"/slurm(db)?/(v0\.0\.\d+)/(jobs|nodes|diag|ping|job/(submit|\{job_id\}))/?")
_RECORD_QUERIES = ("skip_steps", "show_duplicates", "disable_truncate_usage_time")


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
    _folder().mkdir(parents=True, exist_ok=True)
    http = RestHttp(_start(), identity=_token)
    now = int(clock.now())
    document = _paths(http.get("/openapi/v3", "openapi").body)
    versions = _versions(document)
    fields = sacct.choose_fields(_answer(sacct.build_helpformat_argv()))
    window = sacct.build_window_options(now - 86400, now + 60)
    (_folder() / "INDEX.md").write_text(_PREFACE.format(release=release.described()))
    _keep("jobs-by-fate", {"taken_at": now, "jobs": jobs})
    _keep("openapi", document)
    _text("squeue", squeue.build_argv(), squeue.build_environment(_SEPARATOR))
    _text("sinfo", sinfo.build_argv())
    _text("sacct", sacct.build_argv(fields.facts, window))
    _text("sacct-texts", sacct.build_argv(fields.texts, window, _SEPARATOR))
    _text("sacct-helpformat", sacct.build_helpformat_argv())
    _version(http, versions[0], now, document, None)
    for version in versions[1:]:
        _version(http, version, now, document, {int(jobs[fate]) for fate in _SOME.split()})


def _version(
    http: RestHttp,
    version: str,
    now: int,
    document: Mapping[str, Any],
    job_ids: Collection[int] | None,
) -> None:
    """`job_ids`: the jobs to keep; None: all of them."""
    slurm, slurmdb = f"/slurm/{version}", f"/slurmdb/{version}"
    at = f"{slurmdb}/jobs"
    description = document["paths"].get(at) or document["paths"][f"{at}/"]
    names = {parameter["name"] for parameter in description["get"]["parameters"]}
    span = {"start_time": f"uts{now - 86400}", "end_time": f"uts{now + 60}"}
    span |= {name: "true" for name in _RECORD_QUERIES if name in names}
    jobs = http.get(f"{slurm}/jobs", "jobs").body
    nodes = http.get(f"{slurm}/nodes", "nodes").body
    records = http.get(at, "records", span).body
    _keep(f"{version}-jobs", _trimmed(jobs, "jobs", _JOB, job_ids))
    _keep(f"{version}-nodes", _trimmed(nodes, "nodes", _NODE))
    _keep(f"{version}-records", _trimmed(records, "jobs", _RECORD, job_ids))
    for name, path in {
        "diag": f"{slurm}/diag",
        "no-such-job": f"{slurm}/job/999999",
        "no-such-record": f"{slurmdb}/job/999999",
    }.items():
        _keep(f"{version}-{name}", http.get(path, name).body)


def _start() -> str:
    """Start a slurmrestd as the user nobody, which passes tokens through to slurmctld.

    Without -s it serves all that it has, on every release.
    """
    _FOLDER.mkdir(exist_ok=True)
    shutil.chown(_FOLDER, "nobody")
    socket = _FOLDER / "socket"
    socket.unlink(missing_ok=True)
    environment = clock.environment() | {"SLURM_JWT": "daemon"}
    argv = ["slurmrestd", "-a", "rest_auth/jwt", f"unix:{socket}"]
    daemons.start("slurmrestd", argv, user="nobody", env=environment)
    daemons.wait_for("slurmrestd", socket.exists, daemon="slurmrestd")
    return f"unix:{socket}"


def _token() -> RestToken:
    argv = ["scontrol", "token", f"username={SERVICE_USER}", "lifespan=36000"]
    return parse_token(clients.run(argv).stdout)


def _versions(document: Mapping[str, Any]) -> list[str]:
    """Return what it serves and Mirage may read, the newest first."""
    versions = {match[2] for path in document["paths"] if (match := _ASKED.fullmatch(path))}
    numbers = sorted((int(version.rpartition(".")[2]) for version in versions), reverse=True)
    return [f"v0.0.{number}" for number in numbers if number >= _OLDEST]


def _paths(document: Mapping[str, Any]) -> dict[str, Any]:
    """Paths, methods and the names of parameters."""
    return {
        "paths": {
            path: {
                method: {
                    "parameters": [{"name": p["name"]} for p in operation.get("parameters", ())]
                }
                for method, operation in methods.items()
                if isinstance(operation, dict)
            }
            for path, methods in document["paths"].items()
            if _ASKED.fullmatch(path)
        }
    }


def _trimmed(
    answer: Mapping[str, Any], key: str, fields: str, job_ids: Collection[int] | None = None
) -> dict[str, Any]:
    rows = [
        {name: row[name] for name in fields.split() if name in row}
        for row in answer[key]
        if job_ids is None or _family(row) & set(job_ids)
    ]
    return {"errors": answer["errors"], key: rows}


def _family(row: Mapping[str, Any]) -> set[int]:
    """The numbers that a job goes by: its own, and the first of its array or heterogeneous job."""
    numbers = [row["job_id"], row.get("array_job_id"), row.get("het_job_id")]
    numbers += [(row.get(name) or {}).get("job_id") for name in ("array", "het")]
    return {n for n in (_number(value) for value in numbers) if n}


def _number(value: Any) -> int | None:
    number = value.get("number") if isinstance(value, Mapping) else value
    return number if isinstance(number, int) else None


def _folder() -> Path:
    return release.data_folder("rest")


def _keep(name: str, body: Any) -> None:
    text = json.dumps(body, separators=(",", ":"), sort_keys=True)
    (_folder() / f"{name}.json").write_text(f"{text}\n")


def _text(name: str, argv: list[str], more: Mapping[str, str] | None = None) -> None:
    (_folder() / f"{name}.txt").write_text(_answer(argv, more))


def _answer(argv: list[str], more: Mapping[str, str] | None = None) -> str:
    process = clients.run(argv, user=SERVICE_USER, env={**PLAIN_ANSWERS, **(more or {})})
    if process.returncode != 0:
        raise TestbedError(f"{argv}: {process.stderr.strip()}")
    return process.stdout


if __name__ == "__main__":
    sys.exit(main())
