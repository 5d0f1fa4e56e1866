"""Make the credential that a request carries where the service is not asked on its socket.

Slurm's own means come first: SACK where AuthType=auth/slurm, else MUNGE. Either makes a credential
for this one request. Where neither is to be had, a token from a file serves: Slurm's
(`scontrol token`) or Mirage's. No token is taken from a variable: jobs inherit variables, and Slurm
26.05 removes its own. Standard library, Python 3.6.
"""

import os

from mirage_slurm.client import service
from mirage_slurm.client.service import Unreachable

TOKEN_FILE = "MIRAGE_TOKEN_FILE"  # noqa: S105 - the name of a variable
SLURM_JWT = "SLURM_JWT="  # as `scontrol token` prints it


def build_authorization(method, path, body, peer, environ, limit_s):
    """Return the value of the header Authorization for one request to this peer: a credential for
    this request alone, else a token.

    Raises Unreachable if this host can make no credential.
    """
    try:
        return build_signed_authorization(method, path, body, peer, environ, limit_s)
    except Unreachable:
        # A token is good for more than one request, so an unknown peer never gets it.
        if not environ.get(TOKEN_FILE) or not peer.is_known:
            raise
    return "Bearer " + read_token(environ[TOKEN_FILE])


def build_signed_authorization(method, path, body, peer, environ, limit_s):
    """Return the header's value with a credential of SACK or MUNGE, whichever Slurm uses.

    Raises Unreachable.
    """
    payload = service.format_payload(method, path, hash_sha256(body), environ)
    if uses_sack(environ):
        return build_sack_authorization(payload, peer, environ, limit_s)
    return "MUNGE " + _make_munge_credential(payload, environ)


def uses_sack(environ):
    """Return whether Slurm knows users by its own socket here, and not by MUNGE.

    AuthType of slurm.conf says so. Where that cannot be read, the socket does: it is there only if
    Slurm uses it.
    """
    auth_type = service.read_slurm_setting("AuthType", environ).lower()
    if auth_type:
        return auth_type == "auth/slurm"
    from mirage_slurm.client import sack

    return sack.is_here(environ)


def build_sack_authorization(payload, peer, environ, limit_s):
    """Return the header's value with a credential of Slurm's socket. Raises Unreachable.

    A random word ends the payload: Slurm's credentials of one second that hold the same are the
    same, and the service takes each once.
    """
    from mirage_slurm.client import sack

    uid = service.find_service_uid(peer, environ)
    content = "%s %s" % (payload, os.urandom(8).hex())
    reader = sack.ANYBODY if uid is None else uid
    return "SACK " + sack.create_credential(content, reader, environ, limit_s)


def read_token(path):
    """Return the token in a file that nobody else may read. Raises Unreachable."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(number, encoding="ascii") as token_file:
            status = os.fstat(number)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise Unreachable("others can read %s: run `chmod 600 %s`" % (path, path))
            token = token_file.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unreachable("no token can be read from %s: %s" % (path, error)) from None
    return token[len(SLURM_JWT) :] if token.startswith(SLURM_JWT) else token


def _make_munge_credential(payload, environ):
    """Return the munge command's credential that holds the payload."""
    munge = _find_command("munge", environ)
    munge_output, munge_stdout = os.pipe()
    munge_stdin, payload_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(munge_stdin, 0)
            os.dup2(munge_stdout, 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.execve(munge, ["munge"], environ)  # noqa: S606 - an argument vector
        finally:
            os._exit(127)
    for fd in (munge_stdin, munge_stdout):
        os.close(fd)
    os.write(payload_end, payload.encode("utf-8", "replace"))
    os.close(payload_end)
    credential = read_to_end(munge_output).strip()
    if os.waitpid(child, 0)[1] != 0 or not credential.startswith(b"MUNGE:"):
        raise Unreachable("the command munge gave no credential: is munged running?")
    return credential.decode("ascii")


def hash_sha256(body):
    """Return the SHA-256 in hex, by a built-in module if there is one: loading OpenSSL costs 5 ms."""
    for name in ("_sha256", "_sha2", "hashlib"):  # Python up to 3.11, from 3.12, any other
        try:
            return __import__(name).sha256(body).hexdigest()
        except ImportError:
            continue


def read_to_end(fd):
    parts = []
    while True:
        part = os.read(fd, 4096)
        if not part:
            os.close(fd)
            return b"".join(parts)
        parts.append(part)


def _find_command(command, environ):
    for directory in environ.get("PATH", "").split(":") + ["/usr/bin", "/usr/local/bin"]:
        path = os.path.join(directory, command)
        if directory and os.access(path, os.X_OK):
            return path
    raise Unreachable("the command munge is not installed on this host")
