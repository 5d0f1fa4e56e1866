"""The page Log in: /login takes a token and begins a session; /logout ends the session."""

import re
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from mirage.errors import NotAllowed, NotIdentified
from mirage.web.identity import sessions, tokens
from mirage.web.pages.page_context import HEADERS, render_bare_page
from mirage.web.shared import denied_requests, quota
from mirage.web.shared.auth import cookie_auth
from mirage.web.shared.context import ApiContext
from mirage.web.shared.dependencies import Body, Context

router = APIRouter(include_in_schema=False)

_LOCAL = re.compile(r"/(?:[A-Za-z0-9_.~-][A-Za-z0-9_./~?=&%+,:-]*)?")
"""A path of this service; nothing that a browser could take for an address of another host."""
_FIELDS = 8


@router.get("/login")
def show_login(request: Request, after: Annotated[str, Query(alias="next")] = "/") -> Response:
    return _render_form(request, _restrict_to_local(after))


@router.post("/login")
def log_in(request: Request, given: Context, body: Body) -> Response:
    """Begin a session for the holder of a valid token, and lead back to the page before."""
    cookie_auth.require_same_origin(request)
    cookie_auth.require_https(request, given)
    fields = _parse_fields(body)
    after = _restrict_to_local(fields.get("next", "/"))
    request.state.claimed = True
    token, now = fields.get("token", ""), given.clock()
    try:
        with given.store.read() as tx:  # a bad token must not block other writers
            who = tokens.authenticate_token(tx, token, cluster_id=given.cluster_id, now=now)
        _check_owner(who.uid, given.owner_uid)
        quota.get_quota(request).check_write(quota.to_asker(who))
        with given.store.begin() as tx:
            begun = sessions.begin_session(tx, token, cluster_id=given.cluster_id, now=now)
    except (NotIdentified, NotAllowed) as error:
        denied_requests.record_denial(request, error)
        return _render_form(request, after, said=str(error), status=401)
    answered = RedirectResponse(given.root_path + after, 303, headers=HEADERS)
    answered.set_cookie(
        value=begun.secret, max_age=begun.lasts_s, **cookie_auth.build_cookie(request, given)
    )
    return answered


def _parse_fields(body: bytes) -> dict[str, str]:
    try:
        found = parse_qs(body.decode(), max_num_fields=_FIELDS)
    except ValueError:
        return {}
    return {name: values[0].strip() for name, values in found.items()}


def _check_owner(uid: int, owner_uid: int | None) -> None:
    if owner_uid is not None and uid != owner_uid:
        raise NotAllowed("this service serves only the user who runs it")


@router.post("/logout")
def log_out(request: Request, given: Context) -> Response:
    cookie_auth.require_same_origin(request)
    answered = RedirectResponse(f"{given.root_path}/login", 303, headers=HEADERS)
    held = cookie_auth.find_session_cookie(request, given)
    if held is None:
        return answered
    name, secret = held
    if _is_session_open(given, secret):
        with given.store.begin() as tx:
            sessions.end_session(tx, secret)
    answered.delete_cookie(**cookie_auth.build_cookie_attributes(name, given))
    return answered


def _is_session_open(given: ApiContext, secret: str) -> bool:
    with given.store.read() as tx:
        now = given.clock()
        return (
            sessions.find_session_caller(tx, secret, cluster_id=given.cluster_id, now=now)
            is not None
        )


def _render_form(request: Request, after: str, *, said: str = "", status: int = 200) -> Response:
    return render_bare_page(
        request, "login.html", title="Log in", status=status, after=after, said=said
    )


def _restrict_to_local(path: str) -> str:
    return path if _LOCAL.fullmatch(path) else "/"
