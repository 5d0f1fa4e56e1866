"""`mirage serve`: the API and the worker in one process."""

import signal
import socket
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import structlog
import typer
import uvicorn

from mirage import bootstrap, logs
from mirage import settings as settings_file
from mirage.api.app import ApiContext, create_app
from mirage.bootstrap import Service
from mirage.cluster import munge
from mirage.errors import InputError
from mirage.policy import registry
from mirage.services import site
from mirage.worker import Intervals, Worker

app = typer.Typer()

KILL_FILE = "shadow"
"""A file of this name in the state directory is the kill switch."""

_GRACE_S = 10
"""For requests under way when the service ends."""

_log = structlog.get_logger(__name__)


@app.command()
def serve(
    *,
    config: Annotated[
        Path | None, typer.Option(help="mirage.toml. Default: MIRAGE_CONFIG, /etc/mirage.")
    ] = None,
) -> None:
    """Run the service: REST API and worker. SIGTERM finishes the tick under way and ends."""
    settings = settings_file.load(config)
    logs.set_up(settings.log_format)
    bootstrap.check_slurm(settings)
    for sentence in bootstrap.check(settings):
        _log.warning(sentence)
    run(bootstrap.service(settings))


def run(service: Service) -> None:
    """Serve until told to stop. The worker has a thread of its own; the cluster is its alone."""
    settings = service.settings.service
    listening = _listen(settings.host, settings.port)
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(api_context(service)),
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
    )
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        server.should_exit = True

    # uvicorn ends on these, and then raises them again for whoever was asked before it: by default
    # that ends the process, in the middle of a tick.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    worker = threading.Thread(
        target=_work, args=(make_worker(service), service, stop), name="worker"
    )
    _log.info("serving", url=f"http://{settings.host}:{listening.getsockname()[1]}")
    worker.start()
    try:
        server.run([listening])
    finally:
        stop.set()
        worker.join()
        service.store.close()
    _log.info("ended")


def _work(worker: Worker, service: Service, stop: threading.Event) -> None:
    if ask := bootstrap.site_config(service.cluster):
        site.tell(ask, service.settings.cluster.name)
    worker.run(stop)


def _listen(host: str, port: int) -> socket.socket:
    """Before the worker starts: who cannot be reached shall not act either."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise InputError(
            f"cannot listen on {host}, port {port}: {error.strerror}. "
            "Set service.host and service.port, or end what listens there"
        ) from error
    return listening


def make_worker(service: Service) -> Worker:
    settings = service.settings
    polling = settings.polling
    intervals = Intervals(
        queue_s=polling.queue_s,
        nodes_s=polling.nodes_s,
        history_s=polling.history_s,
        pushed_queue_s=polling.pushed_queue_s,
    )
    return Worker(
        service.store,
        service.cluster,
        service.cluster_id,
        rules=bootstrap.rules(service),
        intervals=intervals,
        kill_file=settings.service.state_dir / KILL_FILE,
    )


def api_context(service: Service) -> ApiContext:
    """What the routes may ask for."""
    settings = service.settings
    return ApiContext(
        store=service.store,
        cluster_id=service.cluster_id,
        cluster_name=settings.cluster.name,
        admins=settings.service.admins,
        clock=service.cluster.now,
        identify=munge.identify,
        pushers=settings.polling.pushers,
        queue_interval_s=settings.polling.queue_s,
        policies=registry.NAMES,
        model=bootstrap.policies(settings),
        usage=bootstrap.usage(service.cluster),
    )
