"""Makes and reads MUNGE credentials. munged identifies users, as it does for Slurm itself."""

import os
import re
import subprocess

from mirage.domain.callers.caller import Caller
from mirage.domain.callers.request_signing import explain_difference
from mirage.errors import ClusterUnavailable, NotIdentified
from mirage.slurm.clients.host_accounts import build_caller, format_user_name

TIMEOUT_S = 5.0

_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]{1,8192}:")
_BAD_CREDENTIAL = 8
"""From this exit code on (munge.h, munge_err_t), the credential is at fault; below it, munged
is."""
_FAULTS = {15: "has expired", 16: "is from the future: clocks differ", 17: "was used before"}


def authenticate_caller(credential: str, payload: str, *older_payloads: str) -> Caller:
    """Return the user who made the credential. Arguments and errors as verify_credential."""
    return verify_credential(credential, payload, *older_payloads)[0]


def verify_credential(credential: str, payload: str, *older_payloads: str) -> tuple[Caller, int]:
    """Return the user who made the credential, and the last second in which it is good (epoch).

    The credential must sign exactly `payload`, or one of `older_payloads`, which clients without a
    cluster's name sign. munged refuses a credential that was used before.

    Raises NotIdentified, or ClusterUnavailable if munged does not answer.
    """
    if not _CREDENTIAL.fullmatch(credential):
        raise NotIdentified("the credential is not a MUNGE credential: make one with `munge`")
    result = _run_command(["unmunge", "--numeric", "--keys=STATUS,UID,ENCODE_TIME,TTL"], credential)
    head, _, signed_text = result.stdout.decode(errors="replace").partition("\n\n")
    facts = dict(_parse_fact(line) for line in head.splitlines())
    if result.returncode >= _BAD_CREDENTIAL:
        fault = _FAULTS.get(result.returncode)
        raise NotIdentified(
            f"the MUNGE credential {fault or 'is not valid here'}",
            # munged decodes even an expired credential, so its maker is known here.
            format_user_name(int(facts["UID"])) if fault and facts.get("UID", "").isdigit() else "",
        )
    is_whole = all(facts.get(name, "").isdigit() for name in ("UID", "ENCODE_TIME", "TTL"))
    if result.returncode != 0 or facts.get("STATUS") != "0" or not is_whole:
        reason = result.stderr.decode(errors="replace").strip() or f"exit code {result.returncode}"
        raise ClusterUnavailable(
            f"munged cannot check credentials: {reason}; see `systemctl status munge`"
        )
    uid = int(facts["UID"])
    if signed_text not in {payload, *older_payloads}:
        raise NotIdentified(
            f"the MUNGE credential {explain_difference(signed_text, payload)}",
            format_user_name(uid),
        )
    expires_at = int(facts["ENCODE_TIME"]) + int(facts["TTL"])
    return build_caller(uid, names_cluster=signed_text == payload), expires_at


def create_credential(payload: str) -> str:
    """Return a new credential of this process's user, for one use.

    Raises ClusterUnavailable if munged gives none.
    """
    result = _run_command(["munge"], payload)
    credential = result.stdout.decode(errors="replace").strip()
    if result.returncode != 0 or not _CREDENTIAL.fullmatch(credential):
        reason = result.stderr.decode(errors="replace").strip() or f"exit code {result.returncode}"
        raise ClusterUnavailable(f"munged gives no credential: {reason}")
    return credential


def _run_command(argv: list[str], text: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603 - one of two fixed argument vectors
            argv,
            input=text.encode(),
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            env={"PATH": f"{os.environ.get('PATH', '')}:/usr/bin", "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise ClusterUnavailable(f"there is no {argv[0]} command on this host") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterUnavailable(f"munged did not answer within {TIMEOUT_S:g} s") from error
    except OSError as error:
        raise ClusterUnavailable(f"{argv[0]} cannot be run: {error}") from error


def _parse_fact(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name, value.strip()
