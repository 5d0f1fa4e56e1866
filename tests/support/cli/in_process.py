"""Runs a command of `mirage` in this process, because starting a process takes a second."""

import os
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from mirage.__main__ import main
from mirage.shipped_files import load_client_module
from tests.support import patient
from tests.support.api.running import CLUSTER
from tests.support.mirage_process import Answer


def environment(url: str | None, **more: str) -> dict[str, str]:
    """Return the environment without the developer's MIRAGE_ variables; `url`: of the service."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith("MIRAGE_")}
    variables |= {"COLUMNS": "200", "MIRAGE_CLIENT_CONF": "/dev/null", "TZ": "UTC"}
    variables |= {"XDG_STATE_HOME": "/nonexistent", "MIRAGE_CLUSTER_NAME": CLUSTER}
    return variables | ({} if url is None else {"MIRAGE_URL": url}) | more


def run_in_process(*words: str, url: str | None = None, **more: str) -> Answer:
    """Run `mirage WORDS` in this process; `more` is added to its environment."""
    out, err = StringIO(), StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["mirage", *words])
        patch.setattr(load_client_module("client.rest"), "LIMIT_S", patient.PATIENCE_S)
        for name, value in environment(url, **more).items():
            patch.setenv(name, value)
        time.tzset()
        with pytest.raises(SystemExit) as exit_info:
            main()
    time.tzset()
    return Answer(int(exit_info.value.code or 0), out.getvalue(), err.getvalue())
