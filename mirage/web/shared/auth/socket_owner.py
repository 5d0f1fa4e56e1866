"""Asks the kernel which user of this host has the other end of a connection.

A unix socket answers to SO_PEERCRED, a TCP connection to sock_diag(7) as in `ss -e` (12 µs).
/proc/net/tcp has the same facts, in a table of all sockets.
"""

import ipaddress
import socket
import struct
from dataclasses import dataclass

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: struct ucred of Linux
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_QUESTION_HEAD = struct.Struct("=BBBxI")
"""inet_diag_req_v2 up to the socket's id: family, protocol, extensions, states."""
_PORTS = struct.Struct("!HH")
_ID_REST = struct.Struct("=III")  # of an id: interface, cookie
_OWNER = struct.Struct("=II")  # of inet_diag_msg: uid, inode
_PORTS_AT = _HEADER.size + 4
"""After family, state, timer and retransmissions; first of the id."""
_OWNER_AT = _HEADER.size + 4 + 48 + 12
"""After family, state, timer and retransmissions; the id; expiry and the two queues."""
_ANY = 0xFFFFFFFF
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY
_REQUEST = 1  # NLM_F_REQUEST
_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_MAX_ANSWER_BYTES = 4096
_HOST_PREFIX_BITS = 64
"""Bits of an IPv6 network within which one client may use any number of addresses."""


def read_peer_uid(connection: socket.socket) -> int:
    """Return the uid of the process that connected to a unix socket."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(credentials)[1]
    return uid


@dataclass(frozen=True, slots=True)
class TcpEndpoint:
    """One end of a TCP connection."""

    address: IpAddress
    port: int

    @classmethod
    def from_socket_name(cls, name: tuple[str, int]) -> "TcpEndpoint":
        """Build an endpoint from the form that getpeername() and getsockname() return.

        An IPv4 address that is mapped into IPv6 becomes the IPv4 address.
        """
        address = ipaddress.ip_address(name[0])
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return cls(mapped or address, name[1])


class SocketOwners:
    """Asks the kernel who owns a socket. If the kernel cannot be asked, nobody here owns any."""

    def __init__(self) -> None:
        try:
            self._kernel: socket.socket | None = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG
            )
            self._kernel.setblocking(False)
        except OSError:
            self._kernel = None
        self._sequence = 0

    def close(self) -> None:
        if self._kernel is not None:
            self._kernel.close()

    def find_uid(self, end: TcpEndpoint, other: TcpEndpoint) -> int | None:
        """Return the uid that owns the socket at `end`, connected to `other`.

        Returns None if nobody on this host owns it.
        """
        if self._kernel is None:
            return None
        self._sequence = (self._sequence + 1) % _ANY
        question = _build_question(end, other)
        header = _HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _REQUEST, self._sequence, 0)
        try:
            self._kernel.send(header + question)
            return _parse_owner(self._receive_answer(self._kernel), other)
        except OSError:
            return None

    def _receive_answer(self, kernel: socket.socket) -> bytes:
        """Return the answer, which is ready once the kernel has taken the question.

        Raises BlockingIOError if it is not.
        """
        while True:
            answer = kernel.recv(_MAX_ANSWER_BYTES)
            if _HEADER.unpack_from(answer)[3] == self._sequence:
                return answer


def _build_question(end: TcpEndpoint, other: TcpEndpoint) -> bytes:
    family = socket.AF_INET if end.address.version == 4 else socket.AF_INET6  # noqa: PLR2004
    addresses = b"".join(endpoint.address.packed.ljust(16, b"\0") for endpoint in (end, other))
    return (
        _QUESTION_HEAD.pack(family, socket.IPPROTO_TCP, 0, _ANY)
        + _PORTS.pack(end.port, other.port)
        + addresses
        + _ID_REST.pack(0, _ANY, _ANY)
    )


def _parse_owner(answer: bytes, other: TcpEndpoint) -> int | None:
    if len(answer) < _OWNER_AT + _OWNER.size:
        return None  # an error: there is no such socket here
    if _PORTS.unpack_from(answer, _PORTS_AT)[1] != other.port:
        return None  # without such a socket the kernel names one that listens at that port
    uid, inode = _OWNER.unpack_from(answer, _OWNER_AT)
    # Without an inode the socket has been closed, and the kernel names root as its owner.
    return int(uid) if inode else None


def to_client_name(address: IpAddress) -> str:
    """Return the name by which an address is counted; for IPv6, the /64 network of its host."""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    mapped = address.ipv4_mapped  # how a socket of both families shows an IPv4 address
    return str(mapped or ipaddress.ip_network((int(address), _HOST_PREFIX_BITS), strict=False))
