"""What runs beside a link's script and ends with it: the heartbeat, the helper of mode `submit`."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.paths import PLUGIN
from tests.support.patient import PATIENCE_S, wait_until
from tests.support.slurm_plugin.answering import Service
from tests.support.slurm_plugin.editable_chain import EditableLink, MakeChain

WAITS = (
    "#!/bin/sh\ntrap '' TERM USR1\n: >$HOME/traps\n"
    "until [ -e $HOME/end ]; do sleep 0.05; done\necho ran\n"
)


def finish(link: EditableLink, process: subprocess.Popen[bytes]) -> None:
    (link.slurm.root / "home" / "end").touch()
    assert process.communicate(timeout=PATIENCE_S)[0] == b"ran\n"


def list_processes(link: EditableLink) -> list[Path]:
    """List the processes, as folders of /proc, whose command line names the chain: its carrier's,
    and those of the loops beside the script."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            found += [path.parent] * (link.chain.name.encode() in path.read_bytes())
    return found


def test_a_link_shows_that_it_lives_and_ceases_with_it(chain: MakeChain) -> None:
    link = chain(WAITS, beat_s=1, max_overlap=0)  # no plan beside the heartbeat
    began = int(time.time())
    process = link.start(1)
    wait_until(lambda: link.says("beat/1") is not None)
    first = int(link.says("beat/1") or "")
    assert began <= first <= time.time()
    wait_until(lambda: int(link.says("beat/1") or "") > first)
    assert len(list_processes(link)) > 1, "the carrier, and what beats"
    finish(link, process)
    assert not list_processes(link), "nothing is left that beats"


@pytest.mark.parametrize("name", ["TERM", "USR1"])
def test_a_warning_to_the_whole_job_does_not_end_the_heartbeat(chain: MakeChain, name: str) -> None:
    link = chain(WAITS, beat_s=1)
    link.slurm.job_is(101, "RUNNING")
    process = link.start(1)
    wait_until(lambda: link.says("beat/1") is not None)
    wait_until((link.slurm.root / "home" / "traps").exists)
    link.signal(process, name)
    warned = int(time.time())
    wait_until(lambda: int(link.says("beat/1") or "") > warned)
    finish(link, process)


def test_the_service_says_when_the_next_link_is_submitted(
    chain: MakeChain, service: Service
) -> None:
    service.answers = [
        {"submit_now": False, "ask_again_s": 1},
        {"submit_now": True, "ask_again_s": 60},
    ]
    link = chain(WAITS, mode="submit", min_runtime=0)
    process = link.start(1, env={"MIRAGE_URL": f"http://127.0.0.1:{service.server_port}"})
    wait_until(lambda: link.says("jobs/2") is not None)
    finish(link, process)
    path = f"/api/v1/chains/{link.chain.name}/next"
    assert service.requests == [(path, "MUNGE MUNGE:credential:")] * 2
    assert (link.slurm.root / "payload").read_text().startswith(f"GET {path} ")
    argv = link.slurm.calls()[-1].argv
    assert f"--comment=mirage:{link.chain.name}:2" in argv
    assert not [word for word in argv if word.startswith("--dependency")]
    assert len(link.slurm.calls()) == 2


@pytest.mark.parametrize("trouble", ["down", "503", "nonsense", "no python files", "late"])
def test_without_its_word_the_standby_stands_after_all(
    chain: MakeChain, service: Service, trouble: str
) -> None:
    service.answers = ["busy"] if trouble == "503" else [{"submit_now": False, "ask_again_s": 3600}]
    if trouble == "nonsense":
        service.answers = [{"submit_now": "yes"}]
    link = chain(WAITS, mode="submit", pace_s=1)
    env = {"MIRAGE_URL": f"http://127.0.0.1:{service.server_port}"}
    if trouble == "down":
        env["MIRAGE_URL"] = "http://127.0.0.1:1"
    if trouble == "no python files":
        link.set(plugin="/nowhere")
    if trouble == "late":
        env["SLURM_JOB_END_TIME"] = str(int(time.time()) + 602)
    process = link.start(1, env=env)
    wait_until(lambda: link.says("jobs/2") is not None)
    finish(link, process)
    assert "--dependency=afterany:101" in link.slurm.calls()[-1].argv
    assert len(service.requests) == {"503": 2, "nonsense": 2, "late": 1}.get(trouble, 0)


def test_a_link_that_ends_before_the_service_spoke_submits_at_last(
    chain: MakeChain, service: Service
) -> None:
    service.answers = [{"submit_now": False, "ask_again_s": 3600}]
    link = chain(WAITS, mode="submit", min_runtime=0)
    process = link.start(1, env={"MIRAGE_URL": f"http://127.0.0.1:{service.server_port}"})
    wait_until(lambda: service.requests != [])
    finish(link, process)
    assert link.says("jobs/2") == "102"
    assert len(link.slurm.calls()) == 2


def test_a_standby_that_was_refused_is_tried_again_and_at_the_end(chain: MakeChain) -> None:
    link = chain(WAITS, pace_s=1)
    link.slurm.answers(stderr="sbatch: error: QOSMaxSubmitJobPerUserLimit\n", code=1)
    process = link.start(1)
    wait_until(lambda: len(list((link.slurm.root / "calls").iterdir())) == 3)
    assert link.says("jobs/2") is None
    link.slurm.answers()
    finish(link, process)
    assert link.says("jobs/2") is not None


def test_slurm_may_be_away_as_the_link_ends(chain: MakeChain) -> None:
    """What stands is asked as the link begins, as it ends, and twice more."""
    link = chain(pace_s=1)
    squeue = link.slurm.root / "bin" / "squeue"
    asked = link.slurm.root / "asked"
    away = f'[ "$2" != --all ] || {{ echo >>{asked}; [ "$(wc -l <{asked})" -gt 2 ] || exit 1; }}\n'
    squeue.write_text(squeue.read_text().replace("\n", f"\n{away}", 1))
    done = link.run(1)
    assert link.says("jobs/2") == "102"
    assert done.stderr.decode().splitlines()[1:] == [
        "mirage: link 2 is not in the queue yet: squeue does not answer; "
        f"if the link does not come: mirage-link resume {link.chain.name}"
    ]


def test_a_loop_that_begins_as_the_link_ends_ends_too(tmp_path: Path) -> None:
    """Its signal may come before it can be trapped; then a file says it."""
    program = """
        . "$0"
        mirage_dir=$1 mirage_job=7 mirage_since=1 mirage_loops=
        kill() { :; }  # the signal that came too soon
        late() { sleep 0.5; mirage_start_loop sleep 1000; wait $mirage_loops; }
        late &
        mirage_loops=$!
        mirage_end_loops
    """
    done = subprocess.run(
        ["/bin/sh", "-c", program, PLUGIN / "mirage_slurm/carrier/loops.sh", tmp_path],
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    "signals",
    [["--default-signal"], ["--default-signal", "--ignore-signal=HUP,INT,QUIT"]],
    ids=["as-slurm-starts-it", "under-nohup"],
)
def test_a_warning_ends_no_loop_and_an_ignored_hangup_keeps_none(
    tmp_path: Path, signals: list[str]
) -> None:
    """Under nohup no shell can trap HUP; and a HUP for the whole job is the script's matter."""
    program = """
        . "$0"
        mirage_dir=$1 mirage_job=7 mirage_since=1 mirage_loops=
        loop() { : >"$1/began"; mirage_sleep 1; : >"$1/went"; mirage_sleep 1000; }
        mirage_start_loop loop "$1"
        until [ -e "$1/began" ]; do sleep 0.1; done
        for signal in HUP INT QUIT USR1 USR2 ALRM TERM; do kill -s $signal $mirage_loops; done
        until [ -e "$1/went" ]; do sleep 0.1; done
        loop=${mirage_loops# }
        mirage_end_loops
        ! kill -0 "$loop"
    """
    done = subprocess.run(
        [
            "/usr/bin/env",
            *signals,
            "/bin/sh",
            "-c",
            program,
            PLUGIN / "mirage_slurm/carrier/loops.sh",
            tmp_path,
        ],
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0
