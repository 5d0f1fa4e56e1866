"""Refuses query parameters that a route would ignore: the answer would be about something else."""

from collections import Counter
from collections.abc import Collection
from difflib import get_close_matches
from typing import get_args, get_origin

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic.fields import FieldInfo

from mirage.web.shared.problems import INVALID, Fault, ProblemError


def reject_unknown_parameters(request: Request) -> None:
    """Raise a problem that names each unknown parameter of the query, and the nearest known one.

    It names as well what the query has twice, unless it is a list: the last would count.
    """
    route = request.scope.get("route")
    if not request.query_params or not isinstance(route, APIRoute):
        return
    known = _collect_parameters(route.dependant)
    times = Counter(name for name, _ in request.query_params.multi_items())
    faults = [_build_fault(name, known) for name in times if name not in known]
    faults += [
        Fault(f"the query has it {many} times, and it takes one value", parameter=name)
        for name, many in times.items()
        if many > 1 and not known.get(name, True)
    ]
    if faults:
        detail = "; ".join(f"{fault.parameter}: {fault.detail}" for fault in faults)
        raise ProblemError(INVALID, detail, faults)


def _collect_parameters(dependant: Dependant) -> dict[str, bool]:
    """Return whether each parameter is a list, by its name."""
    found = {field.alias: _is_list(field.field_info) for field in dependant.query_params}
    for each in dependant.dependencies:
        found |= _collect_parameters(each)
    return found


def _is_list(parameter: FieldInfo) -> bool:
    annotation = parameter.annotation
    return any(get_origin(kind) is list for kind in (annotation, *get_args(annotation)))


def _build_fault(name: str, known: Collection[str]) -> Fault:
    shown = name[:64]
    near = get_close_matches(shown, known, n=1, cutoff=0.5)
    if near:
        return Fault(f"there is no such parameter: did you mean {near[0]}?", parameter=shown)
    told = f"this address takes {', '.join(sorted(known))}" if known else "this address takes none"
    return Fault(f"there is no such parameter: {told}", parameter=shown)
