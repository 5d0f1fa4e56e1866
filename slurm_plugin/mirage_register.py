"""Tell the Mirage service of a new chain, within two seconds in all or not at all."""

import os

LIMIT_S = 2.0
RESERVE_S = 0.2  # of it for all that the wrapper does besides
TAKEN = b"taken"
DEFAULT_URL = "http://127.0.0.1:6480"
PATH = "/api/v1/chains"
CONFIGURATION = "/etc/mirage/client.conf"


class Unreachable(Exception):
    """The service did not take the chain; the message says why in a few words."""


def register(chain_id, job, settings, environ, recipe=None):
    """POST the chain; whoever submitted it is shown by MUNGE. `recipe`: JSON (mirage_recipe).

    In a process of its own: neither a name server nor munged, silent both, can hold up the user.
    """
    import _signal

    said, word = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _signal.signal(_signal.SIGALRM, _signal.SIG_DFL)
            _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGALRM])
            _signal.setitimer(_signal.ITIMER_REAL, LIMIT_S - RESERVE_S)  # SIGALRM ends it
            os.close(said)
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # whoever reads our output waits for us only
            body = _body(chain_id, job, settings, recipe)
            os.write(word, _tried(body, chain_id, environ))
        finally:
            os._exit(0)
    os.close(word)
    answer = _read_all(said)
    os.waitpid(child, 0)
    if answer != TAKEN:
        why = answer.decode("utf-8", "replace") or "no answer in %g s" % (LIMIT_S - RESERVE_S,)
        raise Unreachable(why)


def _tried(body, chain_id, environ):
    """What came of it, in a line."""
    try:
        _post(_url(environ), chain_id, body, environ)
    except (OSError, Unreachable) as error:
        return (getattr(error, "strerror", None) or str(error)).encode("utf-8", "replace")
    except Exception as error:
        return ("%s: %s" % (type(error).__name__, error)).encode("utf-8", "replace")
    return TAKEN


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


def _body(chain_id, job, settings, recipe):
    """JSON by hand: nothing in here needs escaping, and json costs 6 ms to load.

    What nobody asked for is left out, so that an older service understands the rest.
    """
    fields = [
        ("chain_id", '"%s"' % (chain_id,)),
        ("job_id", "%d" % (job,)),
        ("links", "%d" % (settings.links,)),
        ("policy", "null" if settings.policy is None else '"%s"' % (settings.policy,)),
        ("overlap_price", "null" if settings.overlap_price is None else repr(settings.overlap_price)),
    ]
    for name, field, value in (
        ("total", "total_s", settings.total_s),
        ("max-overlap", "max_overlap_s", settings.max_overlap_s),
        ("presubmit", "presubmit", '"%s"' % (settings.presubmit,)),
        ("style", "style", '"%s"' % (settings.style,)),
        ("mode", "mode", '"%s"' % (settings.mode,)),
        ("min-runtime", "min_runtime_s", settings.min_runtime_s),
    ):
        if name in settings.asked:
            fields.append((field, value))
    if recipe is not None:
        fields.append(("recipe", recipe))
    return ("{%s}" % ", ".join('"%s": %s' % field for field in fields)).encode("ascii")


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
    host, port = where, 443 if scheme == "https" else 80
    name, colon, number = where.rpartition(":")
    if colon and number.isdigit():
        host, port = name, int(number)
    host = host.strip("[]")
    if scheme == "https":
        import socket
        import ssl

        stream = socket.create_connection((host, port), LIMIT_S)
        return ssl.create_default_context().wrap_socket(stream, server_hostname=host)
    return _connect_plainly(host, port)


def _connect_plainly(host, port):
    """A connection by the built-in module alone: loading `socket` costs 5 ms."""
    import _socket

    failed = OSError("no address of this name")
    for family, kind, protocol, _, address in _socket.getaddrinfo(
        host, port, 0, _socket.SOCK_STREAM
    ):
        stream = _socket.socket(family, kind, protocol)
        try:
            stream.settimeout(LIMIT_S)
            stream.connect(address)
        except OSError as error:
            failed = error
        else:
            return stream
    raise failed


def _answer(stream):
    """The answer's head, and where it is no welcome one its words too."""
    answer = b""
    while len(answer) < 65536 and not (b"\r\n\r\n" in answer and b" 2" == answer[8:10]):
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
        raise Unreachable("%d%s" % (int(words[1]), _detail(answer)))


def _detail(answer):
    """What a problem's answer says in words (RFC 9457), if it does."""
    import json

    try:
        return ": %.200s" % (json.loads(answer.split(b"\r\n\r\n", 1)[1].decode())["detail"],)
    except (IndexError, KeyError, TypeError, ValueError):
        return ""


def _credential(body, environ, line="POST " + PATH):
    """What the munge command makes of the request's line and the body's hash."""
    payload = "%s %s" % (line, _sha256(body))
    munge = _find("munge", environ)
    ours, out = os.pipe()
    source, feed = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(source, 0)
            os.dup2(out, 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.execve(munge, ["munge"], environ)  # noqa: S606 - an argument vector
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


def _sha256(body):
    """The hash by a built-in module where there is one: loading OpenSSL costs 5 ms."""
    for name in ("_sha256", "_sha2", "hashlib"):  # of Python up to 3.11, from 3.12, and any other
        try:
            return __import__(name).sha256(body).hexdigest()
        except ImportError:
            continue


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
