"""Runs the service as one process: listeners, threads and shutdown."""

import gc
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
from mirage.service.nightly_learning import NightlyLearning, build_learn_command
from mirage.service.retention import Retention
from mirage.service.sd_notify import Notifier
from mirage.service.wiring import Service
from mirage.service.worker import Intervals, Worker
from mirage.slurm.clients.heartbeat import HeartbeatCluster
from mirage.slurm.clients.permissions import SlurmPermissions
from mirage.slurm.clients.polled_value import poll_until_stopped
from mirage.slurm.commands.sdiag import Diagnosis
from mirage.web.api.app import create_app
from mirage.web.pages.app import mount_pages
from mirage.web.shared.auth import unix_peer
from mirage.web.shared.server import admission
from mirage.web.shared.server.listening import Server

URL_FILE = "url"
"""The file in the state directory of a user's own service that holds its address. It exists as
long as the service runs."""

SWITCH_S = 0.0005
"""A computing thread lets other threads run after this many seconds; Python's default is 5 ms. A
request takes the interpreter lock dozens of times (for each row and packet), and during a tick its
waits for the lock add up (docs/reference/rest.md)."""

_GRACE_S = 10
"""How long requests under way may take when the service ends, in seconds."""

_PERMISSIONS_WAIT_S = 5.0
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
        self._lock = threading.Lock()

    def start(self) -> None:
        command = [sys.executable, "-P", "-m", "mirage.service.kernel_warmup"]
        if self._file is not None:
            self._process = subprocess.Popen([*command, str(self._file)], stdin=subprocess.DEVNULL)  # noqa: S603 - a program of ours

    def is_done(self) -> bool:
        """Return whether the compilation has ended, also if it failed. After a failure the
        worker compiles, and reports the fault. Any thread may ask."""
        with self._lock:
            if self._process is None:
                return True
            if self._process.poll() is None:
                return False
            _log.info("compiled", code=self._process.returncode)
            self._process = None
            return True

    def end(self) -> None:
        process = self._process
        if process is not None:
            process.kill()
            process.wait()


def run_service(
    service: Service, *, owner_uid: int | None = None, learn_options: Sequence[str] = ()
) -> None:
    """Serve until a signal. The worker has a thread of its own, and only it uses the cluster.

    `owner_uid`: the only user who is served, and whose jobs are moved; None: all users.
    `learn_options`: of `mirage learn`, so that it reads the settings of this service.
    """
    settings = service.settings.service
    systemd = sd_notify.from_environment()
    systemd.extend_watchdog(service.settings.cluster.command_timeout_s)
    permissions = wiring.build_slurm_permissions(service)
    max_connections = admission.compute_connection_limit(
        service.settings.connections.most, admission.raise_descriptor_limit()
    )
    compiler = KernelCompiler(service.settings.cluster.file)
    context = build_api_context(
        service,
        owner_uid=owner_uid,
        permissions=permissions,
        connections=max_connections,
        is_compiled=compiler.is_done,
    )
    app = create_app(context)
    mount_pages(app)
    learning = _build_learning(service, learn_options)
    worker = _build_worker(
        service,
        owner_uid=owner_uid,
        learning=learning,
        on_answer=systemd.notify_alive,
        is_compiled=compiler.is_done,
        permissions=permissions,
    )
    url, sockets = _open_sockets(settings, private=owner_uid is not None)
    compiler.start()  # no sooner: a service that cannot listen leaves no process behind
    server = _build_server(
        service, app, max_connections, on_start=lambda: systemd.notify_ready(f"serving {url}")
    )
    stop = threading.Event()
    _end_on_signals(server, stop, systemd)
    thread = threading.Thread(
        target=_run_worker, args=(worker, service, stop, systemd), name="worker"
    )
    courier_thread = _build_courier_thread(service, stop)
    with publish_address(settings, own=owner_uid is not None):
        _start_permission_refresh(permissions, stop)
        fields = {"socket": str(settings.socket)} if settings.socket else {}
        _log.info("serving", url=url, **fields, may_move=permissions.reach().describe_scope())
        configure_interpreter()
        thread.start()
        courier_thread.start()
        try:
            server.run(sockets)
        finally:
            stop.set()
            compiler.end()
            thread.join()
            if learning is not None:
                learning.end()
            courier_thread.join(_GRACE_S)
            service.store.close()
    _log.info("ended")


@contextmanager
def publish_address(settings: ServiceSettings, *, own: bool) -> Iterator[None]:
    """Write the address file of a user's own service; remove it and the socket at the end.

    They are removed after an error too, because another program may get the same address later.
    """
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
    service: Service, app: FastAPI, max_connections: int, *, on_start: Callable[[], None]
) -> Server:
    limits, proxies = service.settings.connections, service.settings.service.proxies
    if max_connections < limits.most:
        _log.warning(
            "fewer connections than configured: few descriptors", connections=max_connections
        )
    return Server(
        app,
        admission.Admission(max_connections, limits.of_one, admission.resolve_proxies(proxies)),
        patience=unix_peer.ClientTimeouts(head_s=limits.head_s, body_s=limits.body_s),
        keep_alive_s=limits.idle_s,
        grace_s=_GRACE_S,
        on_started=on_start,
    )


def configure_interpreter() -> None:
    """Configure a process that answers requests while one of its threads computes.

    Call this function after everything is loaded.
    """
    sys.setswitchinterval(SWITCH_S)
    # Objects that exist by now stay. A collection that looked through them would make every request
    # wait for a tenth of a second.
    gc.freeze()


def _end_on_signals(server: uvicorn.Server, stop: threading.Event, systemd: Notifier) -> None:
    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        systemd.notify_stopping()
        server.should_exit = True

    # uvicorn ends on these signals, and then raises them again for the handler before its own. By
    # default that ends the process in the middle of a tick, so this handler stands there.
    hangup = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]  # nohup
    for number in (signal.SIGTERM, signal.SIGINT, *hangup):
        signal.signal(number, end)


def _start_permission_refresh(permissions: SlurmPermissions, stop: threading.Event) -> None:
    """Start a thread that refreshes Slurm's permissions until the process ends.

    The function waits at most _PERMISSIONS_WAIT_S for the first answers. Until they come, no caller
    has a Slurm role and everything is private.
    """
    first_poll_done = threading.Event()
    threading.Thread(
        target=poll_until_stopped, args=(permissions.polled, first_poll_done, stop), daemon=True
    ).start()
    first_poll_done.wait(_PERMISSIONS_WAIT_S)


def _build_courier_thread(service: Service, stop: threading.Event) -> threading.Thread:
    """Return the thread that sends notices.

    It ends with the process. Notices not sent by then wait for the next start.
    """
    courier = notice_channels.build_courier(service)
    run = courier.run if courier else _skip_notices
    return threading.Thread(target=run, args=(stop,), daemon=True)


def _skip_notices(_stop: threading.Event) -> None:
    """Send no notices."""


def _build_learning(service: Service, options: Sequence[str]) -> NightlyLearning | None:
    if service.settings.learn.schedule != "service":
        return None
    return NightlyLearning(build_learn_command(options))


def _run_worker(worker: Worker, service: Service, stop: threading.Event, systemd: Notifier) -> None:
    def sleep(seconds: float) -> None:
        systemd.notify_alive()
        time.sleep(seconds)

    if read_site_config := wiring.get_site_config_reader(service.cluster):
        site_warnings.warn_about_site(read_site_config, service.settings.cluster.name)
    worker.run(stop, sleep)


def _open_sockets(settings: ServiceSettings, *, private: bool) -> tuple[str, list[socket.socket]]:
    """Open the sockets at which the API listens; return the address of the first one too."""
    listening = _open_listener(settings.host, settings.port)
    url = f"http://{settings.host}:{listening.getsockname()[1]}"
    if settings.socket is None:
        return url, [listening]
    return url, [listening, unix_peer.listen_on_path(settings.socket, private=private)]


def _open_listener(host: str, port: int) -> socket.socket:
    """Open the listening socket.

    Call this before the worker starts: a service that nobody can reach must not act either.
    """
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
    on_answer: Callable[[], None] = lambda: None,
    is_compiled: Callable[[], bool] = lambda: True,
    permissions: SlurmPermissions | None = None,
    learning: NightlyLearning | None = None,
) -> Worker:
    """Build the worker.

    `on_answer` is called after each call of Slurm, also if Slurm does not answer it.
    `permissions`: Slurm's permissions; None: they are not known, and all moves are tried.
    `learning` starts `mirage learn` by night; None: nothing does.
    """
    settings = service.settings
    polling = settings.polling
    intervals = Intervals(
        queue_s=polling.queue_s,
        nodes_s=polling.nodes_s,
        history_s=polling.history_s,
        pushed_queue_s=polling.pushed_queue_s,
    )
    provision = wiring.build_decision_settings(service)
    if permissions is not None:
        provision = replace(provision, reach=permissions.reach, accrual=permissions.accrual)
    observer = provision.observer and replace(provision.observer, is_compiled=is_compiled)

    return Worker(
        service.store,
        HeartbeatCluster(service.cluster, on_answer),
        service.cluster_id,
        settings=replace(provision, observer=observer),
        intervals=intervals,
        kill_file=settings.service.state_dir / kill_switch.FILE,
        owner_uid=owner_uid,
        shape_forecaster=ShapeForecaster(),
        notices=notice_channels.build_notice_recorder(settings.notify),
        usage=wiring.get_usage_reader(service.cluster),
        load_sensor=_build_load_sensor(service, on_answer),
        forgeries=wiring.get_forgery_reader(service.cluster),
        retention=Retention(**settings.retention.model_dump()),
        learning=learning,
        chains_a_day=settings.quota.registrations_per_day,
    )


def _build_load_sensor(service: Service, on_answer: Callable[[], None]) -> LoadSensor | None:
    read_diagnosis = wiring.get_diagnosis_reader(service.cluster)
    every_s = service.settings.polling.diag_s
    if read_diagnosis is None or every_s == 0:
        return None

    def read_with_heartbeat() -> tuple[Diagnosis, str]:
        try:
            return read_diagnosis()
        finally:
            on_answer()

    return LoadSensor(read_with_heartbeat, every_s)
