"""The service of benchmarks/hostile_load.py and host_size.py: a real `mirage serve` beside fake
commands of Slurm, which show chains whose next link appears now and then, and take each move."""

import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from mirage.database.jobs import job_history
from mirage.database.operations import clusters
from mirage.database.schema.engine import Store
from mirage.domain.chain import Mark
from mirage.domain.job import Job, JobId, JobState
from mirage.slurm.commands import squeue
from tests.support.mirage_process import QuietSlurm, configured, run
from tests.support.web.seeded_chain import chain_id

HOUR = 3600
_SETTINGS = "mirage:style=concurrent,max-overlap=1-00:00:00"
"""Nobody registers these chains, and a link of a chain without settings never starts early."""
_OTHERS_FIRST = 50_000
_ENDED_FIRST = 100_000
_HISTORY = 20_000
"""The number of ended jobs, which an export has to write."""
_PAST_S = 400_000
"""The jobs were submitted within this time, which began a week ago."""


@dataclass
class Site:
    """Chains that run; each has one move to be made, once its standby is there."""

    folder: Path
    chains: int
    every_s: int
    ended_jobs: int = _HISTORY
    others: int = 0
    """Waiting jobs in the queue that are no chain's."""
    moved_at: dict[int, float] = field(default_factory=dict)
    """By chain: when its standby was freed."""
    due: Sequence[float] = ()
    """By chain: when its standby appears."""
    ticks: list[float] = field(default_factory=list)
    """The instants at which squeue was asked, epoch seconds."""

    def __post_init__(self) -> None:
        self.slurm = QuietSlurm(self.folder / "bin")
        self.config = configured(self.folder)
        self.socket = self.folder / "socket"
        config_text = self.config.read_text()
        self.config.write_text(
            config_text.replace("[service]", f'[service]\nsocket = "{self.socket}"')
            + f"[polling]\nqueue_s = {self.every_s}\nnodes_s = 60\ndiag_s = 0\n"
            '[provision]\npolicy = "at-once"\nmax_lead_h = 1000\n'
            "user_overlap_node_h = 1e9\naccount_overlap_node_h = 1e9\n"
            "cluster_overlap_node_h = 1e9\n"
        )
        self._began = int(time.time())
        self._shown_counts: tuple[int, int] | None = None
        self._offsets = {"squeue": 0, "scontrol": 0}
        _require_success(run("db", "upgrade", "--config", str(self.config)).code)
        database = f"sqlite:///{self.folder}/state/mirage.db"
        with closing(Store(database)) as store, store.begin() as tx:
            lab = clusters.ensure_cluster(tx, "lab")
            job_history.upsert_jobs(
                tx,
                lab,
                (
                    _build_ended_job(
                        n, self._began - 7 * 24 * HOUR + _PAST_S * n // self.ended_jobs
                    )
                    for n in range(self.ended_jobs)
                ),
            )
        _require_success(run("mode", "act", "--config", str(self.config)).code)
        self.show_queue()

    def look(self) -> None:
        """Record what was asked of Slurm since the last look; update the queue that it shows."""
        now = time.time()
        if self._read_new_calls("squeue") and (
            not self.ticks or now > self.ticks[-1] + self.every_s / 2
        ):
            self.ticks.append(now)
        for words in self._read_new_calls("scontrol"):
            settings = dict(word.partition("=")[::2] for word in words if "=" in word)
            job_id = settings.get("JobId", settings.get("jobid", ""))
            if "update" in words and job_id.isdigit() and "Dependency" in settings:
                self.moved_at.setdefault(int(job_id) % 10_000, now)
        self.show_queue()

    def show_queue(self) -> None:
        standby_count = sum(due <= time.time() for due in self.due)
        if self._shown_counts == (standby_count, len(self.moved_at)):
            return
        self._shown_counts = standby_count, len(self.moved_at)
        rows = [_format_running(n, self._began) for n in range(self.chains)]
        rows += [
            _format_standby(n, self._began, is_free=n in self.moved_at)
            for n in range(standby_count)
        ]
        rows += [_format_other(n, self._began) for n in range(self.others)]
        standby_numbers = range(standby_count)
        answers_by_argument = {
            f"--jobs={_build_chain_fields(n, 2)['JobID']}": _format_before_move(n)
            for n in standby_numbers
        }
        self.slurm.answers(
            "squeue", "".join(f"{row}\n" for row in rows), by_argument=answers_by_argument
        )

    def _read_new_calls(self, command: str) -> list[list[str]]:
        log = self.folder / "bin" / f"{command}.log"
        if not log.exists():
            return []
        with log.open() as lines:
            lines.seek(self._offsets[command])
            text = lines.read()
        complete_lines = text[: text.rfind("\n") + 1]
        self._offsets[command] += len(complete_lines.encode())
        return [json.loads(line) for line in complete_lines.splitlines()]


def _require_success(code: int) -> None:
    if code != 0:
        raise RuntimeError("the service could not be set up")


def _format_row(**fields: object) -> str:
    """Format a row as squeue prints it; all other fields have their usual values."""
    usual_fields = {
        "ArrayTaskID": "N/A",
        "HetJobID": "N/A",
        "QOS": "normal",
        "Dependency": "(null)",
    }
    usual_fields |= {"Reason": "None", "PriorityLong": "100", "NumNodes": "1", "NumCPUs": "8"}
    usual_fields |= {"Account": "research", "Partition": "gpu", "TimeLimit": "2-00:00:00"}
    usual_fields |= {"tres-alloc": "cpu=8,node=1", "tres-per-node": "N/A", "tres-per-job": "N/A"}
    usual_fields |= {
        "tres-per-task": "N/A",
        "NumTasks": "1",
        "tres-per-socket": "N/A",
        "Sockets": "*",
    }
    return "".join(f"{fields.get(name, usual_fields.get(name, ''))}|" for name in squeue.FIELDS)


def _build_chain_fields(n: int, link: int) -> dict[str, object]:
    owner = n % 5
    return {
        "JobID": 10_000 * link + n,
        "UserName": f"user{owner}",
        "UserID": 1001 + owner,
        "Name": f"train{n}",
        "Comment": f"{_SETTINGS} {Mark(chain_id(n), link)}",
    }


def _format_running(n: int, now: int) -> str:
    return _format_row(
        **_build_chain_fields(n, 1), State="RUNNING", NodeList=f"gpu{n:02}",
        SubmitTime=now - 45 * HOUR, EligibleTime=now - 45 * HOUR, StartTime=now - 45 * HOUR,
        EndTime=now + 3 * HOUR,
    )  # fmt: skip


def _format_standby(n: int, now: int, *, is_free: bool) -> str:
    held_fields = {"Reason": "Dependency", "Dependency": _format_dependency(n)}
    state_fields = {"Reason": "Priority", "EligibleTime": now} if is_free else held_fields
    time_fields = {"SubmitTime": now, "EligibleTime": "N/A", "StartTime": "N/A", "EndTime": "N/A"}
    return _format_row(**_build_chain_fields(n, 2) | time_fields | state_fields, State="PENDING")


def _format_other(n: int, now: int) -> str:
    return _format_row(
        JobID=_OTHERS_FIRST + n, UserName="bob", UserID=1000, Name="job", State="PENDING",
        Reason="Priority", SubmitTime=now - HOUR, EligibleTime=now - HOUR, StartTime="N/A",
        EndTime="N/A",
    )  # fmt: skip


def _format_dependency(n: int) -> str:
    return f"afterany:{10_000 + n}(unfulfilled)"


def _format_before_move(n: int) -> str:
    """Return what squeue shows of a standby right before a move."""
    job = _build_chain_fields(n, 2)
    dependency = _format_dependency(n)
    return f"{job['JobID']}|{job['UserID']}||PENDING|Dependency|100|{dependency}|\n"


def _build_ended_job(n: int, begin: int) -> Job:
    return Job(
        job_id=JobId(_ENDED_FIRST + n),
        submit=begin,
        eligible=begin,
        state=JobState.COMPLETED,
        start=begin + 600,
        end=begin + 4200,
        user=f"user{n % 5}",
        uid=1001 + n % 5,
        account="research",
        partition="gpu",
        nodes=1,
        time_limit_s=2 * HOUR,
        name=f"job{n}",
    )
