"""Call the service's REST API for a person: read all of an answer, and turn refusals into sentences.

The wrapper and the carriers, which must never wait, use `request` instead. On a unix socket the kernel
tells the service who calls. Elsewhere a request carries a credential, or the token of a file.
Standard library, Python 3.6.
"""

import io
import json
import os
import time

from mirage_slurm.client import credentials, service

PREFIX = "/api/v1"
LIMIT_S = 10.0
_UNIDENTIFIED, _TOO_MANY, _SERVER_ERROR = 401, 429, 500
_BAD_INPUT = frozenset([404, 422])


class CommandError(Exception):
    """A command failed; the message is a sentence. Exit code 1: it was refused, or failed."""

    exit_code = 1


class BadInput(CommandError):
    """The user's words or files are wrong: the message says what to change."""

    exit_code = 2


class SlurmFailed(CommandError):
    """Slurm or munged did not answer."""

    exit_code = 3


class ServiceUnavailable(CommandError):
    """The service does not answer."""

    exit_code = 5


class ServiceAnswer(object):
    __slots__ = ("body", "status")

    def __init__(self, status, body):
        self.status = status
        self.body = body

    @property
    def is_success(self):
        return 200 <= self.status < 300


def resolve_service_url(url=None):
    """Return the URL of the service to call: the configured one, or the package's socket.

    The first of these counts: `url`, MIRAGE_URL, the user's own service if one runs, the client's
    configuration file, the package's socket. Raises BadInput for a malformed URL.
    """
    address = find_configured_url(url) or service.DEFAULT_URL
    if not address.startswith(("http://", "https://", service.UNIX + "/")):
        raise BadInput(
            "the service's address %r is not valid: give https://HOST, http://HOST or "
            "unix:///PATH with --url or MIRAGE_URL" % (address,)
        )
    return address.rstrip("/")


def find_configured_url(url=None):
    """Return the URL that somebody chose; "" if nobody did. Arguments as resolve_service_url."""
    return (
        url
        or os.environ.get("MIRAGE_URL")
        or _find_own_socket()
        or service.read_configured("url", os.environ)
    )


def _find_own_socket():
    """Return the socket of `mirage serve --user`, if the user owns it and a service listens; else ""."""
    import socket

    base = os.environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):  # a relative path is invalid (XDG Base Directory Specification)
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    path = os.path.join(base, "mirage", "service", "socket")
    try:
        if os.lstat(path).st_uid != os.geteuid():
            return ""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(path)
    except OSError:
        return ""
    return service.UNIX + path


def send_request(url, method, target, body, identified, limit_s):
    """Send a request to the service at `url` and return its answer; redirects are not followed.

    `limit_s`: for the connection, and again for all that follows, however the answer trickles. Nothing
    is sent to a process that is not the service, as far as the system can tell. If `identified`, the
    request carries a credential. Raises ServiceUnavailable, BadInput for a bad token file, SlurmFailed
    if no credential can be made.
    """
    from http.client import HTTPConnection, HTTPException

    try:
        peer = service.connect(url, os.environ, limit_s)
    except (service.Unreachable, OSError) as error:
        raise ServiceUnavailable(str(error) or type(error).__name__) from error
    connection = HTTPConnection("mirage")
    connection.sock = _TimedStream(peer.stream, limit_s)
    try:
        headers = {"Host": peer.host}
        if body:
            headers["Content-Type"] = "application/json"
        if identified and not peer.is_socket:
            headers["Authorization"] = _make_authorization(method, target, body, peer, limit_s)
        connection.request(method, peer.prefix + target, body or None, headers)
        answer = connection.getresponse()
        return ServiceAnswer(answer.status, answer.read())
    except (HTTPException, OSError) as error:
        raise ServiceUnavailable(str(error) or type(error).__name__) from error
    finally:
        peer.stream.close()


class _TimedStream(object):
    """A connected socket for http.client, with one limit of time for all that is sent and read: the
    socket's own limit would begin anew with each byte."""

    def __init__(self, stream, limit_s):
        self._stream = stream
        self._limit_s = limit_s
        self._deadline = time.monotonic() + limit_s

    def sendall(self, part):
        return self._call_in_time(self._stream.sendall, part)

    def receive(self, buffer):
        return self._call_in_time(self._stream.recv_into, buffer)

    def makefile(self, _mode):
        return io.BufferedReader(_Answer(self))

    def close(self):
        """Do nothing: http.client closes it before it has read the answer."""

    def _call_in_time(self, call, argument):
        from socket import timeout

        try:
            self._stream.settimeout(max(0.001, self._deadline - time.monotonic()))
            return call(argument)
        except timeout:
            raise OSError("no whole answer came in %g s" % (self._limit_s,)) from None


class _Answer(io.RawIOBase):
    """What comes from a _TimedStream."""

    def __init__(self, stream):
        self._stream = stream

    def readable(self):
        return True

    def readinto(self, buffer):
        return self._stream.receive(buffer)


def _make_authorization(method, target, body, peer, limit_s):
    """Return the header's value: the token of MIRAGE_TOKEN_FILE, or a credential for this request."""
    token_file = os.environ.get(credentials.TOKEN_FILE)
    if token_file and not peer.is_known:
        raise ServiceUnavailable(
            "Mirage sends a token over https alone, or to the service's socket: over http others "
            "could read the token. Set MIRAGE_URL to https://HOST"
        )
    if token_file:
        try:
            return "Bearer " + credentials.read_token(token_file)
        except service.Unreachable as error:
            raise BadInput(str(error)) from error
    try:
        service.cluster(os.environ)
    except service.Unreachable as error:
        raise ServiceUnavailable(str(error)) from error
    try:
        return credentials.build_signed_authorization(
            method, target, body, peer, os.environ, limit_s
        )
    except service.Unreachable as error:
        raise SlurmFailed(str(error)) from error


class ServiceClient(object):
    """A client of the REST API. Raises what send_request raises, and by the answer's status
    CommandError or BadInput, with the service's message."""

    def __init__(self, url, by_hand):
        """`by_hand`: what the user can do without the service, in one sentence."""
        self._url = url
        self._by_hand = by_hand

    def get(self, path, **params):
        from urllib.parse import urlencode

        query = [(name, value) for name, value in params.items() if value is not None]
        return self._request("GET", PREFIX + path + ("?" + urlencode(query) if query else ""), b"")

    def iter_items(self, path, limit, **params):
        """Yield the rows of a paged answer, page after page, up to `limit`."""
        page = self.get(path, limit=min(limit, 500), **params)
        while True:
            yield from page["items"][:limit]
            limit -= len(page["items"])
            if page["next"] is None or limit <= 0:
                return
            # The path is ours: over plain http a stranger may have answered, and the request may carry the
            # user's credential. Behind a proxy the answer's path also has the proxy's prefix.
            query = str(page["next"]).partition("?")[2]
            page = self._request("GET", PREFIX + path + "?" + query, b"")

    def post(self, path, content=None):
        body = b"" if content is None else json.dumps(content).encode()
        return self._request("POST", PREFIX + path, body)

    def _request(self, method, target, body):
        answer = self._send(method, target, body, method != "GET")
        # Reading needs a credential if the cluster keeps jobs private, or if this host's requests
        # without a credential have used up their quota.
        if method == "GET" and answer.status in (_UNIDENTIFIED, _TOO_MANY):
            answer = self._send(method, target, body, True)
        content = self._parse_answer(answer)
        if answer.is_success:
            return content
        detail = content.get("detail", "it answered with HTTP %d" % (answer.status,))
        if answer.status >= _SERVER_ERROR:
            raise self._make_unavailable(detail)
        raise (BadInput if answer.status in _BAD_INPUT else CommandError)(detail)

    def _send(self, method, target, body, identified):
        try:
            return send_request(self._url, method, target, body, identified, LIMIT_S)
        except ServiceUnavailable as error:
            raise self._make_unavailable(error) from error

    def _parse_answer(self, answer):
        try:
            content = json.loads(answer.body.decode("utf-8"))
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise self._make_unavailable(
                "something else than Mirage answered with HTTP %d" % (answer.status,)
            )
        return content

    def _make_unavailable(self, reason):
        return ServiceUnavailable(
            "no service at %s: %s. Chains continue in Slurm without the service; %s"
            % (self._url, reason, self._by_hand)
        )
