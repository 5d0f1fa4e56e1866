"""Tell the Mirage service of a new chain, within two seconds in all or not at all."""

import os
import signal

LIMIT_S = 2.0
DEFAULT_URL = "http://127.0.0.1:6480"
PATH = "/api/v1/chains"
CONFIGURATION = "/etc/mirage/client.conf"


class Unreachable(Exception):
    """The service did not take the chain; the message says why in a few words."""


def register(chain_id, job, request, environ):
    """POST the chain; whoever submitted it is shown by MUNGE."""
    before = signal.signal(signal.SIGALRM, _too_late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        _post(_url(environ), chain_id, _body(chain_id, job, request), environ)
    except OSError as error:
        raise Unreachable(error.strerror or str(error)) from error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _too_late(_number, _frame):
    raise Unreachable("no answer in %g s" % (LIMIT_S,))


def _url(environ):
    if environ.get("MIRAGE_URL"):
        return environ["MIRAGE_URL"]
    try:
        with open(environ.get("MIRAGE_CLIENT_CONF") or CONFIGURATION) as lines:
            for line in lines:
                name, equals, value = line.partition("=")
                if equals and name.strip() == "url":
                    return value.strip().strip("\"'")
    except OSError:
        return DEFAULT_URL
    return DEFAULT_URL


def _body(chain_id, job, request):
    """JSON by hand: ids and names hold nothing that needs escaping, and json costs 6 ms to load."""
    policy = "null" if request.policy is None else '"%s"' % (request.policy,)
    price = "null" if request.overlap_price is None else repr(request.overlap_price)
    return (
        '{"chain_id": "%s", "job_id": %d, "links": %d, "policy": %s, "overlap_price": %s}'
        % (chain_id, job, request.links, policy, price)
    ).encode("ascii")


def _post(url, chain_id, body, environ):
    scheme, _, rest = url.partition("://")
    where, slash, prefix = rest.partition("/")
    path = (slash + prefix).rstrip("/") + PATH
    if scheme not in ("http", "https") or not where:
        raise Unreachable("MIRAGE_URL is no http address")
    stream = _connect(scheme, where)
    head = [
        "POST %s HTTP/1.1" % (path,),
        "Host: %s" % (where,),
        "Content-Type: application/json",
        "Content-Length: %d" % (len(body),),
        "Authorization: MUNGE %s" % (_credential(body, environ),),
        "Idempotency-Key: %s" % (chain_id,),
        "Connection: close",
    ]
    stream.sendall("\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + body)
    _understand(_answer(stream))


def _connect(scheme, where):
    import socket

    host, port = where, 443 if scheme == "https" else 80
    name, colon, number = where.rpartition(":")
    if colon and number.isdigit():
        host, port = name, int(number)
    host = host.strip("[]")
    stream = socket.create_connection((host, port), LIMIT_S)
    if scheme == "https":
        import ssl

        stream = ssl.create_default_context().wrap_socket(stream, server_hostname=host)
    return stream


def _answer(stream):
    answer = b""
    while b"\r\n\r\n" not in answer and len(answer) < 65536:
        part = stream.recv(4096)
        if not part:
            break
        answer += part
    return answer


def _understand(answer):
    words = answer.split(b"\r\n", 1)[0].split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise Unreachable("the answer was not HTTP")
    if not 200 <= int(words[1]) < 300:
        raise Unreachable("the answer was %d" % (int(words[1]),))


def _credential(body, environ, line="POST " + PATH):
    """What the munge command makes of the request's line and the body's hash."""
    import hashlib

    payload = "%s %s" % (line, hashlib.sha256(body).hexdigest())
    munge = _find("munge", environ)
    ours, out = os.pipe()
    source, feed = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(source, 0)
            os.dup2(out, 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.execve(munge, ["munge"], environ)
        finally:
            os._exit(127)
    for fd in (source, out):
        os.close(fd)
    os.write(feed, payload.encode("ascii"))
    os.close(feed)
    made = _read_all(ours).strip()
    if os.waitpid(child, 0)[1] != 0 or not made.startswith(b"MUNGE:"):
        raise Unreachable("munge gave no credential")
    return made.decode("ascii")


def _read_all(fd):
    parts = []
    while True:
        part = os.read(fd, 4096)
        if not part:
            os.close(fd)
            return b"".join(parts)
        parts.append(part)


def _find(command, environ):
    for directory in environ.get("PATH", "").split(":") + ["/usr/bin"]:
        path = os.path.join(directory, command)
        if directory and os.access(path, os.X_OK):
            return path
    raise Unreachable("there is no munge command")
