"""Find the Mirage service, and check that Mirage itself answers there.

Any user of a host may listen on a free port, or make a socket in a directory of their own. The
plugin therefore tells no secret to an unknown peer, and acts on no answer of one. A peer is known
by the user at the other end of a unix socket, by the user who listens on a port of this host, or
by a certificate.

Used by the wrapper and carriers (`request`) and by `mirage chain` (`rest`). Standard library, Python 3.6.
"""

import os
import sys

UNIX = "unix://"
DEFAULT_URL = "unix:///run/mirage/api.sock"
CONFIGURATION = (
    "/etc/mirage/client.conf"  # lines NAME = VALUE: url, cluster, account, plans, max_lead
)
ACCOUNT = "mirage"  # that the package makes
SLURM_CONFIGURATIONS = ("/etc/slurm/slurm.conf", "/run/slurm/conf/slurm.conf")
SERVICE = "mirage"  # in a credential: whom it is for, beside the cluster's name
IS_ROOT = not os.geteuid()  # who else reads the advice cannot write into CONFIGURATION
ADVICE = "set " + (
    "url = https://HOST in " + CONFIGURATION if IS_ROOT else "MIRAGE_URL=https://HOST"
)
MAPPED = b"\0" * 10 + b"\xff\xff"  # before an IPv4 address in an IPv6 one
LISTENS, HALF_OPEN = "0A", "03"  # in /proc/net/tcp; the latter stand among those in old kernels


class Unreachable(Exception):
    """The service was not asked, or gave no good answer; the message says why in a few words."""

    code = None  # of HTTP, where something answered


class Peer(object):
    """The peer that answers: a connection, and what the system says of its other end."""

    __slots__ = ("host", "is_known", "is_socket", "prefix", "stream", "uid")

    def __init__(self, stream, host, prefix, is_known, is_socket=False, uid=None):
        self.stream = stream
        self.host = host  # for the head of a request
        self.prefix = prefix  # the path before Mirage's own
        self.is_known = (
            is_known  # whether the system vouches for it: else its answers prove nothing
        )
        self.is_socket = is_socket  # there the service needs no credential: the kernel names us
        self.uid = uid  # who listens on a port of this host; None: not known


def url(environ):
    """Return the service's URL, from MIRAGE_URL, or client.conf, or the package's socket."""
    return environ.get("MIRAGE_URL") or read_configured("url", environ) or DEFAULT_URL


def read_configured(name, environ):
    """Return the value in client.conf; "" if it says nothing."""
    try:
        with open(environ.get("MIRAGE_CLIENT_CONF") or CONFIGURATION, errors="replace") as lines:
            for line in lines:
                key, equals, value = line.partition("=")
                if equals and key.strip() == name:
                    return value.strip().strip("\"'")
    except OSError:
        pass
    return ""


def cluster(environ):
    """Return the name of the service's cluster. Raises Unreachable if this host does not know it.

    The service is not asked: the name goes into a credential so that no other service can use that.
    """
    name = (
        environ.get("MIRAGE_CLUSTER_NAME")
        or read_configured("cluster", environ)
        or environ.get("SLURM_CLUSTER_NAME")  # in a job
        or read_slurm_setting("ClusterName", environ)
    )
    if not name:
        setting = "cluster = NAME in " + CONFIGURATION if IS_ROOT else "MIRAGE_CLUSTER_NAME"
        raise Unreachable("no cluster's name: set " + setting)
    return name.lower()  # as Slurm takes it


def read_slurm_setting(name, environ):
    """Return the value in slurm.conf where that is a file on this host, else "": `scontrol` takes
    too long."""
    configured = environ.get("SLURM_CONF")
    for path in (configured,) if configured else SLURM_CONFIGURATIONS:
        try:
            with open(path, errors="replace") as lines:
                for line in lines:
                    key, _, value = line.partition("=")
                    if key.strip().lower() == name.lower():
                        return (value.split("#")[0].split() or [""])[0]
        except OSError:
            continue
    return ""


def format_payload(method, target, digest, environ):
    """Format the payload of a credential of MUNGE or of Slurm's socket.

    It is good for one request to this cluster's service alone.
    """
    return "%s %s %s %s %s" % (method, target, digest, cluster(environ), SERVICE)


def connect(where, environ, limit_s):
    """Return a Peer at the URL `where`. Raises Unreachable, OSError.

    Without encryption a peer on another host is not known: its answers may be anybody's, and it
    gets no secret that is good for more than one request.
    """
    if where.startswith(UNIX + "/"):
        return _connect_to_socket(where[len(UNIX) :], environ, limit_s)
    scheme, _, rest = where.partition("://")
    authority, slash, prefix = rest.partition("/")
    if scheme not in ("http", "https") or not authority:
        raise Unreachable("the service's url is not https://HOST, http://HOST or unix:///PATH")
    host, port = _split_authority(authority, 443 if scheme == "https" else 80)
    prefix = (slash + prefix).rstrip("/")
    if scheme == "https":
        return Peer(_connect_by_tls(host, port, limit_s), authority, prefix, True)
    stream, listeners = _connect_plainly(host, port, environ, limit_s)
    uid = min(listeners)[0] if listeners else None
    return Peer(stream, authority, prefix, bool(listeners), uid=uid)


def _split_authority(authority, port):
    name, colon, number = authority.rpartition(":")
    if colon and number.isdigit():
        return name.strip("[]"), int(number)
    return authority.strip("[]"), port


def _connect_by_tls(host, port, limit_s):
    import socket
    import ssl

    stream = socket.create_connection((host, port), limit_s)
    return ssl.create_default_context().wrap_socket(stream, server_hostname=host)


# --- a unix socket -------------------------------------------------------------------------------


def _connect_to_socket(path, environ, limit_s):
    import _socket  # the built-in one: loading `socket` costs 5 ms

    _check_socket(path, environ)
    stream = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    stream.settimeout(limit_s)
    stream.connect(path)
    peer = stream.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # pid, uid, gid
    uid = int.from_bytes(peer[4:8], sys.byteorder)
    if not _is_trusted(uid, environ):
        raise Unreachable(_describe_stranger("%s is listened on by" % (path,), uid, environ))
    return Peer(stream, "mirage", "", True, is_socket=True)


def _check_socket(path, environ):
    """Raise Unreachable or PermissionError unless the socket is trusted. This is checked before the
    connection: a user who could swap the socket might lead us to another service of root's."""
    import stat

    from mirage_slurm.client import places

    try:
        status = os.stat(path)
    except FileNotFoundError:
        what = "start the service, or, if it" if IS_ROOT else "if a service"
        message = "there is no %s on this host: %s runs elsewhere, %s"
        raise Unreachable(message % (path, what, ADVICE)) from None
    if not stat.S_ISSOCK(status.st_mode):
        raise Unreachable("%s is no socket" % (path,))
    for uid in (status.st_uid, os.lstat(path).st_uid):
        if not _is_trusted(uid, environ):
            raise Unreachable(_describe_stranger("%s belongs to" % (path,), uid, environ))
    owners = {0, os.geteuid(), _look_up_account(environ)}
    for place in (path, os.path.realpath(path)):
        places.refuse_others(os.path.dirname(place), owners)


# --- plain http ----------------------------------------------------------------------------------


def _connect_plainly(host, port, environ, limit_s):
    """Return a connection, and who listens on this host, as (uid, inode); nobody: on another."""
    import _socket

    failed = OSError("this host name has no address")
    for family, kind, protocol, _, address in _socket.getaddrinfo(
        host, port, 0, _socket.SOCK_STREAM
    ):
        stream = _socket.socket(family, kind, protocol)
        stream.settimeout(limit_s)
        here = _to_local_address(_socket.inet_pton(family, address[0].partition("%")[0]))
        try:
            if here:
                _probe_port((family, kind, protocol), address, limit_s)
            before = _find_trusted_listeners(here, port, environ) if here else set()
            stream.connect(address)
            if here:
                _check_listeners(before, here, port, environ)
        except (OSError, Unreachable) as error:
            stream.close()
            if not isinstance(failed, Unreachable):
                failed = error
        else:
            return stream, before
    raise failed


def _probe_port(made_as, address, limit_s):
    """Raise OSError if nobody listens. Nothing is sent; this saves the 10 ms of finding out who
    listens."""
    import _socket

    stream = _socket.socket(*made_as)
    try:
        stream.settimeout(limit_s)
        stream.connect(address)
    finally:
        stream.close()


def _to_local_address(packed):
    """An address that leads to this host, as the kernel looks for its listener; else b""."""
    if packed[:12] == MAPPED:
        packed = packed[12:]
    if not any(packed):  # which `connect` takes for loopback
        return b"\x7f\0\0\1" if len(packed) == 4 else b"\0" * 15 + b"\1"
    is_loopback = packed[0] == 127 if len(packed) == 4 else packed == b"\0" * 15 + b"\1"
    return packed if is_loopback else b""


def _check_listeners(before, here, port, environ):
    """The listeners are those that were there before we connected, when another's may have been."""
    if not before or _find_trusted_listeners(here, port, environ) != before:
        raise Unreachable("cannot see which user listens on port %d: %s" % (port, ADVICE))


def _find_trusted_listeners(here, port, environ):
    """Return (uid, inode) of the sockets that listen on this address of the host; empty if none is
    seen. Raises Unreachable if one is neither root's, the service account's nor the caller's."""
    listeners = _find_listeners(here, port)
    for uid, _ in listeners:
        if not _is_trusted(uid, environ):
            raise Unreachable(
                _describe_stranger("port %d of this host is held by" % (port,), uid, environ)
            )
    return listeners


def _find_listeners(here, port):
    """Find the listeners as the kernel chooses: the exact address before any address.

    If two overlap, only one can listen, so the first table that shows somebody is enough: each
    costs 5 ms.
    """
    tables = [("/proc/net/tcp6", here, b"\0" * 16)]
    if len(here) == 4:
        tables = [("/proc/net/tcp", here, b"\0" * 4), ("/proc/net/tcp6", MAPPED + here, b"\0" * 16)]
    for path, exact, anywhere in tables:
        try:
            rows = _read_rows(path, port)
        except OSError as error:
            if path != tables[0][0]:
                break  # a kernel without IPv6
            message = "who listens on port %d cannot be seen (%s: %s): %s"
            raise Unreachable(message % (port, path, error.strerror, ADVICE)) from None
        for address in (exact, anywhere):
            listeners = {
                (uid, inode) for where, uid, inode in rows if where == _format_address(address)
            }
            if listeners:
                return listeners
    return set()


def _read_rows(path, port):
    """(local address, uid, inode) of the sockets that listen on a port.

    The kernel shows those that listen first; a host may have 100,000 others.
    """
    rows, ending = [], ":%04X" % (port,)
    with open(path) as lines:
        next(lines, "")
        for line in lines:
            columns = line.split()
            if columns[3] not in (LISTENS, HALF_OPEN):
                break
            if columns[1].endswith(ending) and columns[3] == LISTENS:
                rows.append((columns[1][: -len(ending)], int(columns[7]), columns[9]))
    return rows


def _format_address(packed):
    """An address as /proc/net shows it: words of four bytes in this machine's order."""
    words = [packed[at : at + 4] for at in range(0, len(packed), 4)]
    return "".join("%08X" % (int.from_bytes(word, sys.byteorder),) for word in words)


# --- whom we believe -----------------------------------------------------------------------------


def _is_trusted(uid, environ):
    return uid in (0, os.geteuid()) or uid == _look_up_account(environ)


def _get_account(environ):
    return read_configured("account", environ) or ACCOUNT


def find_service_uid(peer, environ):
    """Return the uid under which the service runs; None: this host does not know it.

    That is the user who listens on a port of this host, but for root: a web server may listen there
    and pass the request on. Else it is the account in client.conf.
    """
    return peer.uid or _find_account_uid(environ)


def _look_up_account(environ):
    """Return the uid of the service's account; root's if this host has no such account."""
    return _find_account_uid(environ) or 0


def _find_account_uid(environ):
    """Return the uid of the service's account, which may be a number (a container's), or None."""
    import pwd

    name = _get_account(environ)
    if name.isdigit():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _describe_stranger(what, uid, environ):
    import pwd

    try:
        user = "%s (uid %d)" % (pwd.getpwuid(uid).pw_name, uid)
    except KeyError:
        user = "uid %d" % (uid,)
    message = (
        "%s %s, who is neither root nor %s nor you: %s, or account = NAME if that is its account"
    )
    return message % (what, user, _get_account(environ), ADVICE)
