"""The demo's site: the service, its API and its worker on a simulated cluster."""

import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Self

import uvicorn

from mirage.config.settings import Settings
from mirage.database.schema.engine import Store
from mirage.domain.snapshot import Snapshot
from mirage.domain.time_units import DAY_S
from mirage.errors import InputError
from mirage.lab.demo.comparison_plan import ComparisonPlan
from mirage.lab.demo.policy_comparison import ComparisonProgress, run_comparison
from mirage.lab.demo.simulated_cluster.cluster import SimulatedCluster
from mirage.policies import registry
from mirage.provision.cluster_observer import Observer
from mirage.provision.forecasts.shape_forecaster import ShapeForecaster
from mirage.service import database_setup, wiring
from mirage.service.api_wiring import build_api_context
from mirage.service.models_folder import prepare_models_folder
from mirage.service.wiring import Service
from mirage.service.worker import Intervals, Worker
from mirage.twin.cache import TwinCache
from mirage.web.api.app import create_app
from mirage.web.pages.app import mount_pages
from mirage.web.shared.auth import unix_peer

_LEFT_OUT = registry.MOVES_OFTEN | {"twin"}
"""Policies without chains of their own in a demo. `auto` uses them anyway. All sets of chains
share one queue, and three more sets would change that queue."""
PLAN = ComparisonPlan(policies=tuple(n for n in registry.NAMES if n not in _LEFT_OUT))
"""The chains of a demo, unless its caller wants others."""
_HISTORY_S = 6 * 3600


class _DemoSettings(Settings):
    """Settings of a demo. It acts on chains and a cluster that do not exist, so it never uses a
    real database."""

    @property
    def database_url(self) -> str:
        """Return the URL of the demo's own database.

        MIRAGE_DATABASE_URL is ignored, because an admin's shell may well have set it.
        """
        return f"sqlite:///{self.service.state_dir / 'mirage.db'}"


@dataclass(frozen=True, slots=True)
class DemoSite:
    """A service of its own, and the simulated cluster that it serves."""

    service: Service
    world: SimulatedCluster

    @classmethod
    def create_in(
        cls, state: Path, world: SimulatedCluster, *, pin: bool, learns: bool = False
    ) -> Self:
        """Make the service's database in the folder `state`. `pin`: whether policies may pin
        standbys. `learns`: whether the site has a folder for models of its own in `state`."""
        settings = _DemoSettings.model_validate(
            {
                "cluster": {"name": world.params.name},
                "service": {"state_dir": state, "admins": []},
                # at-once is shown as it is, and no policy's forecasts stop the others.
                "provision": {
                    "max_lead_h": 1000,
                    "user_overlap_node_h": 500,
                    "demote_error_h": 1e6,
                    "allow_pin": pin,
                    "models_dir": state / "models" if learns else None,
                },
            }
        )
        if learns:
            prepare_models_folder(settings)
        database_setup.upgrade_database(settings)
        store = Store(settings.database_url, durable=False)
        return cls(wiring.build_service(settings, world, store), world)

    @contextmanager
    def serve_api(self, port: int) -> Iterator[str]:
        """Serve the API and the pages in a thread of their own, and return their URL. Their
        clock is the last tick's. If `port` is in use, another port is taken."""
        listener = _bind_port(port)
        app = create_app(build_api_context(self.service))
        mount_pages(app)
        server = uvicorn.Server(
            uvicorn.Config(app, http=unix_peer.PeerProtocol, log_config=None, access_log=False)
        )
        thread = threading.Thread(target=server.run, args=([listener],), name="api", daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
            self.service.store.close()

    def fill_cluster(self, start: int, pause: Callable[[], None]) -> None:
        """Run the load alone until `start`, a day at a time. `pause` is called between days."""
        while self.world.read_clock() < start:
            pause()
            self.world.advance(min(DAY_S, start - self.world.read_clock()))

    def compare_policies(self, plan: ComparisonPlan) -> Iterator[ComparisonProgress]:
        """Run the plan's chains to their end. Yields once per simulated hour."""
        worker = self._build_worker(plan)
        return run_comparison(plan, self.service, self.world, worker)

    def keep_forecasting(self, wait: Callable[[], None]) -> NoReturn:
        """Between two calls of `wait`, ask the twin how long a job would wait that is submitted
        now. The clock stands still. An exception of `wait` ends the loop."""
        foreteller, observer = ShapeForecaster(), Observer(params=self.world.params)
        snapshot = Snapshot(queue=self.world.fetch_queue(), nodes=self.world.fetch_nodes())
        while True:
            foreteller.run_tick(self.service.store, self.service.cluster_id, snapshot, observer)
            wait()

    def _build_worker(self, plan: ComparisonPlan) -> Worker:
        intervals = Intervals(queue_s=plan.tick_s, nodes_s=2 * plan.tick_s, history_s=_HISTORY_S)
        params = self.world.params
        # A tick takes no simulated time, however long the twin computes.
        observer = Observer(params=params, twin_cache=TwinCache(budget_s=math.inf))
        settings = replace(
            wiring.build_decision_settings(self.service),
            observer=observer,
            accrues_always=lambda: params.accrue_always,
        )
        return Worker(
            self.service.store,
            self.world,
            self.service.cluster_id,
            settings=settings,
            intervals=intervals,
        )


def _bind_port(port: int) -> socket.socket:
    for candidate in (port, 0):
        try:
            return socket.create_server(("127.0.0.1", candidate))
        except OSError:
            continue
    raise InputError("the demo cannot listen: no TCP port of 127.0.0.1 is free")
