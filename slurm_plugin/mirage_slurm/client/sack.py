"""Make and verify credentials through Slurm's own socket (SACK), where AuthType=auth/slurm.

Slurm's daemon on this host answers (slurmd, sackd, slurmctld or slurmdbd), as munged does
elsewhere: the kernel tells it who asks, and slurmctld is asked nothing. The messages are those of
Slurm's src/common/sack_api.c, the same from 23.11 to 26.05. Numbers are big-endian: u16 version,
u32 length of what follows and of itself, u32 request, then what is asked. Shared with the service,
which verifies. Standard library, Python 3.6.
"""

import os
import stat
import struct
import sys
import time

from mirage_slurm.client import places, service
from mirage_slurm.client.service import Unreachable

VARIABLE = "SLURM_SACK_SOCKET"  # as in Slurm
RUN = "/run"
SOCKET = "sack.socket"
ANYBODY = 0xFFFFFFFF  # as the uid of a credential's reader: each user may verify it
VERSION = 40 << 8  # of Slurm 23.11, the first with this socket; no daemon looks at it
CREATE, VERIFY = 64001, 64002
GOOD = b"\0\0\0\0"
LONGEST = 65536  # bytes of a credential


def create_credential(payload, reader_uid, environ, limit_s):
    """Return a credential of this process's user that holds the payload (a str).

    Only `reader_uid` may verify it. Raises Unreachable if no daemon gives one in `limit_s` seconds.
    """
    text = payload.encode("utf-8", "replace")
    body = struct.pack(">II", reader_uid, len(text)) + text
    with _Conversation(_list_creators(environ), environ, limit_s) as daemon:
        daemon.send(CREATE, body)
        length = int.from_bytes(daemon.read(4), "big")
        token = daemon.read(length) if length <= LONGEST else b""
    is_whole = len(token) == length
    token = token.rstrip(b"\0")
    if not is_whole or token.count(b".") != 2:
        raise Unreachable("Slurm's daemon gave no credential at %s" % (daemon.path,))
    return token.decode("ascii", "replace")


def verify_credential(token, environ, limit_s):
    """Return whether the daemon here vouches for the credential: that a daemon with the cluster's
    key made it, that it has not expired, and that this process's user may read it.

    It says nothing of what is in it. Raises Unreachable if no daemon answers in `limit_s` seconds.
    """
    text = token.encode("ascii", "replace") + b"\0"
    paths = _list_creators(environ) + _list_sockets(environ, "slurmdbd")
    with _Conversation(paths, environ, limit_s) as daemon:
        daemon.send(VERIFY, struct.pack(">I", len(text)) + text)
        return daemon.read(4) == GOOD  # of a bad one some releases say -1, others nothing


def is_here(environ):
    """Return whether this host has such a socket for clients."""
    return any(map(os.path.exists, _list_creators(environ)))


def _list_creators(environ):
    """List the sockets whose credentials name the cluster. Those of slurmdbd do not."""
    folders = ["slurm", "slurmctld"]
    try:
        folders.insert(0, "slurm-" + service.cluster(environ))  # since 25.05
    except Unreachable:
        pass
    return _list_sockets(environ, *folders)


def _list_sockets(environ, *folders):
    configured = environ.get(VARIABLE)
    return [configured] if configured else [os.path.join(RUN, folder, SOCKET) for folder in folders]


class _Conversation(object):
    """One request to the first daemon that listens on one of these paths, within a limit of time."""

    def __init__(self, paths, environ, limit_s):
        self.path = paths[0]
        self._paths = paths
        self._trusted = {0, _find_slurm_uid(environ)}
        self._limit_s = limit_s
        self._deadline = time.monotonic() + limit_s
        self._stream = None

    def __enter__(self):
        for path in self._paths:
            self.path = path
            try:
                self._connect()
            except (FileNotFoundError, ConnectionRefusedError):
                self._close()
            except OSError as error:
                self._close()
                raise self._explain(error) from None
            except Unreachable:
                self._close()
                raise
            else:
                return self
        message = "no daemon of Slurm listens on %s: start sackd, or slurmd"
        raise Unreachable(message % (" or ".join(self._paths),))

    def __exit__(self, *_error):
        self._close()

    def _connect(self):
        import _socket  # the built-in one: loading `socket` costs 5 ms

        self._check_path()
        self._stream = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        self._stream.settimeout(self._count_rest())
        self._stream.connect(self.path)
        peer = self._stream.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
        self._check_owner("is listened on by", int.from_bytes(peer[4:8], sys.byteorder))

    def _check_path(self):
        """Raise unless root or SlurmUser alone could have put the socket there."""
        status = os.stat(self.path)
        if not stat.S_ISSOCK(status.st_mode):
            raise Unreachable("%s is no socket" % (self.path,))
        for uid in (status.st_uid, os.lstat(self.path).st_uid):
            self._check_owner("belongs to", uid)
        for place in (self.path, os.path.realpath(self.path)):
            places.refuse_others(os.path.dirname(place), self._trusted)

    def _check_owner(self, what, uid):
        if uid not in self._trusted:
            message = "%s %s uid %d, who is neither root nor SlurmUser of slurm.conf"
            raise Unreachable(message % (self.path, what, uid))

    def send(self, request, body):
        head = struct.pack(">HII", VERSION, 8 + len(body), request)
        try:
            self._stream.settimeout(self._count_rest())
            self._stream.sendall(head + body)
        except OSError as error:
            raise self._explain(error) from None

    def read(self, length):
        """Read so many bytes; fewer if the daemon says no more."""
        answer = b""
        try:
            while len(answer) < length:
                # The limit is for the whole answer, not for each part: a trickle is late too.
                self._stream.settimeout(self._count_rest())
                part = self._stream.recv(length - len(answer))
                if not part:
                    break
                answer += part
        except ConnectionResetError:
            pass
        except OSError as error:
            raise self._explain(error) from None
        return answer

    def _count_rest(self):
        return max(0.001, self._deadline - time.monotonic())

    def _explain(self, error):
        import _socket

        if isinstance(error, (_socket.timeout, BlockingIOError)):  # the latter: no place to wait in
            return Unreachable("%s gave no answer in %g s" % (self.path, self._limit_s))
        return Unreachable("%s: %s" % (self.path, error.strerror or error))

    def _close(self):
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _find_slurm_uid(environ):
    """Return the uid of SlurmUser; root's where slurm.conf names none, as in Slurm."""
    import pwd

    name = service.read_slurm_setting("SlurmUser", environ)
    if name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid if name else 0
    except KeyError:
        return 0
