"""The service's HTTP face: `create_app` puts routes, errors and the document together."""

import secrets

from fastapi import Depends, FastAPI
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirage.api import (
    admin,
    chains,
    cluster,
    documented,
    events,
    forecasts,
