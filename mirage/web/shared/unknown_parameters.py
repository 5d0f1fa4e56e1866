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
    parameters = _collect_parameters(route.dependant)
    counts = Counter(name for name, _ in request.query_params.multi_items())
    faults = [_build_fault(name, parameters) for name in counts if name not in parameters]
    faults += [
        Fault(f"the query has it {count} times, and it takes one value", parameter=name)
        for name, count in counts.items()
        if count > 1 and not parameters.get(name, True)
    ]
    if faults:
        detail = "; ".join(f"{fault.parameter}: {fault.detail}" for fault in faults)
        raise ProblemError(INVALID, detail, faults)


def _collect_parameters(dependant: Dependant) -> dict[str, bool]:
    """Return whether each parameter is a list, by its name."""
    parameters = {field.alias: _is_list(field.field_info) for field in dependant.query_params}
    for dependency in dependant.dependencies:
        parameters |= _collect_parameters(dependency)
    return parameters


def _is_list(parameter: FieldInfo) -> bool:
    annotation = parameter.annotation
    return any(get_origin(kind) is list for kind in (annotation, *get_args(annotation)))


def _build_fault(name: str, parameters: Collection[str]) -> Fault:
    short_name = name[:64]
    suggestions = get_close_matches(short_name, parameters, n=1, cutoff=0.5)
    if suggestions:
        return Fault(
            f"there is no such parameter: did you mean {suggestions[0]}?", parameter=short_name
        )
    hint = (
        f"this address takes {', '.join(sorted(parameters))}"
        if parameters
        else "this address takes none"
    )
    return Fault(f"there is no such parameter: {hint}", parameter=short_name)
