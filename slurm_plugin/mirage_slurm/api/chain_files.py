"""A chain's directory, and what mirage-link and Slurm say of the chain: what is known without a service.

`mirage-link status` reads the directory. The marks of jobs in the queue tell which of them are the
chain's, also before a link has begun and has written down its job.
"""

import os
import re
import sys
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from mirage_slurm.api import reports
from mirage_slurm.api.reports import Queued, Report, Row, Status
from mirage_slurm.planner import slurm_jobs
from mirage_slurm.wrapper import carrier
from mirage_slurm.wrapper.resubmission import CurrentLink

LIMIT_S = 60  # for mirage-link, which asks squeue and perhaps sacct; for scontrol and scancel
ID = re.compile(r"[0-9a-z]{8,32}\Z")
SETTING = re.compile(r"^mirage_([a-z_]+)='([^']*)'$", re.MULTILINE)  # in the head of a carrier
NARROWING = ("SCANCEL_", "SQUEUE_")  # such variables would narrow what is cancelled or listed
OF_CALLING_LINK = ("MIRAGE_DIR", "MIRAGE_LINK")  # they would make another chain's link of a call


class ChainError(RuntimeError):
    """Something about a chain could not be done. The message says what to do."""


class SlurmFailed(ChainError):
    """A command of Slurm failed, or did not answer in time. A later call may succeed."""


class Queue(object):
    """The marked jobs of this user in the queue. Each cluster is asked once.

    `failures`: by clusters, why Slurm did not answer.
    """

    def __init__(self) -> None:
        self.failures: Dict[str, str] = {}
        self._rows: Dict[str, List[Tuple[str, Queued]]] = {}

    def find(self, chain_id: str, clusters: str) -> List[Queued]:
        """Return the chain's jobs, by link and job. `clusters`: "" for the cluster of this host.

        A link that has just given its nodes back has two jobs for a moment. Raises SlurmFailed.
        """
        if clusters not in self._rows and clusters not in self.failures:
            self._ask(clusters)
        if clusters in self.failures:
            raise SlurmFailed(self.failures[clusters])
        return sorted(queued for mark, queued in self._rows[clusters] if mark == chain_id)

    def _ask(self, clusters: str) -> None:
        try:
            rows = slurm_jobs.list_links(_name_clusters(dict(os.environ), clusters))
        except slurm_jobs.Unseen as error:
            self.failures[clusters] = str(error)
        else:
            self._rows[clusters] = [(row[0], Queued(*row[1:])) for row in rows]


class ChainFiles(object):
    """A chain of this user, by its directory. `id`: the directory's name."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.id = os.path.basename(directory)

    # --- how it stands ---------------------------------------------------------------------------

    def read_report(self) -> Report:
        """Say how the chain stands. Raises ChainError, SlurmFailed if the queue decides and is silent."""
        return self._judge(self.read_status(), self._read_planned(), Queue())

    def read_seen_report(self, queue: Queue) -> Report:
        """Return the same. Where the queue is silent, the chain's files decide and a sentence says so."""
        return self.judge(self.read_status(), self._read_planned(), queue)

    def judge(self, status: Status, planned: Optional[int], queue: Queue) -> Report:
        """Judge the chain by its status, and by the queue if that is known."""
        try:
            return self._judge(status, planned, queue)
        except SlurmFailed as error:
            return reports.judge_unseen(self.id, status, planned, str(error))

    def _judge(self, status: Status, planned: Optional[int], queue: Queue) -> Report:
        if not any(map(reports.is_alive, status.links)):
            # A link writes down its end before it sees to the next link.
            queued = self.find_queued(queue)
            status = status._replace(links=reports.add_queued(status.links, queued))
        return reports.judge_status(self.id, status, planned)

    def read_status(self) -> Status:
        """Read `mirage-link status` of this chain. Raises ChainError."""
        return reports.read_status(self.run_link("status"))

    def find_queued(self, queue: Optional[Queue] = None) -> List[Queued]:
        """Return the chain's jobs in the queue, by link and job. Raises SlurmFailed."""
        try:
            return (queue or Queue()).find(self.id, self._read_clusters())
        except SlurmFailed as error:
            sentence = "Slurm does not say how chain %s stands: %s"
            raise SlurmFailed(sentence % (self.id, error)) from None

    def read_jobs(self) -> List[int]:
        """Return the jobs that the chain's links have written down, by their numbers."""
        files = self._get_files()
        try:
            links = os.listdir(os.path.join(self.directory, "jobs"))
        except OSError:
            return []
        jobs = [files.read_first_line("jobs", link).strip() for link in links if link.isdigit()]
        return sorted(int(job) for job in jobs if job.isdigit())

    def read_settings(self) -> Dict[str, str]:
        """Return the settings that the wrapper wrote into the chain's carrier; none if it cannot be read."""
        try:
            carriers = self._get_files().read_carriers()
        except OSError:
            return {}
        pairs = [pair for text in carriers for pair in SETTING.findall(os.fsdecode(text))]
        return dict(reversed(pairs))  # the head comes first, the user's script last

    def read_setting(self, name: str) -> str:
        return self.read_settings().get(name, "")

    def count_started(self) -> int:
        """Return how many links have begun."""
        try:
            return sum(
                name.isdigit() for name in os.listdir(os.path.join(self.directory, "started"))
            )
        except OSError:
            return 0

    def read_creation_time(self) -> Optional[float]:
        """Return when the chain was submitted, in epoch seconds; None where its files do not say."""
        try:
            return os.path.getmtime(os.path.join(self.directory, "argv"))
        except OSError:
            return None

    def read_end(self, link: int) -> str:
        """Return how a link ended, in mirage-link's words; "" if it has not written that down."""
        return str(self._get_files().read_first_line("ends", str(link)))

    def _read_planned(self) -> Optional[int]:
        planned = self.read_setting("links")
        return int(planned) if planned.isdigit() else None

    def _read_clusters(self) -> str:
        return str(self._get_files().read_first_line("clusters")).strip()

    def _get_files(self) -> CurrentLink:
        return CurrentLink(self.directory, 0, "", None)

    # --- what is done to it ----------------------------------------------------------------------

    def end(self) -> List[int]:
        """Let no further link begin, and cancel the chain's jobs in the queue. Return their ids.

        Raises ChainError if a job could not be cancelled.
        """
        self.run_link("stop")
        try:
            # The last link first: a standby would start as the link before it ends.
            jobs = [queued.job_id for queued in reversed(self.find_queued())]
        except SlurmFailed as error:
            sentence = "%s. No further link begins; cancel the chain again later: its jobs may be in the queue"
            raise SlurmFailed(sentence % (error,)) from None
        words = list(map(str, jobs))
        try:
            if words:
                self.run_slurm(["scancel"] + words)
        except SlurmFailed as error:
            if self.find_queued():
                raise SlurmFailed(
                    "%s; no further link begins, but jobs of the chain are in the queue: scancel %s"
                    % (error, " ".join(words))
                ) from None
        return jobs

    def run_link(self, verb: str) -> str:
        """Run mirage-link on this chain and return its output. Raises ChainError."""
        return _run_link_program([verb, self.directory])

    def run_slurm(self, words: Sequence[str]) -> None:
        """Run a command of Slurm on the chain's own cluster. Raises SlurmFailed."""
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(NARROWING)
        }
        environ = _name_clusters(environ, self._read_clusters())
        code, _, errors = slurm_jobs.run_program(list(words), environ, LIMIT_S)
        if code != 0:
            raise SlurmFailed("%s failed: %s" % (words[0], _explain_failure(code, errors)))


class Overview(NamedTuple):
    """A chain in the list of a user's chains."""

    files: ChainFiles
    row: Row
    report: Report


def list_chains() -> List[ChainFiles]:
    """Return the user's chains, by their ids: the directories that have the folder of ends."""
    base = carrier.find_state_directory(os.environ)
    try:
        names = sorted(name for name in os.listdir(base) if ID.match(name))
    except OSError:
        return []
    paths = [os.path.join(base, name) for name in names]
    return [ChainFiles(path) for path in paths if os.path.isdir(os.path.join(path, "ends"))]


def list_overviews(queue: Queue) -> List[Overview]:
    """Return the user's chains and how they stand, the newest first. Raises ChainError.

    All of them take one call of mirage-link, and at most one of squeue for each cluster.
    """
    chains = {files.id: files for files in list_chains()}
    overviews = []
    for row in reports.read_rows(_run_link_program(["status"])):
        files = chains.get(row.chain_id)
        if files is not None:
            status = reports.build_status(row, files.read_end(row.begun))
            overviews.append(Overview(files, row, files.judge(status, row.planned, queue)))
    return overviews[::-1]


def _run_link_program(words: List[str]) -> str:
    """Run mirage-link and return its output. Raises ChainError."""
    environ = {name: value for name, value in os.environ.items() if name not in OF_CALLING_LINK}
    environ["MIRAGE_STATE_DIR"] = carrier.find_state_directory(os.environ)
    program = ["sh", os.path.join(carrier.PLUGIN, "mirage-link")]
    code, output, errors = slurm_jobs.run_program(program + words, environ, LIMIT_S)
    name = "mirage-link %s" % (words[0],)
    if code == 124:
        raise SlurmFailed("%s: %s" % (name, _explain_failure(code, errors)))
    if code != 0:
        complaint = errors.strip().replace("mirage-link: ", "", 1)
        raise ChainError(complaint or "%s ended with %d" % (name, code))
    if words[0] != "status":  # which `wait` asks once a minute
        sys.stderr.write(errors)  # for example what sbatch says of the next link
    return str(output)


def _explain_failure(code: int, errors: str) -> str:
    if code == 124:
        return "Slurm has not answered within %d s" % (LIMIT_S,)
    return errors.strip() or "exit code %d" % (code,)


def _name_clusters(environ: Dict[str, str], clusters: str) -> Dict[str, str]:
    """Return the environment in which Slurm's commands ask these clusters."""
    return dict(environ, SLURM_CLUSTERS=clusters) if clusters else environ
