"""Reads the forms of pages, and accepts only those that a page of this service sent."""

from urllib.parse import parse_qs

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from mirage.errors import InputError
from mirage.web.pages.page_context import HEADERS
from mirage.web.shared.auth import cookie_auth
from mirage.web.shared.context import ApiContext

_FIELDS = 128


def parse_form(request: Request, body: bytes) -> dict[str, list[str]]:
    """Return the form's values by field name.

    Raises NotAllowed for a form from another site, and InputError for text that is no form.
    """
    cookie_auth.require_same_origin(request)
    try:
        fields = parse_qs(body.decode(), max_num_fields=_FIELDS)
    except ValueError as error:
        raise InputError("the form cannot be read: load the page again and resend it") from error
    if any("\0" in value for values in fields.values() for value in values):
        # PostgreSQL stores no NUL in a text.
        raise InputError("a field contains a NUL character: remove it and send the form again")
    return {name: [value.strip() for value in values] for name, values in fields.items()}


def get_field(fields: dict[str, list[str]], name: str) -> str:
    """Return the field's first value; empty text if the form does not have the field."""
    return fields.get(name, [""])[0]


def return_to_page(context: ApiContext, path: str) -> Response:
    """Redirect to a page. Reloading that page does not send the form again."""
    return RedirectResponse(context.root_path + path, 303, headers=HEADERS)
