"""Links of mode submit by slurmrestd: as their owner, with a token of theirs for one submission.

What is submitted names a file of the owner's and no more: the job reads script and environment of
the user itself, where Mirage cannot.
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
"""What sbatch itself, and no daemon, tells the job of its options. What depends on its release,
such as how MPI launches, the first link keeps for the others (carrier_standby.sh)."""
_CONTROLS = re.compile(r"[\0-\x1f\x7f]")


class SubmitJob(Protocol):
    def __call__(self, job: Submission, *, user: str) -> JobId: ...


def build_submitter(store: Store, submit: SubmitJob) -> Callable[[NextLink], bool]:
    """Return the function that puts a link into the queue.

    The function answers False for a link that it leaves to the running link. It raises what
    `ports.Cluster` raises, and InputError for root and for an owner whom this host does not know by
    that name and uid.
    """

    def submit_link(asked: NextLink) -> bool:
        with store.read() as tx:
            kept = recipes.find_recipe(tx, asked.chain_id)
        if kept is None or kept.uid != asked.uid:
            return False
        job = build_submission(kept.recipe, asked.chain_id, asked.index, _find_owner(asked))
        try:
            submit(job, user=asked.user)
        except InputError as error:
            # Another job than its user's sbatch would make is not submitted.
            _log.info("left to the link", chain_id=asked.chain_id, why=str(error))
            return False
        return True

    return submit_link


def build_submission(
    recipe: Recipe, chain_id: ChainId, index: int, owner: pwd.struct_passwd
) -> Submission:
    """The job that becomes this link."""
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
    """sbatch has mail go to its caller where no address is given."""
    return ({"mail-user": user} if "mail-type" in options else {}) | dict(options)


def _render_script(recipe: Recipe, mark: Mark) -> str:
    carrier = shlex.quote(posixpath.normpath(recipe.carrier))
    return (
        "#!/bin/sh\n# A link of a chain of Mirage: what it runs is its user's own file.\n"
        f"umask {recipe.umask:04o}\n"
        f"exec /bin/sh {carrier} enter:{mark.chain_id}:{mark.index}\n"
    )


def validate_recipe(recipe: Recipe) -> Recipe:
    """Raises InputError for one that no wrapped sbatch made."""
    for path in (recipe.carrier, recipe.directory):
        if not path.startswith("/") or _CONTROLS.search(path):
            raise InputError("a recipe's paths are absolute, and plain")
    return recipe


def _find_owner(asked: NextLink) -> pwd.struct_passwd:
    try:
        entry = pwd.getpwnam(asked.user)
    except KeyError:
        entry = None
    if entry is None or entry.pw_uid != asked.uid or entry.pw_uid == 0:
        raise InputError(f"{asked.user!r} is not uid {asked.uid} on this host, or root")
    return entry
