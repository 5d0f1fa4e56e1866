"""`mirage_slurm.Chain` against the real service, on its unix socket."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from mirage.database.chains import chains
from mirage.database.schema.engine import Store
from mirage.domain.chain import Chain, ChainId, ChainState
from mirage.slurm.clients.auth import munge
from mirage.web.api.app import ApiContext
from tests.support.api.fixtures import context, stage, store
from tests.support.api.rows import add_decision, add_links, look
from tests.support.api.running import CHAIN, NOW, Stage
from tests.support.slurm_plugin.fakes import FakeSlurm

__all__ = ["context", "stage", "store"]

ME = pwd.getpwuid(os.geteuid())


@pytest.fixture
def own(
    stage: Stage,
    context: ApiContext,
    store: Store,
    slurm: FakeSlurm,
    plugin: Callable[[str], Any],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Any]:
    """My chain, of which the service knows three links and this host only an empty directory."""
    mine = Chain(
        chain_id=ChainId(CHAIN), uid=ME.pw_uid, user=ME.pw_name, links_planned=8, created_at=NOW
    )
    with store.begin() as tx:
        chains.save_chain(tx, context.cluster_id, mine)
        add_links(tx, context.cluster_id)
        add_decision(tx, context.cluster_id)
    look(store, context.cluster_id)
    (slurm.root / CHAIN / "ends").mkdir(parents=True)
    for name, value in slurm.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MIRAGE_STATE_DIR", str(slurm.root))
    monkeypatch.setenv("MIRAGE_URL", f"unix://{stage.socket_path}")
    with stage.serving(replace(context, identify=munge.authenticate_caller, admins=())):
        yield plugin("mirage_slurm").Chain(CHAIN)


def test_the_service_says_how_the_chain_stands(own: Any) -> None:
    assert own.state == "active"
    assert [(link.number, link.job_id, link.state) for link in own.links] == [
        *[(1, 101, "ended"), (2, 102, "ended"), (3, 103, "running")],
    ]
    last_line = own.explain().splitlines()[-1]
    assert ", link " in last_line, "a decision"


def test_the_service_hears_that_its_user_ends_the_chain(own: Any, store: Store) -> None:
    own.cancel()
    with store.read() as tx:
        assert chains.get_chain(tx, 1, ChainId(CHAIN)).state is ChainState.CANCELLED
    assert own.wait() == "cancelled"
