"""Reads the forms of pages, and accepts only those that a page of this service sent."""

from urllib.parse import parse_qs

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from mirage.errors import InputError
from mirage.http.auth import cookie_auth
from mirage.http.context import ApiContext
from mirage.web.page_context import HEADERS

_FIELDS = 128


def parse_form(request: Request, body: bytes) -> dict[str, list[str]]:
    """Return the form's values by field name.

    Raises NotAllowed for a form from another site, and InputError for text that is no form.
    """
    cookie_auth.require_same_origin(request)
    try:
        found = parse_qs(body.decode(), max_num_fields=_FIELDS)
    except ValueError as error:
        raise InputError("the form does not read") from error
    if any("\0" in value for values in found.values() for value in values):
        raise InputError("a field holds NUL")  # PostgreSQL keeps none in a text
    return {name: [value.strip() for value in values] for name, values in found.items()}


def get_field(fields: dict[str, list[str]], name: str) -> str:
    """Empty where it was left out."""
    return fields.get(name, [""])[0]


def return_to_page(given: ApiContext, path: str) -> Response:
    """To a page, whose reload sends nothing again."""
    return RedirectResponse(given.root_path + path, 303, headers=HEADERS)
