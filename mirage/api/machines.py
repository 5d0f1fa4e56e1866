"""Routes that machines call: a running link that asks what to do, and slurmctld's epilog."""

from typing import Annotated

from fastapi import APIRouter, Query

from mirage.api import schemas
from mirage.api.chains import ChainPath, seen
from mirage.api.deps import Context, Identified, Reading, Writer, Writing
from mirage.api.documented import write_errors
from mirage.api.once import Once
from mirage.domain.chain import MAX_LINKS, ChainId, ChainMode
from mirage.domain.job import JobId
from mirage.errors import NotAllowed
from mirage.services import caps, submitting
from mirage.services.next_plan import next_plan
from mirage.store import pushes

router = APIRouter(tags=["machines"])


@router.get(
    "/chains/{chain_id}/next",
    operation_id="getNextLink",
    responses=write_errors(404),
    response_model_exclude_unset=True,
)
def get_next_link(
    chain_id: ChainPath,
    given: Context,
    who: Identified,
    tx: Reading,
    link: Annotated[
        int | None, Query(gt=0, le=MAX_LINKS, description="The number of the link that asks.")
    ] = None,
) -> schemas.NextLinkView:
    """What the running link of a chain does about the next one. For its owner.

    Of mode submit: shall it submit it now? Of a chain with standbys: the lead to plan.
    """
    found = seen(tx, ChainId(chain_id), who)
    if found.uid != who.uid:
        raise NotAllowed(f"chain {chain_id} is not {who.user}'s")
    if found.mode is not ChainMode.SUBMIT:
        plan = next_plan(
            tx,
            given.cluster_id,
            found,
            index=link,
            default=given.policy,
            limits=caps.in_force(tx, given.cluster_id, given.limits),
            now=given.clock(),
            tick_s=given.queue_interval_s,
        )
        return schemas.NextLinkView(
            submit_now=False, ask_again_s=plan.ask_again_s, mode=plan.mode, lead_s=plan.lead_s
        )
    answer = submitting.next_link(tx, found, given.clock(), given.queue_interval_s)
    return schemas.NextLinkView(submit_now=answer.submit_now, ask_again_s=answer.ask_again_s)


@router.post(
    "/completions", operation_id="reportCompletion", status_code=202, responses=write_errors(409)
)
def report_completion(
    ended: schemas.CompletionEvent, given: Context, who: Writer, tx: Writing, key: Once
) -> schemas.CompletionView:
    """A job has ended: from slurmctld (slurm_plugin/hooks/mirage-push), so as to be asked less."""
    if who.user not in given.pushers:
        raise NotAllowed(f"{who.user} is not slurmctld's user here (polling.pushers)")
    job_id, now = JobId(ended.job_id), given.clock()
    return key.once(
        lambda: schemas.CompletionView(looks=pushes.told(tx, given.cluster_id, job_id, now)),
        lambda: schemas.CompletionView(looks=pushes.awaits(tx, given.cluster_id, job_id)),
    )
