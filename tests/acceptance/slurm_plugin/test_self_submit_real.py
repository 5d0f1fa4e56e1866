"""Scripts that resubmit themselves, on the real Slurm: as many jobs as the chain has links."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from tests.support.slurm_plugin.hooked import Hooked, set_up_hooks
from tests.support.slurm_testbed import Testbed

pytestmark = pytest.mark.slurm

LINKS = 2
HEAD = "#!/bin/bash\n#SBATCH --time=5 --output=out.%j\n"
AT_START = '"$SBATCH" "$0"\n'
COUNTING = 'left=${1:-5}\n"$SBATCH" -d afterany:$SLURM_JOB_ID "$0" $((left - 1))\n'
AT_END = "trap '\"$SBATCH\" again.sh' EXIT\ntrue\n"
FROM_USR1 = """trap '"$SBATCH" --parsable "$SLURM_SUBMIT_DIR/again.sh"; exit' USR1
touch "$MIRAGE_DIR/ready.$MIRAGE_LINK"
while :; do sleep 1 & wait $!; done
"""
BODIES = [AT_START, COUNTING, AT_END, FROM_USR1]
BY_COMMENT = "#SBATCH --comment=mirage:chain=2\n"
ASKED = {
    "option": (["--mirage-chain=2"], {}, ""),
    "environment": ([], {"MIRAGE_CHAIN": "2"}, ""),
    "line": ([], {}, "#MIRAGE --chain=2\n"),
    "comment": ([], {}, BY_COMMENT),
    "directive": ([], {}, "#SBATCH --mirage-chain=2\n"),
}
"""A way to ask: sbatch's words, its environment, a line of the script."""


def wrapper(scene: Hooked) -> str:
    scene.all_off()
    return str(scene.plugin / "sbatch")


def spank(scene: Hooked) -> str:
    scene.all_off()
    scene.spank_on()
    return "/usr/bin/sbatch"


def cli(scene: Hooked) -> str:
    scene.all_off()
    scene.load_cli(scene.hooks)
    return "/usr/bin/sbatch"


Way = Callable[[Hooked], str]
WAYS: list[tuple[Way, str]] = [
    *((wrapper, asked) for asked in ("option", "environment", "line", "comment")),
    *((spank, asked) for asked in ("option", "environment", "directive")),
    *((cli, asked) for asked in ("option", "environment", "line", "comment")),
]


@pytest.fixture(scope="module")
def module_scene(slurm_host: Testbed) -> Iterator[Hooked]:
    with set_up_hooks(slurm_host) as scene:
        yield scene


@pytest.fixture
def scene(module_scene: Hooked) -> Iterator[Hooked]:
    yield module_scene
    module_scene.all_off()
    module_scene.testbed.cancel_all()
    module_scene.forget_chains()


def jobs(scene: Hooked, states: str = "all") -> list[int]:
    shown = scene.testbed.run(["squeue", "-h", "-t", states, "-u", "alice", "-o", "%A"]).stdout
    return [int(word) for word in shown.split()]


def warn_each_link(scene: Hooked) -> None:
    """scancel --signal=USR1 --batch of each link once its script waits for it."""
    for link in range(1, LINKS + 1):
        (chain,) = scene.chains()
        ready = chain / f"ready.{link}"
        scene.testbed.wait_until(ready.exists, 120, f"link {link}")
        job = (chain / "started" / str(link)).read_text().strip()
        scene.testbed.run(["scancel", "--batch", "--signal=USR1", job], user="alice")


@pytest.mark.parametrize(("way", "asked"), WAYS, ids=lambda one: getattr(one, "__name__", one))
def test_as_many_jobs_as_the_chain_has_links(scene: Hooked, way: Way, asked: str) -> None:
    program = way(scene)
    words, env, line = ASKED[asked]
    for body in BODIES:
        before = set(jobs(scene))
        scene.write("again.sh", HEAD + line + f"SBATCH={program}\n" + body)
        done = scene.sbatch(*words, "again.sh", env=env, program=program)
        assert done.returncode == 0, done
        if body is FROM_USR1:
            warn_each_link(scene)
        scene.testbed.wait_until(lambda: not jobs(scene, "PD,R,CG"), 120, "the end")
        new = sorted(set(jobs(scene)) - before)
        outs = [(scene.home / f"out.{job}").read_text() for job in new]
        assert len(new) == LINKS, (body, outs)
        (chain,) = scene.chains()
        assert [(chain / "started" / str(n)).read_text().strip() for n in (1, 2)] == [
            str(job) for job in new
        ]
        assert re.search(rf"^(Submitted batch job )?{new[1]}$", outs[0], re.MULTILINE), outs
        assert f"is job {new[1]} already: nothing was submitted" in outs[0], outs
        assert "the last of the chain's 2 links" in outs[1], outs
        scene.forget_chains()


@pytest.mark.parametrize("way", [wrapper, spank, cli])
def test_another_script_that_asks_is_one_plain_job(scene: Hooked, way: Way) -> None:
    program = way(scene)
    line = ASKED["directive" if way is spank else "line"][2]
    scene.write("other.sh", HEAD + line + "echo other\n")
    scene.write("plain.sh", HEAD + "echo plain\n")
    body = f"{program} other.sh\n{program} --parsable plain.sh\n"
    body += f"env -u MIRAGE_LINK {program} --hold other.sh\n"
    scene.write("first.sh", HEAD + body)
    before = set(jobs(scene))
    done = scene.sbatch("--mirage-chain=1", "first.sh", program=program)
    assert done.returncode == 0, done
    first = int(done.stdout.split()[3])
    scene.testbed.wait_until(lambda: scene.testbed.state(first) == "COMPLETED", 60, "the link")
    out = (scene.home / f"out.{first}").read_text()
    plain = "no chain begins inside a link: submitted as one plain job; `env -u MIRAGE_LINK sbatch"
    assert out.count(plain) == 1, out
    new = sorted(set(jobs(scene)) - before - {first})
    kinds = ["# mirage carrier " in scene.stored_script(job) for job in new]
    assert kinds == [False, False, True], out
    assert len(scene.chains()) == 2
