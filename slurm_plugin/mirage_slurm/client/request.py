"""Send one request to the Mirage service, and check the answer."""

import time

from mirage_slurm.client import credentials, service
from mirage_slurm.client.service import Unreachable

LIMIT_S = 2.0
PATH = "/api/v1/chains"


class ServiceRefused(Unreachable):
    """The service refuses the request, and would refuse the same request again."""


class Misread(ServiceRefused):
    """The service cannot read the request (422): it may be older than this plugin."""


REFUSALS = frozenset([400, 403, 409, 422])  # a later try may have another answer to other codes


def send_request(method, path, body, environ, more=(), acts_on_it=False):
    """Send a request. Return the answer in bytes: for a GET all of it, else at least its head.

    `more`: further header lines. `acts_on_it`: send only to a peer that is known to be the service,
    because the caller acts on the answer. Raises Unreachable (ServiceRefused, Misread), OSError.
    """
    peer = service.connect(service.url(environ), environ, LIMIT_S)
    if acts_on_it and not peer.is_known:
        raise Unreachable("without https anybody may have answered: " + service.ADVICE)
    answer = _query_peer(peer, method, path, body, environ, more)
    _check_answer(answer)
    return answer


def post_chain(chain_id, body, environ):
    """Register a chain. The same registration again changes nothing. Raises what send_request raises."""
    send_request("POST", PATH, body, environ, ["Idempotency-Key: %s" % (chain_id,)])


def fetch_answer(path, environ):
    """GET a path. Return the answer's code, its body, and whether the peer is known to be the service.

    Raises Unreachable, OSError.
    """
    peer = service.connect(service.url(environ), environ, LIMIT_S)
    answer = _query_peer(peer, "GET", path, b"", environ, ())
    return _parse_code(answer), answer.partition(b"\r\n\r\n")[2], peer.is_known


def _query_peer(peer, method, path, body, environ, more):
    head = ["%s %s%s HTTP/1.0" % (method, peer.prefix, path), "Host: %s" % (peer.host,)]
    if not peer.is_socket:
        limit_s = LIMIT_S / 2  # so that a silent daemon of Slurm is named, and not the service
        authorization = credentials.build_authorization(method, path, body, peer, environ, limit_s)
        head.append("Authorization: %s" % (authorization,))
    if body:
        head += ["Content-Type: application/json", "Content-Length: %d" % (len(body),)]
    head += more
    try:
        peer.stream.sendall("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
        return _read_answer(peer.stream, method == "GET")
    finally:
        peer.stream.close()  # a program of a user may ask for days


def _read_answer(stream, reads_all):
    """Read the answer: up to the end of the head for a success, all of it for an error or if
    `reads_all`."""
    answer, deadline = b"", time.monotonic() + LIMIT_S
    while len(answer) < 65536 and (
        reads_all or not (b"\r\n\r\n" in answer and answer[8:10] == b" 2")
    ):
        # The limit is for the whole answer, not for each part: a trickle is late too.
        stream.settimeout(max(0.001, deadline - time.monotonic()))
        part = stream.recv(4096)
        if not part:
            break
        answer += part
    return answer


def _check_answer(answer):
    code = _parse_code(answer)
    if not 200 <= code < 300:
        refusal = ServiceRefused if code in REFUSALS else Unreachable
        refusal = Misread if code == 422 else refusal
        error = refusal("%d%s" % (code, _parse_detail(answer)))
        error.code = code
        raise error


def _parse_code(answer):
    words = answer.split(b"\r\n", 1)[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise Unreachable("the answer there was not HTTP, so no Mirage service listens")
    return int(words[1])


def _parse_detail(answer):
    """Return the words of a problem's answer (RFC 9457); empty if it says none."""
    import json

    try:
        return ": %.200s" % (json.loads(answer.split(b"\r\n\r\n", 1)[1].decode())["detail"],)
    except (IndexError, KeyError, TypeError, ValueError):
        return ""
