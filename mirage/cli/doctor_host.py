"""What `mirage doctor` says of this host: the unit, disk, shares, clock, MUNGE and
the wrapped sbatch."""

import ctypes
import hashlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mirage.cli.findings import Finding, Verdict, found
from mirage.cluster import munge
from mirage.domain.printable import printable
from mirage.errors import ClusterUnavailable
from mirage.installed import data_dir
from mirage.settings import Settings

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


def look(settings: Settings, *, user: bool) -> list[Finding]:
    """`user`: of one's own service, which has no unit of the system's."""
    return [
        *([] if user else [found("unit", unit)]),
        found("disk", lambda: disk(settings.service.state_dir)),
        found("shares", lambda: shares(PROC_MOUNTS.read_text(errors="replace"))),
        found("clock", clock),
        found("/proc", lambda: others_processes(PROC_MOUNTS.read_text(errors="replace"))),
        found("MUNGE", vouched),
        found("sbatch", lambda: wrapper(os.environ.get("PATH", ""))),
    ]


def account(state_dir: Path) -> list[Finding]:
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
    return [Finding("account", Verdict.WARNING, told + how)]


def unit() -> tuple[Verdict, str]:
    """Whether systemd has it, keeps it alive, and starts it with the host."""
    if not SYSTEMD.is_dir():
        return Verdict.GOOD, "systemd does not run here: what starts `mirage serve` again is yours"
    asked = [f"--property={name}" for name in _ASKED]
    words = ["systemctl", "show", _UNIT, *asked]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed argument vector
            words, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Verdict.WARNING, f"systemctl does not say: {error}"
    facts = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return unit_told(facts)


def unit_told(facts: dict[str, str]) -> tuple[Verdict, str]:
    """Of what `systemctl show` says."""
    if facts.get("LoadState") != "loaded":
        return Verdict.WARNING, (
            f"there is no {_UNIT}: nothing starts the service with this host (docs/install.md)"
        )
    if facts.get("NeedDaemonReload") == "yes":
        return Verdict.WARNING, "its file was changed: `systemctl daemon-reload`, then restart it"
    if facts.get("ActiveState") == "failed":
        return Verdict.FAULT, f"it has failed: `journalctl -u {_UNIT}` says why"
    return _loaded(facts)


def _loaded(facts: dict[str, str]) -> tuple[Verdict, str]:
    state, restarts = facts.get("ActiveState", "?"), facts.get("NRestarts", "0")
    if state != "active":
        return Verdict.WARNING, f"it is {state}: `systemctl enable --now {_UNIT}`"
    if restarts not in {"", "0"}:
        return Verdict.WARNING, f"started again {restarts} times: `journalctl -u {_UNIT}`"
    if facts.get("UnitFileState") != "enabled":
        return Verdict.WARNING, f"it ends with this host: `systemctl enable {_UNIT}`"
    return Verdict.GOOD, "it runs, and starts with this host"


def disk(state_dir: Path) -> tuple[Verdict, str]:
    """Where the database grows."""
    try:
        free_mib = shutil.disk_usage(state_dir).free // _MIB
    except OSError as error:
        return Verdict.FAULT, f"{state_dir} cannot be looked at: {error.strerror}"
    told = f"{free_mib} MiB are free at {state_dir}"
    if free_mib < _TOO_LITTLE_MIB:
        return Verdict.FAULT, f"{told}: nothing can be stored soon, make room"
    if free_mib < _LITTLE_MIB:
        return Verdict.WARNING, f"{told}: make room"
    return Verdict.GOOD, told


def shares(mounts: str) -> tuple[Verdict, str]:
    """Whether a node may take a listing of a chain's directory from its memory. `mounts`: as
    /proc/self/mounts has them."""
    fields = [line.split(" ") for line in mounts.splitlines()]
    nfs = {part[1]: part[3].split(",") for part in fields if part[2] in {"nfs", "nfs4"}}
    stale = sorted(place for place, options in nfs.items() if "nocto" in options)
    if stale:
        return Verdict.WARNING, (
            f"{', '.join(map(printable, stale))}: mounted with nocto, so two links of a chain "
            "whose directory is there may both believe that they may write: take it out everywhere"
        )
    return Verdict.GOOD, f"{len(nfs)} of NFS here, none with nocto"


def clock() -> tuple[Verdict, str]:
    """Whether something keeps it: waits are measured by it, and MUNGE refuses what is late."""
    # All zeros asks and changes nothing, which needs no privilege.
    told = ctypes.create_string_buffer(_TIMEX_BYTES)
    if ctypes.CDLL(None, use_errno=True).adjtimex(told) == _UNSYNCHRONIZED:
        return Verdict.WARNING, (
            "nothing keeps it (NTP): waits come out wrong, and MUNGE refuses credentials where "
            "hosts differ by five minutes. Start chrony or systemd-timesyncd"
        )
    return Verdict.GOOD, "it is kept"


def others_processes(mounts: str) -> tuple[Verdict, str]:
    """Whether users see each other's processes, and with these their command lines (proc(5)).

    `mounts`: of /proc/self/mounts.
    """
    found = [line.split() for line in mounts.splitlines()]
    options = next((words[3].split(",") for words in reversed(found) if words[1] == "/proc"), [])
    if _HIDDEN & set(options):
        return Verdict.GOOD, "users see no processes of others"
    return Verdict.WARNING, (
        "users see the command lines of others, this service's included. Mirage relies on no "
        "secret in one; other programs may: mount /proc with hidepid=2 (docs/security.md)"
    )


def vouched() -> tuple[Verdict, str]:
    """A credential made and read: what the wrapped sbatch and `mirage chain` are known by."""
    payload = "mirage doctor"
    try:
        who = munge.identify(munge.credential(payload), payload)
    except ClusterUnavailable as error:
        return Verdict.WARNING, (
            f"{error}: users of other hosts are not known, so their chains are not registered at "
            "once. Install munge with the cluster's key, and start munged"
        )
    return Verdict.GOOD, f"it vouches for {who.user}"


def wrapper(path: str) -> tuple[Verdict, str]:
    """What users get who type sbatch with this PATH."""
    sbatch = shutil.which("sbatch", path=path)
    ours = data_dir("slurm_plugin").resolve()  # the package has it at a shorter path
    if sbatch is None:
        return Verdict.WARNING, "there is none on PATH: no chain can be submitted on this host"
    folder = Path(sbatch).resolve().parent
    if not (folder / "mirage_service.py").exists():
        return Verdict.GOOD, (
            f"{sbatch} is Slurm's own: chains are asked for by `mirage chain submit`, or with "
            f"{ours} first on PATH"
        )
    if differing := sorted(_differing(folder, ours)):
        return Verdict.WARNING, (
            f"{sbatch} is of another Mirage than this one ({', '.join(differing[:3])} differ): "
            f"copy {ours} there"
        )
    return Verdict.GOOD, f"{sbatch} is this Mirage's, and asks for chains"


def _differing(theirs: Path, ours: Path) -> Iterator[str]:
    for file in ours.iterdir():
        if file.is_file() and _digest(file) != _digest(theirs / file.name):
            yield file.name


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return "none"
