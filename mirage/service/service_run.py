"""Runs the service as one process: listeners, threads and shutdown."""

import gc
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import structlog
import uvicorn
from fastapi import FastAPI

from mirage.config.settings import ServiceSettings
from mirage.errors import InputError
from mirage.provision.control import kill_switch
from mirage.provision.forecasts.shape_forecaster import ShapeForecaster
from mirage.reports.slurmctld_load import LoadSensor
from mirage.service import notice_channels, sd_notify, site_warnings, wiring
from mirage.service.api_wiring import build_api_context
from mirage.service.retention import Retention
from mirage.service.sd_notify import Notifier
from mirage.service.wiring import Service
from mirage.service.worker import Intervals, Worker
from mirage.slurm.clients.heartbeat import HeartbeatCluster
from mirage.slurm.commands.sdiag import Diagnosis
from mirage.web.api.app import create_app
from mirage.web.identity.polled_value import poll_until_stopped
from mirage.web.identity.slurm_permissions import SlurmPermissions
from mirage.web.pages.app import mount_pages
from mirage.web.shared.auth import unix_peer
from mirage.web.shared.server import admission
from mirage.web.shared.server.listening import Server

URL_FILE = "url"
"""The file in the state directory of a user's own service that holds its address. It exists as
long as the service runs."""

SWITCH_S = 0.0005
"""A computing thread lets other threads run after this many seconds; Python's default is 5 ms. A
request takes the interpreter lock dozens of times (each row, each packet), and beside a tick the
waits add up (docs/reference/rest.md)."""

_GRACE_S = 10
"""How long requests under way may take when the service ends, in seconds."""

_ASKED_S = 5.0
"""The longest wait, in seconds, for Slurm's permissions before the service answers."""

_log = structlog.get_logger(__name__)


class KernelCompiler:
    """Compiles the kernels for a cluster file in a process beside the service.

    Rules decide until that process has ended. It takes seconds if all kernels are in the cache on
    disk.
    """

    def __init__(self, file: Path | None) -> None:
        """`file`: the cluster file; None: there is nothing to compile."""
        self._file = file
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [sys.executable, "-P", "-m", "mirage.service.kernel_warmup"]
        if self._file is not None:
            self._process = subprocess.Popen([*words, str(self._file)], stdin=subprocess.DEVNULL)  # noqa: S603 - a program of ours

    def is_done(self) -> bool:
        """Return whether the compilation has ended, also if it failed. After a failure the
        worker compiles, and reports the fault."""
        process = self._process
        if process is None:
            return True
        if process.poll() is None:
            return False
        _log.info("compiled", code=process.returncode)
        self._process = None
        return True

    def end(self) -> None:
        process = self._process
        if process is not None:
            process.kill()
            process.wait()


def run_service(service: Service, *, owner_uid: int | None = None) -> None:
    """Serve until told to stop. The worker has a thread of its own, and only it uses the cluster.

    `owner_uid`: the only user who is served, and whose jobs are touched.
    """
    settings = service.settings.service
    systemd = sd_notify.from_environment()
    systemd.extend_watchdog(service.settings.cluster.command_timeout_s)
    known = wiring.build_slurm_permissions(service)
    most = admission.compute_connection_limit(
        service.settings.connections.most, admission.raise_descriptor_limit()
    )
    served = create_app(
        build_api_context(service, owner_uid=owner_uid, known=known, connections=most)
    )
    mount_pages(served)
    compiler = KernelCompiler(service.settings.cluster.file)
    worker = _build_worker(
        service,
        owner_uid=owner_uid,
        alive=systemd.notify_alive,
        is_compiled=compiler.is_done,
        known=known,
    )
    listening = _open_listener(settings.host, settings.port)
    url = f"http://{settings.host}:{listening.getsockname()[1]}"
    sockets = [listening]
    if settings.socket is not None:
        sockets.append(unix_peer.listen_on_path(settings.socket, private=owner_uid is not None))
    compiler.start()  # no sooner: a service that cannot listen leaves no process behind
    server = _build_server(
        service, served, most, started=lambda: systemd.notify_ready(f"serving {url}")
    )
    stop = threading.Event()
    _end_on_signals(server, stop, systemd)
    thread = threading.Thread(
        target=_run_worker, args=(worker, service, stop, systemd), name="worker"
    )
    courier = notice_channels.build_courier(service)
    # It ends with the process. Notices not yet sent are sent after the next start.
    post = threading.Thread(
        target=courier.run if courier else _skip_notices, args=(stop,), daemon=True
    )
    with publish_address(settings, own=owner_uid is not None):
        _start_permission_refresh(known, stop)
        told = {"socket": str(settings.socket)} if settings.socket else {}
        _log.info("serving", url=url, **told, may_move=known.reach().describe_scope())
        configure_interpreter()
        thread.start()
        post.start()
        try:
            server.run(sockets)
        finally:
            stop.set()
            compiler.end()
            thread.join()
            post.join(_GRACE_S)
            service.store.close()
    _log.info("ended")


@contextmanager
def publish_address(settings: ServiceSettings, *, own: bool) -> Iterator[None]:
    """Write the file with the service's address, and remove it and the socket at the end,
    however the service ends. Somebody else could own the address afterwards."""
    file = settings.state_dir / URL_FILE
    try:
        if own:
            file.write_text(f"unix://{settings.socket}\n")
        yield
    finally:
        if own:
            file.unlink(missing_ok=True)
        if settings.socket is not None:
            settings.socket.unlink(missing_ok=True)


def _build_server(
    service: Service, served: FastAPI, most: int, *, started: Callable[[], None]
) -> Server:
    limits = service.settings.connections
    if most < limits.most:
        _log.warning("fewer connections than configured: few descriptors", connections=most)
    return Server(
        served,
        admission.Admission(
            most, limits.of_one, admission.resolve_proxies(service.settings.service.proxies)
        ),
        patience=unix_peer.ClientTimeouts(head_s=limits.head_s, body_s=limits.body_s),
        keep_alive_s=limits.idle_s,
        grace_s=_GRACE_S,
        on_started=started,
    )


def configure_interpreter() -> None:
    """Configure a process that answers requests while one of its threads computes.

    Call this function after everything is loaded.
    """
    sys.setswitchinterval(SWITCH_S)
    # What is loaded by now stays: looking through it for garbage would keep every request waiting
    # for a tenth of a second.
    gc.freeze()


def _end_on_signals(server: uvicorn.Server, stop: threading.Event, systemd: Notifier) -> None:
    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        systemd.notify_stopping()
        server.should_exit = True

    # uvicorn ends on these, and then raises them again for whoever was asked before it: by default
    # that ends the process, in the middle of a tick.
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]  # nohup
    for number in (signal.SIGTERM, signal.SIGINT, *hangup):
        signal.signal(number, end)


def _start_permission_refresh(known: SlurmPermissions, stop: threading.Event) -> None:
    """Start a thread that refreshes Slurm's permissions until the process ends.

    The function waits for the first answers, but not for long. Until they come, no caller has a
    Slurm role and everything is private.
    """
    asked = threading.Event()
    threading.Thread(
        target=poll_until_stopped, args=(known.polled, asked, stop), daemon=True
    ).start()
    asked.wait(_ASKED_S)


def _skip_notices(_stop: threading.Event) -> None:
    """Send no notices."""


def _run_worker(worker: Worker, service: Service, stop: threading.Event, systemd: Notifier) -> None:
    def sleep(seconds: float) -> None:
        systemd.notify_alive()
        time.sleep(seconds)

    if ask := wiring.get_site_config_reader(service.cluster):
        site_warnings.warn_about_site(ask, service.settings.cluster.name)
    worker.run(stop, sleep)


def _open_listener(host: str, port: int) -> socket.socket:
    """Open the listening socket before the worker starts. A service that nobody can reach shall
    not act either."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise InputError(
            f"cannot listen on {host}, port {port}: {error.strerror}. "
            "Set service.host and service.port, or stop what listens there"
        ) from error
    return listening


def _build_worker(
    service: Service,
    *,
    owner_uid: int | None = None,
    alive: Callable[[], None] = lambda: None,
    is_compiled: Callable[[], bool] = lambda: True,
    known: SlurmPermissions | None = None,
) -> Worker:
    """Build the worker. `alive` is called at each answer of Slurm, and at each question without
    one.

    `known`: Slurm's permissions; None: no permissions are known, and all moves are tried.
    """
    settings = service.settings
    polling = settings.polling
    intervals = Intervals(
        queue_s=polling.queue_s,
        nodes_s=polling.nodes_s,
        history_s=polling.history_s,
        pushed_queue_s=polling.pushed_queue_s,
    )
    rules = wiring.build_rules(service)
    if known is not None:
        rules = replace(rules, reach=known.reach, accrual=known.accrual)
    observer = rules.observer and replace(rules.observer, is_compiled=is_compiled)

    return Worker(
        service.store,
        HeartbeatCluster(service.cluster, alive),
        service.cluster_id,
        rules=replace(rules, observer=observer),
        intervals=intervals,
        kill_file=settings.service.state_dir / kill_switch.FILE,
        owner_uid=owner_uid,
        foreteller=ShapeForecaster(),
        watch=notice_channels.build_watch(settings.notify),
        usage=wiring.get_usage_reader(service.cluster),
        sensor=_build_sensor(service, alive),
        alarms=wiring.get_alarm_reader(service.cluster),
        keep=Retention(**settings.retention.model_dump()),
        chains_a_day=settings.quota.registrations_per_day,
    )


def _build_sensor(service: Service, alive: Callable[[], None]) -> LoadSensor | None:
    ask, every_s = wiring.get_diagnosis_reader(service.cluster), service.settings.polling.diag_s
    if ask is None or every_s == 0:
        return None

    def ask_with_heartbeat() -> tuple[Diagnosis, str]:
        try:
            return ask()
        finally:
            alive()

    return LoadSensor(ask_with_heartbeat, every_s)
