"""Tells systemd that the service is ready, alive or ending (sd_notify(3), watchdog)."""

import os
import socket
import time
from collections.abc import Callable, Mapping

_SIGNS_PER_WATCHDOG = 8
"""How many signs of life are sent in the time that systemd waits for one."""
_MARGIN = 3
"""systemd waits for at least this many times the longest silence that is no fault."""


class Notifier:
    """Sends the service's state to systemd; without systemd or a watchdog it sends nothing.

    The worker's thread alone calls `notify_alive`, so that systemd restarts a worker that hangs.
    """

    def __init__(
        self,
        address: str | None,
        watchdog_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`address`: a path, or `@name` of an abstract socket."""
        self._address = address
        self._watchdog_s = watchdog_s
        self._clock = clock
        self._last_sign_at: float | None = None

    def notify_ready(self, status: str) -> None:
        """Say that the service is ready. `systemctl status` shows `status`."""
        self._send_state(f"READY=1\nSTATUS={status}")

    def notify_alive(self) -> None:
        """Send systemd a sign of life, unless the last one was sent a moment ago."""
        if self._watchdog_s is None:
            return
        now = self._clock()
        interval_s = self._watchdog_s / _SIGNS_PER_WATCHDOG
        if self._last_sign_at is None or now >= self._last_sign_at + interval_s:
            self._last_sign_at = now
            self._send_state("WATCHDOG=1")

    def extend_watchdog(self, silence_s: float) -> None:
        """Make systemd wait longer, if a silence of so many seconds is no fault."""
        if self._watchdog_s is None or self._watchdog_s >= _MARGIN * silence_s:
            return
        self._watchdog_s = _MARGIN * silence_s
        self._send_state(f"WATCHDOG_USEC={round(self._watchdog_s * 1e6)}")

    def notify_stopping(self) -> None:
        self._send_state("STOPPING=1\nSTATUS=finishing the current tick")

    def _send_state(self, text: str) -> None:
        """Send a state to systemd, and ignore any failure.

        A failure is no reason for the service to end: systemd then acts as it sees fit.
        """
        if self._address is None:
            return
        name = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            try:
                sender.settimeout(1.0)
                sender.sendto(text.encode(), name)
            except OSError:
                return


def from_environment(environment: Mapping[str, str] = os.environ) -> Notifier:
    """Return a notifier as systemd asks (NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID)."""
    watchdog = environment.get("WATCHDOG_USEC", "")
    # A child process inherits these variables, but systemd watches the process WATCHDOG_PID only.
    is_watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    watchdog_s = int(watchdog) / 1e6 if is_watched and watchdog.isdecimal() else None
    return Notifier(environment.get("NOTIFY_SOCKET") or None, watchdog_s)
