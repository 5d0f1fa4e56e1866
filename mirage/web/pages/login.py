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
def log_in(request: Request, context: Context, body: Body) -> Response:
    """Begin a session for the holder of a valid token, and lead back to the page before."""
    cookie_auth.require_same_origin(request)
    cookie_auth.require_https(request, context)
    fields = _parse_fields(body)
    after = _restrict_to_local(fields.get("next", "/"))
    request.state.has_credential = True
    token, now = fields.get("token", ""), context.clock()
    try:
        with context.store.read() as tx:  # a bad token must not block other writers
            caller = tokens.authenticate_token(tx, token, cluster_id=context.cluster_id, now=now)
        _check_owner(caller.uid, context.owner_uid)
        quota.get_quota(request).check_write(quota.to_quota_holder(caller))
        with context.store.begin() as tx:
            session = sessions.begin_session(tx, token, cluster_id=context.cluster_id, now=now)
    except (NotIdentified, NotAllowed) as error:
        denied_requests.record_denial(request, error)
        return _render_form(request, after, message=str(error), status=401)
    response = RedirectResponse(context.root_path + after, 303, headers=HEADERS)
    response.set_cookie(
        value=session.secret,
        max_age=session.lifetime_s,
        **cookie_auth.build_cookie(request, context),
    )
    return response


def _parse_fields(body: bytes) -> dict[str, str]:
    try:
        fields = parse_qs(body.decode(), max_num_fields=_FIELDS)
    except ValueError:
        return {}
    return {name: values[0].strip() for name, values in fields.items()}


def _check_owner(uid: int, owner_uid: int | None) -> None:
    if owner_uid is not None and uid != owner_uid:
        raise NotAllowed("this service serves only the user who runs it")


@router.post("/logout")
def log_out(request: Request, context: Context) -> Response:
    cookie_auth.require_same_origin(request)
    response = RedirectResponse(f"{context.root_path}/login", 303, headers=HEADERS)
    cookie = cookie_auth.find_session_cookie(request, context)
    if cookie is None:
        return response
    name, secret = cookie
    if _is_session_open(context, secret):
        with context.store.begin() as tx:
            sessions.end_session(tx, secret)
    response.delete_cookie(**cookie_auth.build_cookie_attributes(name, context))
    return response


def _is_session_open(context: ApiContext, secret: str) -> bool:
    with context.store.read() as tx:
        now = context.clock()
        return (
            sessions.find_session_caller(tx, secret, cluster_id=context.cluster_id, now=now)
            is not None
        )


def _render_form(request: Request, after: str, *, message: str = "", status: int = 200) -> Response:
    return render_bare_page(
        request, "login.html", title="Log in", status=status, after=after, message=message
    )


def _restrict_to_local(path: str) -> str:
    return path if _LOCAL.fullmatch(path) else "/"
