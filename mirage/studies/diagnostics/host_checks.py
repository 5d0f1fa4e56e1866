"""Checks of this host: the unit, disk, shares, clock, MUNGE and the wrapped sbatch."""

import ctypes
import hashlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mirage.cluster.auth import munge
from mirage.config.paths import get_data_dir
from mirage.config.settings import Settings
from mirage.domain.sanitize import escape_unprintable
from mirage.errors import ClusterUnavailable
from mirage.studies.diagnostics.finding import Finding, Severity, run_check

SYSTEMD = Path("/run/systemd/system")
"""Is there where systemd runs (sd_booted(3))."""

PROC_MOUNTS = Path("/proc/self/mounts")
_HIDDEN = frozenset({"hidepid=1", "hidepid=2", "hidepid=noaccess", "hidepid=invisible"})
"""How /proc is mounted where processes are their owners' own; newer kernels print the words."""

_MIB = 1 << 20
_LITTLE_MIB, _TOO_LITTLE_MIB = 2048, 200
_TIMEX_BYTES = 512
"""More than struct timex has on any machine."""
_UNSYNCHRONIZED = 5
"""TIME_ERROR of adjtimex(2)."""
_UNIT = "mirage.service"
_ASKED = ("LoadState", "ActiveState", "UnitFileState", "NRestarts", "NeedDaemonReload")


def check_host(settings: Settings, *, user: bool) -> list[Finding]:
    """`user`: of one's own service, which has no unit of the system's."""
    return [
        *([] if user else [run_check("unit", check_unit)]),
        run_check("disk", lambda: check_disk(settings.service.state_dir)),
        run_check("shares", lambda: check_nfs_mounts(PROC_MOUNTS.read_text(errors="replace"))),
        run_check("clock", check_clock),
        run_check("/proc", lambda: check_proc_visibility(PROC_MOUNTS.read_text(errors="replace"))),
        run_check("MUNGE", check_munge),
        run_check("sbatch", lambda: check_sbatch_wrapper(os.environ.get("PATH", ""))),
    ]


def check_account(state_dir: Path) -> list[Finding]:
    """Said where it is not the service's: what follows is then of another account's rights."""
    try:
        owner = state_dir.stat().st_uid
        if owner == os.geteuid():
            return []
        whose = pwd.getpwuid(owner).pw_name
    except (OSError, KeyError):
        return []
    told = f"{state_dir} is {whose}'s, and this runs as somebody else: "
    how = (
        "`mirage-as-service doctor`" if shutil.which("mirage-as-service") else f"run it as {whose}"
    )
    return [Finding("account", Severity.WARNING, told + how)]


def check_unit() -> tuple[Severity, str]:
    """Check whether systemd knows the service, restarts it, and starts it with the host."""
    if not SYSTEMD.is_dir():
        return Severity.GOOD, "systemd does not run here: what starts `mirage serve` again is yours"
    asked = [f"--property={name}" for name in _ASKED]
    words = ["systemctl", "show", _UNIT, *asked]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed argument vector
            words, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Severity.WARNING, f"systemctl does not say: {error}"
    facts = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return judge_unit(facts)


def judge_unit(facts: dict[str, str]) -> tuple[Severity, str]:
    """Judge the service's unit by the output of `systemctl show`."""
    if facts.get("LoadState") != "loaded":
        return Severity.WARNING, (
            f"there is no {_UNIT}: nothing starts the service with this host "
            "(docs/admin/install.md)"
        )
    if facts.get("NeedDaemonReload") == "yes":
        return Severity.WARNING, "its file was changed: `systemctl daemon-reload`, then restart it"
    if facts.get("ActiveState") == "failed":
        return Severity.FAULT, f"it has failed: `journalctl -u {_UNIT}` says why"
    return _judge_loaded_unit(facts)


def _judge_loaded_unit(facts: dict[str, str]) -> tuple[Severity, str]:
    state, restarts = facts.get("ActiveState", "?"), facts.get("NRestarts", "0")
    if state != "active":
        return Severity.WARNING, f"it is {state}: `systemctl enable --now {_UNIT}`"
    if restarts not in {"", "0"}:
        return Severity.WARNING, f"started again {restarts} times: `journalctl -u {_UNIT}`"
    if facts.get("UnitFileState") != "enabled":
        return Severity.WARNING, f"it ends with this host: `systemctl enable {_UNIT}`"
    return Severity.GOOD, "it runs, and starts with this host"


def check_disk(state_dir: Path) -> tuple[Severity, str]:
    """Check the free space of the disk that holds the growing database."""
    try:
        free_mib = shutil.disk_usage(state_dir).free // _MIB
    except OSError as error:
        return Severity.FAULT, f"{state_dir} cannot be looked at: {error.strerror}"
    told = f"{free_mib} MiB are free at {state_dir}"
    if free_mib < _TOO_LITTLE_MIB:
        return Severity.FAULT, f"{told}: nothing can be stored soon, make room"
    if free_mib < _LITTLE_MIB:
        return Severity.WARNING, f"{told}: make room"
    return Severity.GOOD, told


def check_nfs_mounts(mounts: str) -> tuple[Severity, str]:
    """Check whether a node may take the listing of a chain's directory from its cache.

    `mounts` has the format of /proc/self/mounts.
    """
    fields = [line.split(" ") for line in mounts.splitlines()]
    nfs = {part[1]: part[3].split(",") for part in fields if part[2] in {"nfs", "nfs4"}}
    stale = sorted(place for place, options in nfs.items() if "nocto" in options)
    if stale:
        return Severity.WARNING, (
            f"{', '.join(map(escape_unprintable, stale))}: mounted with nocto, so two links of a "
            "chain whose directory is there may both believe that they may write: "
            "take it out everywhere"
        )
    return Severity.GOOD, f"{len(nfs)} of NFS here, none with nocto"


def check_clock() -> tuple[Severity, str]:
    """Check whether a program keeps the clock right.

    Waits are measured by the clock, and MUNGE refuses credentials that are late.
    """
    # All zeros asks and changes nothing, which needs no privilege.
    told = ctypes.create_string_buffer(_TIMEX_BYTES)
    if ctypes.CDLL(None, use_errno=True).adjtimex(told) == _UNSYNCHRONIZED:
        return Severity.WARNING, (
            "nothing keeps it (NTP): waits come out wrong, and MUNGE refuses credentials where "
            "hosts differ by five minutes. Start chrony or systemd-timesyncd"
        )
    return Severity.GOOD, "it is kept"


def check_proc_visibility(mounts: str) -> tuple[Severity, str]:
    """Check whether users see each other's processes, and so their command lines (proc(5)).

    `mounts` has the format of /proc/self/mounts.
    """
    found = [line.split() for line in mounts.splitlines()]
    options = next((words[3].split(",") for words in reversed(found) if words[1] == "/proc"), [])
    if _HIDDEN & set(options):
        return Severity.GOOD, "users see no processes of others"
    return Severity.WARNING, (
        "users see the command lines of others, this service's included. Mirage relies on no "
        "secret in one; other programs may: mount /proc with hidepid=2 (docs/admin/security.md)"
    )


def check_munge() -> tuple[Severity, str]:
    """A credential made and read: what the wrapped sbatch and `mirage chain` are known by."""
    payload = "mirage doctor"
    try:
        who = munge.authenticate_caller(munge.create_credential(payload), payload)
    except ClusterUnavailable as error:
        return Severity.WARNING, (
            f"{error}: users of other hosts are not known, so their chains are not registered at "
            "once. Install munge with the cluster's key, and start munged"
        )
    return Severity.GOOD, f"it vouches for {who.user}"


def check_sbatch_wrapper(path: str) -> tuple[Severity, str]:
    """Check which sbatch users get if they type `sbatch` with this PATH."""
    sbatch = shutil.which("sbatch", path=path)
    ours = get_data_dir("slurm_plugin").resolve()  # the package has it at a shorter path
    if sbatch is None:
        return Severity.WARNING, "there is none on PATH: no chain can be submitted on this host"
    folder = Path(sbatch).resolve().parent
    if not (folder / "mirage_service.py").exists():
        return Severity.GOOD, (
            f"{sbatch} is Slurm's own: chains are asked for by `mirage chain submit`, or with "
            f"{ours} first on PATH"
        )
    if differing := sorted(_list_differing_files(folder, ours)):
        return Severity.WARNING, (
            f"{sbatch} is of another Mirage than this one ({', '.join(differing[:3])} differ): "
            f"copy {ours} there"
        )
    return Severity.GOOD, f"{sbatch} is this Mirage's, and asks for chains"


def _list_differing_files(theirs: Path, ours: Path) -> Iterator[str]:
    for file in ours.rglob("*"):
        name = file.relative_to(ours)
        if file.is_dir() or "__pycache__" in name.parts:
            continue
        if _hash_file(file) != _hash_file(theirs / name):
            yield str(name)


def _hash_file(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return "none"
