"""Checks of this host: the unit, disk, shares, clock, MUNGE or SACK, and the wrapped sbatch."""

import ctypes
import hashlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mirage.cli.doctor.finding import Finding, Severity, run_check
from mirage.config.settings import Settings
from mirage.domain.sanitize import escape_unprintable
from mirage.errors import ClusterUnavailable, NotIdentified
from mirage.service import wiring
from mirage.shipped_files import get_data_dir, load_client_module
from mirage.slurm.clients.auth import munge, sack

SYSTEMD = Path("/run/systemd/system")
"""This folder exists if systemd runs (sd_booted(3))."""

PROC_MOUNTS = Path("/proc/self/mounts")
_HIDING_OPTIONS = frozenset({"hidepid=1", "hidepid=2", "hidepid=noaccess", "hidepid=invisible"})
"""Mount options of /proc that hide users' processes from each other; new kernels print words."""

_MIB = 1 << 20
_LITTLE_MIB, _TOO_LITTLE_MIB = 2048, 200
_TIMEX_BYTES = 512
"""More than struct timex has on any machine."""
_UNSYNCHRONIZED = 5
"""TIME_ERROR of adjtimex(2)."""
_UNIT = "mirage.service"
_PROPERTIES = ("LoadState", "ActiveState", "UnitFileState", "NRestarts", "NeedDaemonReload")


def check_host(settings: Settings, *, user: bool) -> list[Finding]:
    """Run the checks of this host; `user`: for a user's own service, which has no system unit."""
    return [
        *([] if user else [run_check("unit", check_unit)]),
        run_check("disk", lambda: check_disk(settings.service.state_dir)),
        run_check("shares", lambda: check_nfs_mounts(PROC_MOUNTS.read_text(errors="replace"))),
        run_check("clock", check_clock),
        run_check("/proc", lambda: check_proc_visibility(PROC_MOUNTS.read_text(errors="replace"))),
        check_credentials(settings.cluster.name),
        run_check("sbatch", lambda: check_sbatch_wrapper(os.environ.get("PATH", ""))),
    ]


def check_account(state_dir: Path) -> list[Finding]:
    """Warn if this account is not the service's, since the findings then hold for this account."""
    try:
        owner = state_dir.stat().st_uid
        # Kubernetes gives a volume to root, and the account writes to it by its group.
        if owner == os.geteuid() or (owner == 0 and os.access(state_dir, os.W_OK)):
            return []
        owner_name = pwd.getpwuid(owner).pw_name
    except (OSError, KeyError):
        return []
    fact = f"{state_dir} is {owner_name}'s, but this command runs as another user: "
    remedy = (
        "run `mirage-as-service doctor`"
        if shutil.which("mirage-as-service")
        else f"run this command as {owner_name}"
    )
    return [Finding("account", Severity.WARNING, fact + remedy)]


def check_unit() -> tuple[Severity, str]:
    """Check whether systemd knows the service, restarts it, and starts it with the host."""
    if not SYSTEMD.is_dir():
        return Severity.GOOD, (
            "this host runs no systemd: make sure that something restarts `mirage serve`"
        )
    properties = [f"--property={name}" for name in _PROPERTIES]
    command = ["systemctl", "show", _UNIT, *properties]
    try:
        result = subprocess.run(  # noqa: S603 - a fixed argument vector
            command, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Severity.WARNING, f"systemctl does not answer: {error}"
    facts = dict(line.split("=", 1) for line in result.stdout.splitlines() if "=" in line)
    return judge_unit(facts)


def judge_unit(facts: dict[str, str]) -> tuple[Severity, str]:
    """Judge the service's unit by the output of `systemctl show`."""
    if facts.get("LoadState") != "loaded":
        return Severity.WARNING, (
            f"there is no {_UNIT}: nothing starts the service with this host "
            "(docs/admin/install.md)"
        )
    if facts.get("NeedDaemonReload") == "yes":
        return Severity.WARNING, (
            "the unit's file was changed: run `systemctl daemon-reload`, then "
            f"`systemctl restart {_UNIT}`"
        )
    if facts.get("ActiveState") == "failed":
        return Severity.FAULT, f"the service has failed: `journalctl -u {_UNIT}` says why"
    return _judge_loaded_unit(facts)


def _judge_loaded_unit(facts: dict[str, str]) -> tuple[Severity, str]:
    state, restarts = facts.get("ActiveState", "?"), facts.get("NRestarts", "0")
    if state != "active":
        return Severity.WARNING, f"the service is {state}: run `systemctl enable --now {_UNIT}`"
    if restarts not in {"", "0"}:
        return Severity.WARNING, (
            f"systemd restarted the service {restarts} times: `journalctl -u {_UNIT}` says why"
        )
    if facts.get("UnitFileState") != "enabled":
        return Severity.WARNING, (
            f"the service does not start after a reboot: run `systemctl enable {_UNIT}`"
        )
    return Severity.GOOD, "the service runs, and starts with this host"


def check_disk(state_dir: Path) -> tuple[Severity, str]:
    """Check the free space of the disk that holds the growing database."""
    try:
        free_mib = shutil.disk_usage(state_dir).free // _MIB
    except OSError as error:
        return Severity.FAULT, f"{state_dir} cannot be read: {error.strerror}"
    fact = f"{free_mib} MiB are free at {state_dir}"
    if free_mib < _TOO_LITTLE_MIB:
        return Severity.FAULT, f"{fact}: free some space before the database cannot grow any more"
    if free_mib < _LITTLE_MIB:
        return Severity.WARNING, f"{fact}: free some space"
    return Severity.GOOD, fact


def check_nfs_mounts(mounts: str) -> tuple[Severity, str]:
    """Check whether a node may take the listing of a chain's directory from its cache.

    `mounts` has the format of /proc/self/mounts.
    """
    fields = [line.split(" ") for line in mounts.splitlines()]
    nfs = {part[1]: part[3].split(",") for part in fields if part[2] in {"nfs", "nfs4"}}
    stale = sorted(place for place, options in nfs.items() if "nocto" in options)
    if stale:
        return Severity.WARNING, (
            f"{', '.join(map(escape_unprintable, stale))}: mounted with nocto, so if a chain's "
            "directory is there, two of its links may both write the checkpoint: remove nocto on "
            "all hosts"
        )
    return Severity.GOOD, f"{len(nfs)} NFS mounts on this host, none with nocto"


def check_clock() -> tuple[Severity, str]:
    """Check whether a program keeps the clock right.

    Waits are measured by the clock, and MUNGE and SACK refuse credentials that are late.
    """
    # A struct of zeros makes the call read the clock's state alone, which needs no privilege.
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)
    if ctypes.CDLL(None, use_errno=True).adjtimex(timex) == _UNSYNCHRONIZED:
        return Severity.WARNING, (
            "no program synchronizes the clock (NTP): waits are measured wrongly, and credentials "
            "are refused if hosts differ by a minute (SACK) or five (MUNGE). Start chrony or "
            "systemd-timesyncd"
        )
    return Severity.GOOD, "the clock is synchronized"


def check_proc_visibility(mounts: str) -> tuple[Severity, str]:
    """Check whether users see each other's processes, and so their command lines (proc(5)).

    `mounts` has the format of /proc/self/mounts.
    """
    mount_fields = [line.split() for line in mounts.splitlines()]
    options = next(
        (
            mount_words[3].split(",")
            for mount_words in reversed(mount_fields)
            if mount_words[1] == "/proc"
        ),
        [],
    )
    if _HIDING_OPTIONS & set(options):
        return Severity.GOOD, "users do not see each other's processes"
    return Severity.WARNING, (
        "users see each other's command lines. Mirage puts no secret into one, but other "
        "programs may: mount /proc with hidepid=2 (docs/admin/security.md)"
    )


def check_credentials(cluster: str) -> Finding:
    """Check what identifies users of other hosts: Slurm's own socket or MUNGE, as Slurm has it."""
    if load_client_module("client.credentials").uses_sack(os.environ):
        return run_check("SACK", lambda: check_sack(cluster))
    return run_check("MUNGE", check_munge)


def check_sack(cluster: str) -> tuple[Severity, str]:
    """Create a credential by Slurm's own socket as clients do, and read it as the service does."""
    plugin, payload = load_client_module("client.sack"), "mirage doctor"
    verifier = wiring.build_sack_verifier(cluster, lambda _caller, _digest, _until: True)
    try:
        credential = plugin.create_credential(
            payload, os.geteuid(), os.environ | {"MIRAGE_CLUSTER_NAME": cluster}, sack.TIMEOUT_S
        )
        caller = verifier.authenticate_caller(credential, payload)
    except (ClusterUnavailable, NotIdentified, plugin.Unreachable) as error:
        return Severity.WARNING, (
            f"{error}: the service cannot identify users of other hosts, so it learns of their "
            "chains late (docs/admin/without-munge.md)"
        )
    return Severity.GOOD, f"Slurm's own socket works, and identifies {caller.user}"


def check_munge() -> tuple[Severity, str]:
    """Create and decode a credential, as the wrapped sbatch and `mirage chain` need it."""
    payload = "mirage doctor"
    try:
        caller = munge.authenticate_caller(munge.create_credential(payload), payload)
    except ClusterUnavailable as error:
        return Severity.WARNING, (
            f"{error}: the service cannot identify users of other hosts, so it learns of their "
            "chains late. Install munge with the cluster's key, and start munged"
        )
    return Severity.GOOD, f"MUNGE works, and identifies {caller.user}"


def check_sbatch_wrapper(path: str) -> tuple[Severity, str]:
    """Check which sbatch users get if they type `sbatch` with this PATH."""
    sbatch = shutil.which("sbatch", path=path)
    own_folder = get_data_dir("slurm_plugin").resolve()  # the package has it at a shorter path
    if sbatch is None:
        return Severity.WARNING, (
            "PATH has no sbatch: nobody can submit a chain on this host. Install Slurm's client "
            "commands"
        )
    folder = Path(sbatch).resolve().parent
    if not (folder / "mirage_next.py").exists():  # a frozen path: plugins of every version have it
        return Severity.GOOD, (
            f"{sbatch} is Slurm's own: users submit chains by `mirage chain submit`, or with "
            f"{own_folder} first on PATH"
        )
    if differing := sorted(_list_differing_files(folder, own_folder)):
        return Severity.WARNING, (
            f"{sbatch} belongs to another version of Mirage ({', '.join(differing[:3])} differ): "
            f"copy {own_folder} to {folder}"
        )
    return Severity.GOOD, f"{sbatch} is the wrapped sbatch of this Mirage"


def _list_differing_files(folder: Path, own_folder: Path) -> Iterator[str]:
    for file in own_folder.rglob("*"):
        name = file.relative_to(own_folder)
        if file.is_dir() or "__pycache__" in name.parts:
            continue
        if _hash_file(file) != _hash_file(folder / name):
            yield str(name)


def _hash_file(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return "none"
