"""Routes on the service itself: is it alive, is it ready, how far may it go."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from mirage.api import schemas
from mirage.api.deps import Context, freshness
from mirage.api.documented import read_errors
from mirage.api.problems import KINDS, NOT_READY, ProblemError
from mirage.errors import NotFound

probes = APIRouter(tags=["system"])


@probes.get("/healthz", operation_id="getHealth", responses=read_errors())
def get_health() -> schemas.Health:
    """The process is alive."""
    return schemas.Health()


@probes.get("/readyz", operation_id="getReadiness", responses=read_errors())
def get_readiness(given: Context) -> schemas.Health:
    """The database is of this program's schema, and the cluster was looked at lately."""
    given.store.check_schema()
    with given.store.read() as tx:
        fresh = freshness(tx, given)
    if fresh.as_of is None:
        raise ProblemError(NOT_READY, "the cluster has not been looked at yet")
    if fresh.stale:
        raise ProblemError(
            NOT_READY,
            f"the cluster was last looked at {fresh.as_of.isoformat()}, "
            f"more than {given.stale_after_s} s ago",
        )
    return schemas.Health()


@probes.get("/problems/{name}", operation_id="explainProblem", responses=read_errors(404))
def explain_problem(name: str) -> PlainTextResponse:
    """What a problem's `type` means and what to do about it."""
    kind = KINDS.get(name)
    if kind is None:
        raise NotFound(f"there is no problem {name}")
    return PlainTextResponse(f"{kind.title} ({kind.status})\n\n{kind.advice}\n")
