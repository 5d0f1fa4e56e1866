"""Collects Slurm's answers about a site, from commands on this host or from captured files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mirage.errors import ClusterError, InputError
from mirage.slurm.clients.cli.command_runner import CommandRunner
from mirage.slurm.commands import sacctmgr, scontrol, scontrol_show
from mirage.slurm.text.command_errors import classify_query_error

_TIMEOUT_S = 60.0
"""Long, since `sacctmgr show assoc` of a large site takes many seconds and nobody waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteQuestion:
    """A command from whose answer a cluster file is made."""

    argv: tuple[str, ...]
    file: str
    """The file name of the captured answer."""
    is_needed: bool
    """Whether no cluster file can be made without this answer."""


CONFIG = SiteQuestion(
    argv=tuple(scontrol.build_show_config_argv()), file="scontrol-show-config.txt", is_needed=True
)
NODES = SiteQuestion(
    argv=tuple(scontrol_show.build_show_nodes_argv()), file="scontrol-show-node.txt", is_needed=True
)
PARTITIONS = SiteQuestion(
    argv=tuple(scontrol_show.build_show_partitions_argv()),
    file="scontrol-show-partition.txt",
    is_needed=True,
)
RESERVATIONS = SiteQuestion(
    argv=tuple(scontrol_show.build_show_reservations_argv()),
    file="scontrol-show-reservation.txt",
    is_needed=False,
)
QOS = SiteQuestion(
    argv=tuple(sacctmgr.build_show_qos_argv()), file="sacctmgr-show-qos.txt", is_needed=False
)
ASSOCIATIONS = SiteQuestion(
    argv=tuple(sacctmgr.build_show_associations_argv()),
    file="sacctmgr-show-assoc.txt",
    is_needed=False,
)
QUESTIONS = (CONFIG, NODES, PARTITIONS, RESERVATIONS, QOS, ASSOCIATIONS)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAnswers:
    """The answers by question. A question not in `texts` is in `missing`, with the reason."""

    texts: dict[SiteQuestion, str]
    missing: dict[SiteQuestion, str]


def fetch_answers(questions: Sequence[SiteQuestion] = QUESTIONS) -> SiteAnswers:
    """Run the commands one by one. Raises ClusterError if a needed one gives no answer."""
    runner = CommandRunner(timeout_s=_TIMEOUT_S)
    texts: dict[SiteQuestion, str] = {}
    missing: dict[SiteQuestion, str] = {}
    for question in questions:
        try:
            texts[question] = _fetch_answer(runner, question)
        except ClusterError as error:
            if question.is_needed:
                raise
            missing[question] = str(error)
    return SiteAnswers(texts=texts, missing=missing)


def _fetch_answer(runner: CommandRunner, question: SiteQuestion) -> str:
    result = runner.run(question.argv)
    complaint = classify_query_error(question.argv[0], result.code, result.stderr)
    if complaint is not None:
        raise complaint
    return result.stdout


def load_answers(folder: Path, questions: Sequence[SiteQuestion] = QUESTIONS) -> SiteAnswers:
    """Read captured answers. Raises InputError if a needed file is missing."""
    texts: dict[SiteQuestion, str] = {}
    missing: dict[SiteQuestion, str] = {}
    for question in questions:
        path = folder / question.file
        try:
            texts[question] = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            reason = f"{path} cannot be read: {error.strerror}"
            if question.is_needed:
                raise InputError(
                    f"{reason}; it holds the answer of `{' '.join(question.argv)}`"
                ) from error
            missing[question] = reason
    return SiteAnswers(texts=texts, missing=missing)
