"""Refuses query parameters that a route does not have: ignored, they would answer everything."""

from difflib import get_close_matches

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from mirage.http.problems import INVALID, Fault, ProblemError


def reject_unknown_parameters(request: Request) -> None:
    """Raise a problem that names each unknown parameter of the query, and the nearest known one."""
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = _collect_parameters(route.dependant)
    faults = [_build_fault(name, known) for name in request.query_params if name not in known]
    if faults:
        detail = "; ".join(f"{fault.parameter}: {fault.detail}" for fault in faults)
        raise ProblemError(INVALID, detail, faults)


def _collect_parameters(dependant: Dependant) -> set[str]:
    found = {field.alias for field in dependant.query_params}
    return found.union(*(_collect_parameters(each) for each in dependant.dependencies))


def _build_fault(name: str, known: set[str]) -> Fault:
    shown = name[:64]
    near = get_close_matches(shown, known, n=1, cutoff=0.5)
    if near:
        return Fault(f"there is no such parameter: did you mean {near[0]}?", parameter=shown)
    told = f"this address takes {', '.join(sorted(known))}" if known else "this address takes none"
    return Fault(f"there is no such parameter: {told}", parameter=shown)
