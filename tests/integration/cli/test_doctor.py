"""What `mirage doctor` says of host and service, and what it says to do."""

import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mirage.cli.doctor import host_checks, learn_schedule_checks
from mirage.cli.doctor.finding import Finding, Severity
from mirage.config.settings import Settings
from mirage.shipped_files import get_data_dir
from tests.support.fixtures.sack import FakeSackd
from tests.support.mirage_process import QuietSlurm, configured, run, serving
from tests.support.paths import CHECKOUT
from tests.support.training.committed import save

GOOD, WARNING, FAULT = Severity.GOOD, Severity.WARNING, Severity.FAULT
RUNNING = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "UnitFileState": "enabled",
    "NRestarts": "0",
    "NeedDaemonReload": "no",
}


@pytest.mark.parametrize(
    ("differing", "verdict", "told"),
    [
        ({}, GOOD, "the service runs, and starts with this host"),
        ({"LoadState": "not-found"}, WARNING, "nothing starts the service with this host"),
        ({"ActiveState": "failed"}, FAULT, "journalctl -u mirage.service"),
        ({"ActiveState": "inactive"}, WARNING, "systemctl enable --now mirage.service"),
        ({"UnitFileState": "disabled"}, WARNING, "`systemctl enable mirage.service`"),
        ({"NRestarts": "7"}, WARNING, "restarted the service 7 times"),
        ({"NeedDaemonReload": "yes"}, WARNING, "systemctl daemon-reload"),
    ],
)
def test_how_the_unit_stands(differing: dict[str, str], verdict: Severity, told: str) -> None:
    found = host_checks.judge_unit(RUNNING | differing)
    assert found[0] is verdict
    assert told in found[1]


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ("rw,nosuid,nodev,noexec,relatime", WARNING),
        ("rw,relatime,hidepid=2", GOOD),
        ("rw,relatime,gid=992,hidepid=invisible", GOOD),
        ("rw,relatime,hidepid=ptraceable", WARNING),
    ],
)
def test_whether_users_see_each_others_command_lines(options: str, verdict: Severity) -> None:
    mounts = f"sysfs /sys sysfs rw 0 0\nproc /proc proc {options} 0 0\ntmpfs /run tmpfs rw 0 0\n"
    assert host_checks.check_proc_visibility(mounts)[0] is verdict


def test_a_share_where_listings_may_be_old_is_told() -> None:
    local = "/dev/sda1 / ext4 rw,relatime 0 0\nnocto /nocto tmpfs rw,nocto 0 0\n"
    home = "srv:/home /home nfs4 rw,relatime,vers=4.2,acdirmax=60,proto=tcp 0 0\n"
    work = "srv:/work /my\\040work nfs rw,vers=3,nocto,proto=tcp 0 0\n"
    said = "NFS mounts on this host, none with nocto"
    assert host_checks.check_nfs_mounts(local) == (GOOD, f"0 {said}")
    assert host_checks.check_nfs_mounts(local + home) == (GOOD, f"1 {said}")
    verdict, told = host_checks.check_nfs_mounts(local + home + work)
    assert verdict is WARNING
    assert told.startswith("/my\\040work: mounted with nocto")


def test_a_wrapped_sbatch_is_this_mirages_or_is_said_to_be_another(tmp_path: Path) -> None:
    theirs = tmp_path / "bin"
    shutil.copytree(get_data_dir("slurm_plugin"), theirs)
    assert host_checks.check_sbatch_wrapper(str(theirs))[0] is GOOD
    (theirs / "mirage_slurm/wrapper/chain.py").write_text("# of an older one\n")
    verdict, told = host_checks.check_sbatch_wrapper(str(theirs))
    assert verdict is WARNING
    assert "mirage_slurm/wrapper/chain.py differ" in told
    assert str(get_data_dir("slurm_plugin")) in told


def test_a_plain_sbatch_is_no_fault_and_none_is_told(tmp_path: Path) -> None:
    plain = tmp_path / "bin"
    plain.mkdir()
    assert host_checks.check_sbatch_wrapper(str(plain))[0] is WARNING
    (plain / "sbatch").write_text("#!/bin/sh\n")
    (plain / "sbatch").chmod(0o755)
    verdict, told = host_checks.check_sbatch_wrapper(str(plain))
    assert verdict is GOOD
    assert "is Slurm's own" in told


def test_where_slurm_has_no_munge_its_own_socket_is_tried(sackd: FakeSackd) -> None:
    """The row of MUNGE is the row of SACK there, and says what is missing."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    good = f"Slurm's own socket works, and identifies {me}"
    assert host_checks.check_credentials("lab") == Finding("SACK", GOOD, good)
    found = host_checks.check_credentials("gpu2")
    assert (found.verdict, "was made on another cluster" in found.told) == (WARNING, True)
    sackd.path.unlink()
    found = host_checks.check_credentials("lab")
    assert (found.what, found.verdict) == ("SACK", WARNING)
    assert f"no daemon of Slurm listens on {sackd.path}: start sackd" in found.told
    (sackd.folder / "slurm.conf").write_text("AuthType=auth/munge\n")
    assert host_checks.check_credentials("lab").what == "MUNGE"


def test_the_disk_is_looked_at_where_the_database_grows(tmp_path: Path) -> None:
    free_mib = shutil.disk_usage(tmp_path).free // (1 << 20)
    verdict, told = host_checks.check_disk(tmp_path)
    assert verdict is (GOOD if free_mib > 3000 else verdict)
    assert str(tmp_path) in told
    assert host_checks.check_disk(tmp_path / "gone")[0] is FAULT


def findings(config: Path, path: str = os.environ["PATH"]) -> dict[str, tuple[str, str]]:
    answer = run("doctor", "--no-moves", "--json", "--config", str(config), PATH=path)
    found = json.loads(answer.out)["findings"]
    return {f["what"]: (f["verdict"], f["told"]) for f in found}


def test_a_service_that_runs_is_asked_and_one_that_does_not_is_told(tmp_path: Path) -> None:
    slurm, config = QuietSlurm(tmp_path / "bin"), configured(tmp_path)
    socket = tmp_path / "api.sock"
    config.write_text(f'{config.read_text()}socket = "{socket}"\n')
    assert run("db", "upgrade", "--config", str(config)).code == 0
    with serving(config, slurm) as service:
        service.wait_until_ready()
        port = service.url().rpartition(":")[2]
        config.write_text(config.read_text().replace("port = 0", f"port = {port}"))
        found = findings(config, slurm.path)
        assert found["service"] == (
            "good",
            f"the service answers at {service.url()}, and has read the queue lately",
        )
        assert found["socket"] == ("good", f"the service answers at {socket}")
        assert found["configuration"] == ("good", f"{config} is right")
        assert service.end() == 0
    found = findings(config, slurm.path)
    assert found["service"][0] == found["socket"][0] == "warning"
    assert "systemctl start mirage" in found["socket"][1]


def test_a_name_that_is_not_slurms_and_a_stop_are_told(tmp_path: Path) -> None:
    slurm, config = QuietSlurm(tmp_path / "bin"), configured(tmp_path)
    assert run("db", "upgrade", "--config", str(config)).code == 0
    found = findings(config, slurm.path)
    assert found["Slurm"] == ("good", "22.05.8, ClusterName lab: slurmctld answers")
    assert found["mode"] == ("good", "shadow: no service has served lab yet")
    run("mode", "act", "--partition", "gpu", "--config", str(config))
    assert findings(config, slurm.path)["mode"] == ("good", "shadow, gpu: act")
    run("mode", "shadow", "--config", str(config))
    verdict, told = findings(config, slurm.path)["mode"]
    assert verdict == "warning"
    assert "gpu: shadow; the kill switch is pulled by mirage mode at " in told
    config.write_text(config.read_text().replace('"lab"', '"gpu1"'))
    verdict, told = findings(config, slurm.path)["Slurm"]
    assert verdict == "warning"
    assert "ClusterName is lab, and cluster.name is gpu1" in told


def test_a_slurmctld_that_is_away_is_a_fault(tmp_path: Path) -> None:
    slurm, config = QuietSlurm(tmp_path / "bin"), configured(tmp_path)
    gone = "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)"
    slurm.answers("scontrol", stderr=gone, code=1)
    verdict, told = findings(config, slurm.path)["Slurm"]
    assert verdict == "fault"
    assert gone in told


def test_a_state_directory_of_another_account_is_told(tmp_path: Path) -> None:
    assert host_checks.check_account(tmp_path) == []
    assert host_checks.check_account(tmp_path / "none") == []
    if os.geteuid() == 0:
        os.chown(tmp_path, pwd.getpwnam("nobody").pw_uid, -1)
        (found,) = host_checks.check_account(tmp_path)
        assert found.verdict is WARNING
        assert f"{tmp_path} is nobody's" in found.told


@pytest.mark.skipif(
    os.geteuid() != 0, reason="gives a directory to a group, and becomes its member"
)
@pytest.mark.parametrize(("mode", "told"), [(0o2775, ""), (0o755, "is root's")])
def test_a_volume_of_root_s_is_the_account_s_if_the_account_may_write(mode: int, told: str) -> None:
    with TemporaryDirectory() as folder:
        os.chown(folder, 0, 6480)
        Path(folder).chmod(mode)
        program = (
            "import pathlib, sys; from mirage.cli.doctor import host_checks; "
            "print([f.told for f in host_checks.check_account(pathlib.Path(sys.argv[1]))])"
        )
        words = ["setpriv", "--reuid=6480", "--regid=6480", "--clear-groups", sys.executable]
        done = subprocess.run(
            [*words, "-c", program, folder],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=True,
        )
    assert (told in done.stdout) if told else done.stdout == "[]\n"


def test_what_looks_each_night_for_something_to_learn_is_said() -> None:
    """Here the extra `trees` is installed."""
    assert learn_schedule_checks.list_missing(learn_schedule_checks.TREE_MODULES) == []

    def check(schedule: str, *, user: bool) -> tuple[Severity, str]:
        settings = Settings.model_validate({"learn": {"schedule": schedule}})
        return learn_schedule_checks.check_schedule(settings, user=user)

    verdict, told = check("service", user=True)
    assert (verdict, "the service looks each night" in told) == (GOOD, True)
    verdict, told = check("timer", user=True)
    assert (verdict, 'set learn.schedule = "service"' in told) == (WARNING, True)


def test_a_model_whose_file_was_changed_is_a_fault(tmp_path: Path) -> None:
    config = configured(tmp_path)
    folder = save(tmp_path / "models" / "made" / "1")
    config.write_text(f'{config.read_text()}[provision]\nmodels_dir = "{tmp_path}/models"\n')
    assert findings(config)["models"] == (
        "good",
        f"1 in {tmp_path}/models, each matches its card",
    )
    graph = folder / "policy.onnx"
    graph.write_bytes(graph.read_bytes() + b"\0")
    verdict, told = findings(config)["models"]
    assert verdict == "fault"
    assert "models/made/1" in told


def test_a_password_that_everybody_may_read_is_told(tmp_path: Path) -> None:
    config = configured(tmp_path)
    config.write_text(f'{config.read_text()}[database]\nurl = "postgresql://m:hunter2@h/m"\n')
    config.chmod(0o644)
    verdict, told = findings(config)["configuration"]
    assert verdict == "warning"
    assert "MIRAGE_DATABASE_URL" in told
    assert "hunter2" not in told
    config.chmod(0o600)
    assert findings(config)["configuration"][0] == "good"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:///mirage?host=/run/postgresql",
        "postgresql://mirage@/mirage?host=/run/postgresql&application_name=a%20b",
        "postgresql://[::1]:5432/mirage",
        "postgresql+psycopg://mirage@h/mirage?sslmode=verify-full&sslrootcert=/etc/ssl/ca.pem",
    ],
)
def test_a_url_without_a_password_is_no_secret(tmp_path: Path, url: str) -> None:
    config = configured(tmp_path)
    config.write_text(f'{config.read_text()}[database]\nurl = "{url}"\n')
    config.chmod(0o644)
    verdict, told = findings(config)["configuration"]
    assert (verdict, told) == ("good", f"{config} is right")


@pytest.mark.parametrize(
    ("line", "verdict", "told"),
    [
        ('SLURM_VERSION = "22.05.8"', GOOD, "lab, 8 nodes, planned as Slurm 22.05"),
        ('SLURM_VERSION = "24.11.5"', WARNING, "lab, 8 nodes, planned as Slurm 24.11; "),
        ("", WARNING, "lab, 8 nodes, planned as Slurm 22.05, for SLURM_VERSION is missing"),
    ],
)
def test_a_cluster_file_for_another_slurm_is_warned_of(
    tmp_path: Path, line: str, verdict: Severity, told: str
) -> None:
    slurm, config = QuietSlurm(tmp_path / "bin"), configured(tmp_path)
    file = tmp_path / "lab.toml"
    file.write_text(f'[cluster]\nname = "lab"\nnodes = 8\n[scheduler]\n{line}\n')
    name = 'name = "lab"\n'
    config.write_text(config.read_text().replace(name, f'{name}file = "{file}"\n'))
    found = findings(config, slurm.path)["cluster file"]
    assert found[0] == verdict
    assert found[1].startswith(told)
    assert ("slurmctld says" in found[1]) is ("24.11" in line)
