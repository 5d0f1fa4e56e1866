"""The accounting side: MariaDB, slurmdbd, and the accounts and users in it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess

import clock
import daemons
from settings import (
    ACCOUNT_SHARES,
    CLUSTER,
    LOG,
    RUN,
    SERVICE_USER,
    STATE,
    USERS,
    TestbedError,
)

_DATABASE = "slurm_acct_db"
_SOCKET = RUN / "mysql.sock"
_FILES_MADE = STATE / "mysql.made"
_SEEDED = STATE / "seeded"
# Associations are what is worth keeping: adding them again takes seconds.
_KEPT_TABLES = ("assoc_table", "wckey_table")


def start_database() -> None:
    if not _FILES_MADE.exists():
        _make_files()
    daemons.start("mariadbd", ["mariadbd", f"--defaults-file={STATE}/my.cnf"], user="slurm")
    daemons.wait_for("mariadbd", _answers, daemon="mariadbd")
    _sql(f"create database if not exists {_DATABASE}")


def _make_files() -> None:
    data = STATE / "mysql"
    shutil.rmtree(data, ignore_errors=True)  # of an interrupted run
    _SEEDED.unlink(missing_ok=True)
    data.mkdir()
    shutil.chown(data, "slurm", "slurm")
    process = subprocess.run(
        [
            "mariadb-install-db",
            f"--defaults-file={STATE}/my.cnf",
            "--user=slurm",
            f"--datadir={data}",
            "--skip-test-db",
            # The Unix user slurm logs in through the socket: there is no password anywhere.
            "--auth-root-authentication-method=socket",
            "--auth-root-socket-user=slurm",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise TestbedError(f"mariadb-install-db:\n{process.stdout[-1000:]}{process.stderr[-1000:]}")
    _FILES_MADE.touch()


def _mariadb(statement: str) -> subprocess.CompletedProcess[str]:
    entry = pwd.getpwnam("slurm")
    return subprocess.run(
        [
            "mariadb",
            "--no-defaults",
            "-S",
            str(_SOCKET),
            "-u",
            "slurm",
            "-N",
            "-B",
            "-e",
            statement,
        ],
        capture_output=True,
        text=True,
        check=False,
        user=entry.pw_uid,
        group=entry.pw_gid,
        extra_groups=[],
    )


def _answers() -> bool:
    return _mariadb("select 1").returncode == 0


def _sql(statement: str) -> str:
    process = _mariadb(statement)
    if process.returncode != 0:
        raise TestbedError(f"mariadb: {process.stderr.strip()}")
    return process.stdout


def wipe_history() -> None:
    """Forget all jobs, events and usage, but keep accounts and users; slurmdbd must be down."""
    tables = [name for name in _sql(f"show tables in {_DATABASE}").split() if _is_ours(name)]
    kept_tables = {f"{CLUSTER}_{name}" for name in _KEPT_TABLES}
    statements = [
        f"delete from {_DATABASE}.{name}"  # noqa: S608 names from the database itself
        for name in tables
        if name not in kept_tables
    ]
    if statements:
        _sql(";".join(statements))


def _is_ours(table: str) -> bool:
    return table.startswith(f"{CLUSTER}_")


def start_slurmdbd() -> None:
    daemons.start(
        "slurmdbd",
        ["slurmdbd", "-D"],
        user="slurm",
        env=clock.environment() | {"MYSQL_UNIX_PORT": str(_SOCKET)},
    )
    daemons.wait_for("slurmdbd", _slurmdbd_answers, daemon="slurmdbd")
    if not _SEEDED.exists():
        _seed()


def _sacctmgr(*words: str, script: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sacctmgr", *words],
        input=script,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | clock.environment(),
    )


def _slurmdbd_answers() -> bool:
    return _sacctmgr("-n", "show", "cluster").returncode == 0


def _seed() -> None:
    """Add accounts and users: few and wide commands, each costs up to half a second.

    Users share their account's standing (Fairshare=parent): within an account age decides.
    """
    lines = [
        f"add cluster {CLUSTER}",
        "add qos high set Priority=100",
        "add qos low set Priority=0",
    ]
    for account, shares in ACCOUNT_SHARES.items():
        users = ",".join(user for user, theirs in USERS.items() if theirs == account)
        lines.append(f"add account {account} Fairshare={shares} Description={account}")
        lines.append(
            f"add user {users} Account={account} Fairshare=parent "
            f"QOS=normal,high,low DefaultQOS=normal"
        )
    lines.append(f"modify user {SERVICE_USER} set AdminLevel=Operator")
    script = "\n".join(lines) + "\n"
    # On a busy host slurmdbd waits for its database in vain at times: what is there stays.
    daemons.wait_for("accounts and users", lambda: _add_users(script), daemon="slurmdbd")
    _SEEDED.touch()


def _add_users(script: str) -> bool:
    """Run the commands; return whether all users are there."""
    process = _sacctmgr("-i", "-Q", script=script)
    (LOG / "seed.out").write_text(process.stdout + process.stderr)
    users = _sacctmgr("-n", "-P", "show", "assoc", "format=user").stdout.split()
    return set(USERS) <= set(users)
