"""Submits links of mode submit through slurmrestd, as their owner and with the owner's token.

The submitted script only runs a file of the owner. The job itself reads the user's script and
environment, which Mirage cannot read.
"""

import posixpath
import pwd
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from mirage.domain.chain import ChainId, Mark
from mirage.domain.job import JobId
from mirage.domain.submission import Recipe, Submission
from mirage.errors import InputError
from mirage.ports import NextLink
from mirage.store.chains import recipes
from mirage.store.database.engine import Store

_log = structlog.get_logger(__name__)
_PATH = "/usr/local/bin:/usr/bin:/bin"
_TOLD = {
    "cpus-per-gpu": "SLURM_CPUS_PER_GPU",
    "cpus-per-task": "SLURM_CPUS_PER_TASK",
    "gpus": "SLURM_GPUS",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-socket": "SLURM_GPUS_PER_SOCKET",
    "ntasks": "SLURM_NTASKS",
    "ntasks-per-core": "SLURM_NTASKS_PER_CORE",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "ntasks-per-socket": "SLURM_NTASKS_PER_SOCKET",
    "threads-per-core": "SLURM_THREADS_PER_CORE",
}
"""Environment variables that sbatch, and no daemon of Slurm, sets from its options.

Variables that depend on the release of sbatch, such as how MPI launches, are kept by the first link
for the others (carrier_standby.sh).
"""
_CONTROLS = re.compile(r"[\0-\x1f\x7f]")


class SubmitJob(Protocol):
    """Submits a job as `user` and returns its id."""

    def __call__(self, job: Submission, *, user: str) -> JobId: ...


def build_submitter(store: Store, cluster_id: int, submit: SubmitJob) -> Callable[[NextLink], bool]:
    """Return the function that submits a chain's next link.

    The function returns False if the running link has to submit the next one itself. It raises what
    `ports.Cluster` raises. It raises InputError for root, and for an owner whom this host does not
    know by that name and uid.
    """

    def submit_link(asked: NextLink) -> bool:
        with store.read() as tx:
            kept = recipes.find_recipe(tx, cluster_id, asked.chain_id)
        if kept is None or kept.uid != asked.uid:
            return False
        job = build_submission(kept.recipe, asked.chain_id, asked.index, _find_owner(asked))
        try:
            submit(job, user=asked.user)
        except InputError as error:
            # The job would differ from the one that the user's sbatch makes.
            _log.info(
                "the running link submits the next one, not the service",
                chain_id=asked.chain_id,
                why=str(error),
            )
            return False
        return True

    return submit_link


def build_submission(
    recipe: Recipe, chain_id: ChainId, index: int, owner: pwd.struct_passwd
) -> Submission:
    """Return the job that becomes link `index` of the chain."""
    mark, options = Mark(chain_id, index), _add_mail_user(recipe.options, owner.pw_name)
    return Submission(
        script=_render_script(recipe, mark),
        environment={
            "PATH": _PATH,
            "HOME": owner.pw_dir,
            "USER": owner.pw_name,
            "LOGNAME": owner.pw_name,
            "SHELL": owner.pw_shell,
            "SLURM_SUBMIT_DIR": recipe.directory,
            "SLURM_PRIO_PROCESS": "0",
            **{name: options[word] for word, name in _TOLD.items() if word in options},
        },
        directory=recipe.directory,
        name=recipe.name,
        comment=f"{recipe.comment} {mark}".lstrip(),
        options=options,
    )


def _add_mail_user(options: Mapping[str, str], user: str) -> dict[str, str]:
    """Return the options with the owner as the receiver of mail, as sbatch has it by default."""
    return ({"mail-user": user} if "mail-type" in options else {}) | dict(options)


def _render_script(recipe: Recipe, mark: Mark) -> str:
    carrier = shlex.quote(posixpath.normpath(recipe.carrier))
    return (
        "#!/bin/sh\n# A link of a chain of Mirage: what it runs is its user's own file.\n"
        f"umask {recipe.umask:04o}\n"
        f"exec /bin/sh {carrier} enter:{mark.chain_id}:{mark.index}\n"
    )


def validate_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe. Raises InputError if it has paths that a wrapped sbatch never writes."""
    for path in (recipe.carrier, recipe.directory):
        if not path.startswith("/") or _CONTROLS.search(path):
            raise InputError(
                "a recipe's paths carrier and directory must be absolute and without control "
                "characters"
            )
    return recipe


def _find_owner(asked: NextLink) -> pwd.struct_passwd:
    try:
        entry = pwd.getpwnam(asked.user)
    except KeyError:
        entry = None
    if entry is None or entry.pw_uid != asked.uid or entry.pw_uid == 0:
        raise InputError(
            f"user {asked.user!r} with uid {asked.uid} is not known on this host, or is root: "
            "Mirage does not submit for such a user"
        )
    return entry
