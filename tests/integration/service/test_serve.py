"""`mirage serve` as a process: it becomes ready, ends in order, and survives a kill."""

import signal
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from mirage.config.settings import ServiceSettings
from mirage.service import service_run
from tests.support import patient
from tests.support.api.streams import listening
from tests.support.mirage_process import SITE, QuietSlurm, configured, run, serving, wait_for_call

SLOW_S = 1.5


def rows(config: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(config.parent / "state" / "mirage.db")) as database:
        return list(database.execute(sql))


def test_it_becomes_ready_and_tells_what_it_saw(slurm: QuietSlurm, ready_config: Path) -> None:
    with serving(ready_config, slurm) as service:
        service.wait_until_ready()
        assert patient.get(f"{service.url()}/healthz").status_code == 200
        mode = patient.get(f"{service.url()}/api/v1/mode").json()
        assert mode["mode"] == mode["says"] == "shadow"
        assert not any(mode[key] for key in ("partitions", "demoted", "kill_switch"))
        page = patient.get(service.url(), headers={"Accept": "text/html"})
        assert "mode shadow" in page.text
        assert len(slurm.calls("squeue")) == 1
        assert service.end() == 0
    assert [line["event"] for line in service.log()][-1] == "ended"
    assert rows(ready_config, "SELECT count(*) FROM snapshots") == [(1,)]


def test_it_answers_to_the_names_of_its_machine_and_its_site(
    slurm: QuietSlurm, ready_config: Path
) -> None:
    origins = 'origins = ["https://hpc.example.org"]'
    ready_config.write_text(ready_config.read_text().replace("[service]", f"[service]\n{origins}"))
    with serving(ready_config, slurm) as service:
        service.wait_until_ready()
        for name, status in (
            (socket.gethostname(), 200),
            ("hpc.example.org", 200),
            ("localhost", 200),
            ("evil.example", 421),
        ):
            asked = patient.get(f"{service.url()}/healthz", headers={"Host": name})
            assert asked.status_code == status, name
        assert service.end() == 0


def test_a_site_where_mirage_wins_nothing_is_told_so(slurm: QuietSlurm, ready_config: Path) -> None:
    settings = SITE
    line = next(line for line in settings.splitlines() if line.startswith("PriorityFlags"))
    slurm.answers("scontrol", settings.replace(line, "PriorityFlags = ACCRUE_ALWAYS"))
    with serving(ready_config, slurm) as service:
        service.wait_until_ready()
        assert service.end() == 0
    (said,) = (line for line in service.log() if line["level"] == "warning")
    assert said["event"] == "a plain dependency may do as well as Mirage here"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_a_signal_in_the_middle_of_a_tick_lets_it_finish(
    slurm: QuietSlurm, ready_config: Path, number: int
) -> None:
    slurm.answers("squeue", seconds=SLOW_S)
    with serving(ready_config, slurm) as service:
        wait_for_call(slurm, "squeue")
        assert rows(ready_config, "SELECT count(*) FROM leases") == [(1,)]
        assert service.end(number) == 0
    assert rows(ready_config, "SELECT count(*) FROM snapshots") == [(1,)], "what was asked is kept"
    assert rows(ready_config, "SELECT count(*) FROM leases") == [(0,)]
    assert len(slurm.calls("sinfo")) == 1
    assert len(slurm.calls("squeue")) == 1


def test_it_ends_though_somebody_listens(slurm: QuietSlurm, ready_config: Path) -> None:
    """In order: not cut off, as requests still under way after ten seconds are."""
    with serving(ready_config, slurm) as service:
        service.wait_until_ready()
        with listening(service.url()) as stream:
            assert stream.next().name == "health"
            assert service.end() == 0
            assert list(stream) == [], "what is cut off is an error of the protocol"
    assert [line["event"] for line in service.log()][-1] == "ended"


def test_slurm_away_is_said_and_no_reason_to_end(slurm: QuietSlurm, ready_config: Path) -> None:
    slurm.answers("squeue", stderr="slurm_load_jobs error: Unable to contact controller", code=1)
    with serving(ready_config, slurm) as service:
        wait_for_call(slurm, "squeue")
        while not (said := [e for e in service.log() if e["event"] != "serving"]):
            assert service.process.poll() is None
        assert said[0]["event"] == "Slurm does not answer"
        assert "Unable to contact" in said[0]["error"]
        answer = patient.get(f"{service.url()}/readyz")
        assert answer.status_code == 503
        assert "has not read the cluster's state" in answer.json()["detail"]
        assert service.end() == 0


def test_no_request_asks_slurm_or_waits_for_it(slurm: QuietSlurm, ready_config: Path) -> None:
    """Until Slurm has said what is private, all is; each page answers all the same, long before
    Slurm does: whoever asks here gives up before that."""
    patient_one = "[cluster]\ncommand_timeout_s = 600"
    ready_config.write_text(ready_config.read_text().replace("[cluster]", patient_one))
    slurm.answers("scontrol", SITE, seconds=600)
    with serving(ready_config, slurm) as service:
        url = service.wait_until_serving()
        before = slurm.calls("scontrol")
        for path in ("/queue", "/accuracy", "/api/v1/cluster", "/api/v1/mode"):
            assert patient.get(url + path).status_code == 200
        assert patient.get(f"{url}/api/v1/jobs").status_code == 401
        assert slurm.calls("scontrol") == before


def test_kill_in_the_middle_of_a_tick_leaves_the_database_usable(
    slurm: QuietSlurm, ready_config: Path
) -> None:
    slurm.answers("squeue", seconds=SLOW_S)
    with serving(ready_config, slurm) as service:
        wait_for_call(slurm, "squeue")
        assert service.end(signal.SIGKILL) == -signal.SIGKILL
    assert rows(ready_config, "PRAGMA integrity_check") == [("ok",)]
    assert run("mode", "act", "--json", "--config", str(ready_config)).out == '{"*": "act"}\n'
    assert run("db", "upgrade", "--config", str(ready_config)).code == 0
    # The dead one's lease runs out by itself; its successor serves, and waits for that.
    with serving(ready_config, slurm) as service:
        modes = patient.get(f"{service.wait_until_serving()}/api/v1/mode").json()
        assert modes["mode"] == modes["says"] == "act"
        assert not any(modes[key] for key in ("partitions", "demoted", "kill_switch"))
        assert service.end() == 0
    assert len(slurm.calls("squeue")) == 1


def test_a_port_that_is_taken_is_one_sentence(slurm: QuietSlurm, ready_config: Path) -> None:
    with serving(ready_config, slurm) as first:
        first.wait_until_ready()
        port = httpx.URL(first.url()).port
        assert port is not None
        configured(ready_config.parent, port=port)
        second = run("serve", "--config", str(ready_config), PATH=slurm.path)
        assert (second.code, second.out) == (2, "")
        assert second.err == (
            f"mirage: cannot listen on 127.0.0.1, port {port}: Address already in use. "
            "Set service.host and service.port, or stop what listens there\n"
        )
        assert len(slurm.calls("squeue")) == 1, "the second has asked nothing"
        assert first.end() == 0


@pytest.fixture
def hung_up() -> Iterator[None]:
    """As a terminal finds a program. Under nohup(1) all that a test starts ignores the signal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hung_up")
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=["TERM", "INT", "HUP"]
)
def test_a_service_of_ones_own_leaves_no_address_behind(
    slurm: QuietSlurm, ready_config: Path, tmp_path: Path, number: int
) -> None:
    state = tmp_path / "home" / "mirage" / "service"
    with serving(ready_config, slurm, "--user", XDG_STATE_HOME=str(tmp_path / "home")) as service:
        service.wait_until_serving()
        assert (state / "url").read_text() == f"unix://{state}/socket\n"
        assert service.end(number) == 0
    assert not (state / "url").exists()
    assert not (state / "socket").exists()


def test_nor_one_that_could_not_go_on(tmp_path: Path) -> None:
    settings = ServiceSettings(state_dir=tmp_path, socket=tmp_path / "socket")

    def fail() -> None:
        with service_run.publish_address(settings, own=True):
            assert (tmp_path / "url").exists()
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
    assert list(tmp_path.iterdir()) == []
