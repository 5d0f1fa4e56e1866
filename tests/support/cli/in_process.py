"""A command of `mirage` in this process: starting one of its own takes a second."""

import os
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from mirage.__main__ import main
from tests.support.api.running import CLUSTER
from tests.support.mirage_process import Answer


def environment(url: str | None, **more: str) -> dict[str, str]:
    """Without what the developer set for Mirage; the service is at `url`."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("MIRAGE_")}
    plain |= {"COLUMNS": "200", "MIRAGE_CLIENT_CONF": "/dev/null", "TZ": "UTC"}
    plain |= {"XDG_STATE_HOME": "/nonexistent", "MIRAGE_CLUSTER_NAME": CLUSTER}
    return plain | ({} if url is None else {"MIRAGE_URL": url}) | more


def run_in_process(*words: str, url: str | None = None, **more: str) -> Answer:
    """Run `mirage WORDS` in this process; `more` is added to its environment."""
    out, err = StringIO(), StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["mirage", *words])
        for name, value in environment(url, **more).items():
            patch.setenv(name, value)
        time.tzset()
        with pytest.raises(SystemExit) as ended:
            main()
    time.tzset()
    return Answer(int(ended.value.code or 0), out.getvalue(), err.getvalue())
