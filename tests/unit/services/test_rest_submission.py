"""Links that the service submits from what their owner left."""

import pwd
from dataclasses import replace
from typing import Any

import pytest

from mirage.domain.chain import ChainMode, ChainState
from mirage.domain.job import JobId
from mirage.domain.submission import Recipe, Submission
from mirage.errors import ClusterUnavailable, InputError
from mirage.ports import NextLink
from mirage.services.chains import lifecycle as chain_service
from mirage.services.chains.lifecycle import Registration
from mirage.services.chains.rest_submission import build_submitter
from mirage.store.chains import chains, recipes
from mirage.store.database.engine import Store
from tests.support.services.slurm_jobs import CHAIN, NOW

NOBODY = pwd.getpwnam("nobody")
RECIPE = Recipe(
    carrier="/home/o'b/.local/state/mirage/c/carrier/a job.sh",
    directory="/scratch/$(id)",
    name="a job.sh",
    comment="my words",
    umask=0o027,
    options={"cpus-per-task": "4", "mail-type": "END"},
)
LINK = NextLink(chain_id=CHAIN, index=2, uid=NOBODY.pw_uid, user="nobody", predecessor=JobId(7))


def register(store: Store, recipe: Recipe | None = RECIPE, **more: object) -> None:
    asked: dict[str, object] = {"mode": ChainMode.SUBMIT, **more}
    new = Registration(chain_id=CHAIN, links=3, recipe=recipe, **asked)  # type: ignore[arg-type]
    with store.begin() as tx:
        chain_service.register_chain(tx, 1, new, uid=NOBODY.pw_uid, user="nobody", now=NOW)


class Taken(list[tuple[Submission, str]]):
    """What a slurmrestd would have been sent."""

    def __call__(self, job: Submission, *, user: str) -> JobId:
        self.append((job, user))
        return JobId(12)


def test_what_is_submitted_names_the_owners_file_and_holds_nothing_else(lab_store: Store) -> None:
    register(lab_store)
    taken = Taken()
    assert build_submitter(lab_store, 1, taken)(LINK)
    ((job, user),) = taken
    assert user == "nobody"
    assert job.script.splitlines()[2:] == [
        "umask 0027",
        """exec /bin/sh '/home/o'"'"'b/.local/state/mirage/c/carrier/a job.sh' """
        f"enter:{CHAIN}:2",
    ]
    assert (job.name, job.comment) == ("a job.sh", f"my words mirage:{CHAIN}:2")
    assert (job.directory, job.environment["HOME"]) == ("/scratch/$(id)", NOBODY.pw_dir)
    assert job.environment["SLURM_CPUS_PER_TASK"] == "4"
    assert job.options == {"cpus-per-task": "4", "mail-type": "END", "mail-user": "nobody"}


def test_a_chain_that_left_nothing_is_left_to_its_link(lab_store: Store) -> None:
    register(lab_store, None)
    taken = Taken()
    assert not build_submitter(lab_store, 1, taken)(LINK)
    assert taken == []


def test_what_slurmrestd_cannot_be_told_is_left_to_the_link(lab_store: Store) -> None:
    def refuse(job: Submission, *, user: str) -> JobId:
        raise InputError(f"slurmrestd is not told sbatch's --signal of {job.name} for {user}")

    register(lab_store)
    assert not build_submitter(lab_store, 1, refuse)(LINK)


def test_no_answer_is_no_success(lab_store: Store) -> None:
    def silent(job: Submission, *, user: str) -> JobId:
        raise ClusterUnavailable(f"no answer for {job.name} of {user}")

    register(lab_store)
    with pytest.raises(ClusterUnavailable):
        build_submitter(lab_store, 1, silent)(LINK)


@pytest.mark.parametrize(
    "link",
    [
        replace(LINK, uid=NOBODY.pw_uid + 1),
        replace(LINK, user="root"),
        replace(LINK, user="no such user"),
    ],
    ids=["another-uid", "another-name", "unknown"],
)
def test_nothing_is_submitted_for_anybody_else(lab_store: Store, link: NextLink) -> None:
    register(lab_store)
    taken = Taken()
    try:
        assert not build_submitter(lab_store, 1, taken)(link)
    except InputError as error:
        assert "on this host" in str(error)  # noqa: PT017 - either answer is a no
    assert taken == []


def test_root_has_no_chains_here(lab_store: Store) -> None:
    with lab_store.begin() as tx:
        new = Registration(chain_id=CHAIN, links=3, mode=ChainMode.SUBMIT, recipe=RECIPE)
        chain_service.register_chain(tx, 1, new, uid=0, user="root", now=NOW)
    taken = Taken()
    with pytest.raises(InputError):
        build_submitter(lab_store, 1, taken)(replace(LINK, uid=0, user="root"))
    assert taken == []


def test_it_is_forgotten_with_the_chain_and_where_the_chain_is_anothers(lab_store: Store) -> None:
    for change in ({"state": ChainState.CANCELLED}, {"uid": 4711}):
        register(lab_store)
        with lab_store.begin() as tx:
            chain = chains.get_chain(tx, 1, CHAIN)
            chain_service.advance_chains(tx, 1, NOW)
            assert recipes.find_recipe(tx, 1, CHAIN) is not None
            chains.save_chain(tx, 1, replace(chain, **change))
            chain_service.advance_chains(tx, 1, NOW)
            assert recipes.find_recipe(tx, 1, CHAIN) is None
            chains.save_chain(tx, 1, chain)


def test_only_chains_without_standing_jobs_leave_one(lab_store: Store) -> None:
    register(lab_store, mode=ChainMode.STANDBY)
    with lab_store.read() as tx:
        assert recipes.find_recipe(tx, 1, CHAIN) is None


@pytest.mark.parametrize(
    "wrong",
    [{"carrier": "job.sh"}, {"carrier": "/a\nb"}, {"directory": "~"}, {"directory": "/a\x00"}],
    ids=str,
)
def test_a_recipe_that_no_wrapper_made_is_refused(lab_store: Store, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        register(lab_store, replace(RECIPE, **wrong))
