"""Nobody is told a secret, nor believed, who is not root, the service's account or the caller."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needed
from tests.support.paths import PLUGIN
from tests.support.patient import wait_until
from tests.support.slurm_plugin.editable_chain import EditableLink, MakeChain
from tests.support.slurm_plugin.fakes import FakeSlurm
from tests.support.slurm_plugin.forger import BOB, NOW, Forger, as_root, folder_of, forging

pytestmark = as_root

ANY = "0.0.0.0"  # noqa: S104 - what is bound there is the tests' own
WAITS = "#!/bin/sh\ntrap '' TERM\nuntil [ -e $HOME/end ]; do sleep 0.05; done\n"
ALICE = 6501
FINISHED = NOW.replace(
    '"items": []',
    '"state": "finished", "stale": false, "note": "", "at_risk": null, "expected_start": null,'
    ' "links": [{"index": 1, "job_id": 101, "state": "ended", "end_state": "COMPLETED",'
    ' "waits_for": null, "position": "held", "reason": ""}]',
)
"""An answer that a chain is over."""
ADVICE = "set url = https://HOST in /etc/mirage/client.conf"


@pytest.fixture(params=["port", "socket", "socket in /tmp", "socket in a folder of all"])
def forger(request: pytest.FixtureRequest) -> Iterator[Forger]:
    """bob, on a port of this host, or on a socket in one of the places where he can make one."""
    if request.param == "port":
        with forging() as made:
            yield made
        return
    modes = {"socket": (BOB, 0o755), "socket in /tmp": (0, 0o1777)}
    owner, mode = modes.get(request.param, (0, 0o777))
    with folder_of(owner, mode) as folder, forging(path=folder / "socket") as made:
        yield made


def credentials(slurm: FakeSlurm) -> bool:
    """Whether munge was asked for one."""
    return (slurm.root / "payload").exists()


def test_the_wrapper_tells_a_forger_nothing(slurm: FakeSlurm, forger: Forger) -> None:
    slurm.script("#!/bin/sh\ntrue\n")
    done = slurm.sbatch("--mirage-chain=2", "job.sh", patient=True, env={"MIRAGE_URL": forger.url})
    assert (done.returncode, done.stdout) == (0, b"Submitted batch job 101\n")
    assert forger.read_requests() == ""
    assert not credentials(slurm)
    said = done.stderr.decode()
    assert said.count("\n") == 1
    assert "is not registered" in said
    assert f"uid {BOB}, who is neither root nor mirage nor you: {ADVICE}" in said


def end_script(link: EditableLink, process: subprocess.Popen[bytes]) -> None:
    (link.slurm.root / "home" / "end").touch()
    process.communicate(timeout=60)


def test_a_link_submits_nothing_on_a_forgers_word(
    chain: MakeChain, slurm: FakeSlurm, forger: Forger
) -> None:
    link = chain(WAITS, mode="submit", min_runtime=0, pace_s=1)
    process = link.start(1, env={"MIRAGE_URL": forger.url})
    wait_until(lambda: link.says("jobs/2") is not None)
    end_script(link, process)
    assert "--dependency=afterany:101" in slurm.calls()[-1].argv
    assert len(slurm.calls()) == 2
    assert forger.read_requests() == ""
    assert not credentials(slurm)
    assert "is submitted as a standby: the service gave no answer" in link.logged()
    assert f"uid {BOB}, who is neither root" in link.logged()


def test_the_controllers_hook_tells_a_forger_nothing(slurm: FakeSlurm, forger: Forger) -> None:
    hook = str(PLUGIN / "hooks" / "mirage_push.py")
    done = subprocess.run(
        ["/usr/bin/python3", "-IS", hook, "4711"],
        env=slurm.environ | {"MIRAGE_URL": forger.url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, forger.read_requests(), credentials(slurm)) == (1, "", False)
    assert f"uid {BOB}" in done.stderr


@pytest.mark.parametrize("way", ["port", "socket"])
def test_the_services_account_is_believed_where_the_site_names_it(
    slurm: FakeSlurm, way: str
) -> None:
    """On a port with a credential; on a socket the kernel names the caller, so there is none."""
    slurm.script("#!/bin/sh\ntrue\n")
    configuration = slurm.root / "client.conf"
    with folder_of(BOB) as folder:
        path = folder / "socket" if way == "socket" else None
        with forging(path=path) as service:
            configuration.write_text(f"# here\nurl = {service.url}\naccount = {BOB}\n")
            env = {"MIRAGE_URL": "", "MIRAGE_CLIENT_CONF": str(configuration)}
            done = slurm.sbatch("--mirage-chain=2", "job.sh", patient=True, env=env)
            assert b": 2 links\n" in done.stderr
            assert ("MUNGE" in service.read_requests()) == credentials(slurm) == (way == "port")


CONNECT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from mirage_slurm.client import service
try:
    peer = service.connect(sys.argv[2], os.environ, 5)
    print("known" if peer.is_known else "not known")
except (OSError, service.Unreachable) as error:
    print(error)
"""


def connected(url: str, *, uid: int, before: tuple[str, ...] = ()) -> str:
    done = subprocess.run(
        [*before, "/usr/bin/python3", "-BIS", "-c", CONNECT, str(PLUGIN), url],
        env={"PATH": "/usr/bin:/usr/sbin:/bin:/sbin"},
        user=uid,
        group=uid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() + done.stderr


@pytest.mark.parametrize(("owner", "known"), [(0, True), (ALICE, True), (BOB, False)])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ANY, "[::ffff:127.0.0.1]"])
def test_a_port_is_its_owners(owner: int, known: bool, host: str) -> None:
    with forging(uid=owner) as listening:
        port = listening.url.rpartition(":")[2]
        said = connected(f"http://{host}:{port}", uid=ALICE)
    assert (said == "known") is known, said


@pytest.mark.parametrize(
    ("where", "asked"),
    [(ANY, "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("::", "127.0.0.1"), ("::", "[::1]")],
)
@pytest.mark.parametrize(("owner", "said"), [(0, "known"), (BOB, f"held by uid {BOB}")])
def test_a_listener_on_every_address_is_found(
    where: str, asked: str, owner: int, said: str
) -> None:
    if ":" in where and not has_ipv6():
        needed.absent("this host has no IPv6")
    with forging(uid=owner, host=where) as listening:
        port = listening.url.rpartition(":")[2]
        assert said in connected(f"http://{asked}:{port}", uid=ALICE)


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_where_nobody_can_be_seen_to_listen_nobody_is_believed() -> None:
    """As in a container, or with /proc closed."""
    hidden = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
    with forging(uid=0) as listening:
        said = connected(listening.url, uid=0, before=hidden)
    assert "cannot be seen (/proc/net/tcp: No such file or directory)" in said
    assert ADVICE in said


def test_a_user_is_told_to_change_nothing_that_only_root_may_change() -> None:
    """Whatever is wrong: somebody else listens, or there is no socket."""
    with forging() as listening:
        said = [connected(listening.url, uid=ALICE), connected("unix:///run/none.sock", uid=ALICE)]
    assert all("set MIRAGE_URL=https://HOST" in one for one in said)
    assert not any("/etc" in one or "start the service" in one for one in said)


def test_without_a_socket_on_this_host_the_sentence_says_what_to_set(slurm: FakeSlurm) -> None:
    """A compute node without a word in client.conf: no port of it is tried."""
    slurm.script("#!/bin/sh\ntrue\n")
    env = {"MIRAGE_URL": "", "MIRAGE_CLIENT_CONF": "/dev/null"}
    if os.path.exists("/run/mirage/api.sock"):
        pytest.skip("this host has a service")
    done = slurm.sbatch("--mirage-chain=2", "job.sh", patient=True, env=env)
    assert b"there is no /run/mirage/api.sock on this host: start the service, or" in done.stderr
    assert ADVICE.encode() in done.stderr


def own_address() -> str:
    """Of this host on a network: other hosts cannot be asked who listens on them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.99", 9))
        except OSError:
            needed.absent("this host is on no network")
        return str(probe.getsockname()[0])


def test_an_answer_over_a_network_without_https_has_nothing_submitted(
    chain: MakeChain, slurm: FakeSlurm
) -> None:
    """To register is another matter: its credential is good once, its answer for a line."""
    with forging(uid=0, host=own_address()) as elsewhere:
        link = chain(WAITS, mode="submit", min_runtime=0, pace_s=1)
        process = link.start(1, env={"MIRAGE_URL": elsewhere.url})
        wait_until(lambda: link.says("jobs/2") is not None)
        end_script(link, process)
        assert "--dependency=afterany:101" in slurm.calls()[-1].argv
        assert elsewhere.read_requests() == ""
        assert "without https anybody may have answered" in link.logged()


def test_a_program_does_not_take_an_answer_over_a_network_without_https_for_the_chains_end(
    slurm: FakeSlurm,
) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import mirage_slurm\n"
        "print(mirage_slurm.submit(['true'], chain=2).state)\n"
    )
    with forging(FINISHED, uid=0, host=own_address()) as elsewhere:
        answer = subprocess.run(
            [sys.executable, "-IS", "-c", program, PLUGIN],
            env=slurm.environ | {"MIRAGE_URL": elsewhere.url},
            cwd=slurm.root / "home",
            check=True,
            capture_output=True,
        ).stdout
        assert "GET /api/v1/chains/" in elsewhere.read_requests()
    assert answer == b"active\n"


def test_a_link_that_has_just_begun_submits_nothing_whoever_says_so(
    chain: MakeChain, slurm: FakeSlurm
) -> None:
    """By default not within ten minutes: what is submitted as it ends waits for its end."""
    with forging(uid=0) as service:
        link = chain(WAITS, mode="submit")
        process = link.start(1, env={"MIRAGE_URL": service.url})
        wait_until(lambda: "/next" in service.out.read_text())
        wait_until(lambda: "sleep" in list_naps(process.pid) or link.says("jobs/2") is not None)
        end_script(link, process)
    assert [w for w in slurm.calls()[-1].argv if w.startswith("--dependency")] == [
        "--dependency=afterany:101"
    ]


def list_naps(group: int) -> str:
    """Commands of the link's: the loop that asked naps until it may ask again, for minutes."""
    words = ["pgrep", "--pgroup", str(group), "--full", "--list-full", "sleep [1-9][0-9][0-9]"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


def test_a_redirect_is_followed_nowhere(slurm: FakeSlurm) -> None:
    slurm.script("#!/bin/sh\ntrue\n")
    with forging() as bob:
        away = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {bob.url}/\r\n\r\n"
        with forging(away, uid=0) as service:
            done = slurm.sbatch(
                "--mirage-chain=2", "job.sh", patient=True, env={"MIRAGE_URL": service.url}
            )
            assert "MUNGE" in service.read_requests()
        assert bob.read_requests() == ""
    assert b"is not registered (307)" in done.stderr


def test_the_credential_names_the_cluster_and_the_service(slurm: FakeSlurm, tmp_path: Path) -> None:
    """By the environment, the configuration, the job, or Slurm's own; by the service never."""
    slurm.script("#!/bin/sh\ntrue\n")
    configuration, slurms = tmp_path / "client.conf", tmp_path / "slurm.conf"
    slurms.write_text("# ClusterName=no\nclustername = Conf-1 # the first\nNodeName=n1\n")
    plain = {"MIRAGE_CLUSTER_NAME": "", "SLURM_CONF": str(slurms)}
    plain |= {"MIRAGE_CLIENT_CONF": str(configuration)}
    in_file = "cluster = filed\n"
    with forging(NOW, uid=0) as service:
        named = plain | {"MIRAGE_URL": service.url}
        for text, more, name in (
            (in_file, {"MIRAGE_CLUSTER_NAME": "Named", "SLURM_CLUSTER_NAME": "jobs"}, "named"),
            (in_file, {"SLURM_CLUSTER_NAME": "jobs"}, "filed"),
            ("", {"SLURM_CLUSTER_NAME": "jobs"}, "jobs"),
            ("", {}, "conf-1"),
        ):
            configuration.write_text(text)
            slurm.sbatch("--mirage-chain=2", "job.sh", patient=True, env=named | more)
            words = (slurm.root / "payload").read_text().split(" ")
            assert (words[:2], words[3:]) == (["POST", "/api/v1/chains"], [name, "mirage"])
        (slurm.root / "payload").unlink()
        slurms.write_text("")
        done = slurm.sbatch("--mirage-chain=2", "job.sh", patient=True, env=named)
    assert b"no cluster's name: set cluster = NAME in /etc/mirage/client.conf" in done.stderr
    assert not credentials(slurm)
