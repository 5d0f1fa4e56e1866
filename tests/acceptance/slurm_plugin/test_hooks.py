"""The Slurm-side hooks on the real Slurm: SPANK option, cli_filter and job_submit."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.paths import PLUGIN
from tests.support.slurm_plugin.hooked import (
    DIRECTIVE,
    JOB,
    MIRAGE_LINE,
    NO_SUCH,
    NOBODY,
    OF_CLI,
    OF_SPANK,
    SCRIPTS,
    TRUE,
    Form,
    Hooked,
    service,
    set_up_hooks,
)
from tests.support.slurm_testbed import Testbed

pytestmark = pytest.mark.slurm

MARK = re.compile(r"(?:^|.* )mirage:([0-9a-z]{20}):(\d+)$")


@pytest.fixture(scope="module")
def module_scene(slurm_host: Testbed) -> Iterator[Hooked]:
    with set_up_hooks(slurm_host) as scene:
        for name, text in SCRIPTS.items():
            scene.write(name, text)
        yield scene


@pytest.fixture
def scene(module_scene: Hooked) -> Iterator[Hooked]:
    yield module_scene
    module_scene.all_off()
    module_scene.install()
    module_scene.forget_chains()
    module_scene.testbed.cancel_all()


def spank(scene: Hooked) -> None:
    scene.spank_on()


def cli(scene: Hooked) -> None:
    scene.load_cli(scene.hooks)


def both(scene: Hooked) -> None:
    spank(scene)
    cli(scene)


Hook = Callable[[Hooked], None]
EACH = pytest.mark.parametrize("hook", [spank, cli])


def is_link(scene: Hooked, job: dict[str, str]) -> bool:
    """Whether Slurm has the carrier of the one chain that there is."""
    found = MARK.match(job["Comment"].strip()) if "Comment" in job else None
    chains = [path.name for path in scene.chains()]
    if not found:
        assert chains == []
        return False
    assert chains == [found[1]]
    return "# mirage carrier " in scene.stored_script(int(job["JobId"]))


@pytest.mark.parametrize(
    ("hook", "forms"),
    [(spank, OF_SPANK), (cli, OF_CLI), (both, OF_SPANK[-5:] + OF_CLI[-5:])],
)
def test_each_way_to_ask_makes_a_chain(scene: Hooked, hook: Hook, forms: list[Form]) -> None:
    hook(scene)
    for form in forms:
        done = scene.call(form, "--hold")
        assert is_link(scene, scene.job(done)), (form, done)
        behind = "stands behind the script" in done.stderr  # and that is said once
        assert done.stderr.count("\n") == 1 + behind, done.stderr
        assert "its links plan by themselves" in done.stderr
        scene.forget_chains()


@pytest.mark.parametrize("hook", [spank, cli, both])
def test_other_calls_are_as_without_hooks(scene: Hooked, hook: Hook) -> None:
    forms: list[Form] = [
        (["job.sh", "--mirage"], None, {}),
        ([], TRUE, {}),
        ([], "job.sh", {}),
        (["--comment", "mirage: 'of' the $(desert)", "job.sh"], None, {}),
        (["--array=1-2", "job.sh"], None, {}),
        (["--no-such-option", "job.sh"], None, {}),
        (["nowhere.sh"], None, {}),
        (["-N", "99", "job.sh"], None, {"SLURM_EXIT_ERROR": "7"}),
        (["line.sh"], None, {"MIRAGE_DISABLE": "1"}),
        (["--parsable", "job.sh"], None, {}),
    ]
    plain = [scene.call(form, "--hold") for form in forms]
    hook(scene)
    for form, real in zip(forms, plain, strict=True):
        mine = scene.call(form, "--hold")
        for theirs, ours in ((real.stdout, mine.stdout), (real.stderr, mine.stderr)):
            assert re.sub(r"\d+", "N", theirs) == re.sub(r"\d+", "N", ours), form
        assert mine.returncode == real.returncode, form
    assert scene.chains() == []


def environment(path: Path) -> dict[str, str]:
    entries = path.read_text().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def test_a_directive_is_a_chain_that_runs_and_no_job_sees_the_hooks(scene: Hooked) -> None:
    own = "env -0 >env.${MIRAGE_LINK:-plain}\n"
    own += '[ "$MIRAGE_LINK" != 1 ] || sbatch --parsable --hold job.sh >nested\n'
    scene.write("plain.sh", JOB + own)
    scene.write("chain.sh", DIRECTIVE.replace("true\n", own))
    scene.sbatch("plain.sh")
    both(scene)
    assert is_link(scene, scene.job(scene.sbatch("chain.sh")))
    for launcher in (["srun", "-t1"], ["salloc", "-t1", "srun"]):
        words = [*launcher, "sh", "-c", "echo ran"]
        ran = scene.testbed.run(words, user="alice", env={"MIRAGE_CHAIN": "2"})
        assert "ran\n" in ran.stdout
    active = ["squeue", "-h", "-t", "R,CG,PD", "-n", "chain.sh"]
    scene.testbed.wait_until(
        lambda: not scene.testbed.run(active).stdout, 60, "the end of the chain"
    )
    plain, *links = (environment(scene.home / f"env.{name}") for name in ("plain", "1", "2"))
    for link in links:
        new = {name for name in link.keys() - plain.keys() if not name.startswith("MIRAGE_")}
        assert new <= {"SHLVL", "SLURM_JOB_DEPENDENCY", "SLURM_OPEN_MODE", "TMPDIR"}
        assert plain.keys() <= link.keys()
    assert links[1]["MIRAGE_PREV_JOBID"] == links[0]["SLURM_JOB_ID"]
    assert len(scene.chains()) == 1
    nested = int((scene.home / "nested").read_text())
    assert "# mirage carrier " not in scene.stored_script(nested)


def test_with_the_wrapper_on_path_as_well_there_is_one_chain(scene: Hooked) -> None:
    both(scene)
    path = {"PATH": f"{scene.plugin}:/usr/bin:/bin"}
    for words in (["directive.sh"], ["line.sh"], ["--mirage-chain=2", "job.sh"]):
        assert is_link(scene, scene.job(scene.sbatch("--hold", *words, env=path)))
        scene.forget_chains()


@EACH
def test_the_sbatch_that_was_called_is_the_one_that_submits(scene: Hooked, hook: Hook) -> None:
    hook(scene)
    elsewhere = scene.root / "bin" / "sbatch"
    elsewhere.parent.mkdir(exist_ok=True)
    shutil.copy("/usr/bin/sbatch", elsewhere)
    done = scene.sbatch("--hold", "--mirage-chain=2", "job.sh", program=str(elsewhere))
    job = scene.job(done)
    assert is_link(scene, job)
    assert f"mirage_sbatch='{elsewhere}'\n" in scene.stored_script(int(job["JobId"]))


def test_the_calls_that_the_wrapper_hands_on_do_not_come_round_again(scene: Hooked) -> None:
    both(scene)
    (scene.home / "file").touch()
    no_place = {"MIRAGE_STATE_DIR": f"{scene.home}/file/state"}
    done = scene.sbatch("--hold", "directive.sh", env=no_place)
    assert not is_link(scene, scene.job(done))
    assert "submitted without a chain" in done.stderr
    tested = scene.sbatch("--test-only", "line.sh", env={"MIRAGE_CHAIN": "3"})
    assert tested.returncode == 0
    assert "to start at" in tested.stderr
    refused = scene.sbatch("--mirage-chain=2", "--array=1-3", "job.sh")
    assert refused.returncode == 1
    assert refused.stderr.count("a job array cannot be a chain") == 1
    assert not scene.testbed.run(["squeue", "-h", "-r", "-o", "%K", "-t", "R"]).stdout


@EACH
def test_sbatch_is_unharmed_by_a_service_that_is_down_slow_or_mad(
    scene: Hooked, hook: Hook
) -> None:
    hook(scene)
    with service(None) as slow, service(b"\0\xff<html>\r\n\r\n" * 999) as mad:
        for url in (NOBODY, slow, mad):
            done = scene.sbatch("--hold", "--mirage-chain=2", "job.sh", env={"MIRAGE_URL": url})
            assert is_link(scene, scene.job(done))
            assert done.stderr.count("\n") == 1
            scene.forget_chains()
            plain = scene.sbatch("--hold", "job.sh", env={"MIRAGE_URL": url})
            assert not is_link(scene, scene.job(plain))
            assert plain.stderr == ""


def no_wrapper(scene: Hooked) -> None:
    (scene.plugin / "sbatch").unlink()


def wrapper_not_to_be_run(scene: Hooked) -> None:
    (scene.plugin / "sbatch").chmod(0o644)


def wrapper_without_interpreter(scene: Hooked) -> None:
    (scene.plugin / "sbatch").write_text("#!/nowhere/python3\n")


def empty_wrapper(scene: Hooked) -> None:
    (scene.plugin / "sbatch").write_text("")


def broken_module(scene: Hooked) -> None:
    (scene.plugin / "mirage_slurm/wrapper/main.py").write_text("def main(:\n")


WRAPPERS = [
    no_wrapper,
    wrapper_not_to_be_run,
    wrapper_without_interpreter,
    empty_wrapper,
    broken_module,
]


@EACH
@pytest.mark.parametrize("broken", WRAPPERS)
def test_a_broken_wrapper_costs_the_chain_and_not_the_job(
    scene: Hooked, hook: Hook, broken: Callable[[Hooked], None]
) -> None:
    hook(scene)
    broken(scene)
    done = scene.sbatch("--hold", "job.sh", env={"MIRAGE_CHAIN": "2"})
    assert not is_link(scene, scene.job(done))
    assert done.stderr.startswith("mirage: ")
    assert done.stderr.count("\n") == 1
    assert scene.sbatch("--hold", "job.sh").stderr == ""


@pytest.mark.parametrize("text", ["", "no plugin\n", None], ids=["empty", "text", "absent"])
def test_what_is_no_spank_plugin_is_passed_over(scene: Hooked, text: str | None) -> None:
    plugin = scene.root / "broken.so"
    if text is not None:
        plugin.write_text(text)
    scene.spank(plugin)
    assert not is_link(scene, scene.job(scene.sbatch("--hold", "job.sh")))
    plugin.unlink(missing_ok=True)


LUA = {
    "absent": None,
    "no Lua": "function (\n",
    "raises as it is loaded": "error('no')\n",
    "not a table": "return 7\n",
    "raises when called": "return setmetatable({}, {__index = function() error('no') end})\n",
}


@pytest.mark.parametrize("text", LUA.values(), ids=LUA.keys())
def test_a_broken_script_of_ours_changes_nothing(scene: Hooked, text: str | None) -> None:
    hooks = scene.root / "broken"
    shutil.rmtree(hooks, ignore_errors=True)
    hooks.mkdir()
    for name in ("mirage_cli.lua", "mirage_submit.lua"):
        if text is not None:
            (hooks / name).write_text(text)
    scene.load_cli(str(hooks))
    scene.load_submit(str(hooks))
    done = scene.sbatch("--hold", "--comment=mirage:chain=0", "--array=1-2", "job.sh")
    assert scene.job(done)["Comment"].strip() == "mirage:chain=0"
    assert done.stderr == ""
    scene.load_submit(NO_SUCH)


@pytest.fixture
def judged(scene: Hooked) -> Iterator[Hooked]:
    scene.load_submit(scene.hooks)
    assert not is_link(scene, scene.job(scene.sbatch("--hold", "job.sh")))  # and it is loaded
    yield scene
    scene.load_submit(NO_SUCH)


def test_job_submit_refuses_what_cannot_be_a_link(judged: Hooked) -> None:
    for words, reason in (
        (["--comment=mirage:chain=8", "--array=1-3"], "a job array cannot be a chain"),
        (["--comment=mine mirage:policy=auto,chain=1001"], "a chain has 1 to 1000 links"),
        (["--comment=mirage:chain=-1"], "a chain has 1 to 1000 links"),
        (["--comment=mirage:" + "0" * 20 + ":0"], "a chain has 1 to 1000 links"),
    ):
        done = judged.sbatch("--hold", *words, "job.sh")
        assert done.returncode == 1, words
        assert f"mirage: {reason}" in done.stderr


def test_job_submit_leaves_all_else_as_it_was(judged: Hooked) -> None:
    for comment in (
        "mirage: a city, chain=5000",
        "mirage:chain reaction",
        "not mirage:unknown=8",
        "mirage:chain=8 'quoted' $(x)",
        "mirage:" + "0" * 20 + ":1000",
    ):
        done = judged.sbatch("--hold", f"--comment={comment}", "job.sh")
        assert judged.job(done)["Comment"].strip() == comment
        assert done.stderr == ""


def test_who_uses_a_seen_chain_id_first_keeps_its_owner_from_nothing(judged: Hooked) -> None:
    spank(judged)
    is_link(judged, judged.job(judged.sbatch("--hold", "--mirage-chain=2", "job.sh")))
    judged.load_submit(judged.hooks)  # slurmctld reads the hook anew, and has seen no chain yet
    (chain,) = judged.chains()
    seen = ("--hold", f"--comment=mirage:{chain.name}:2", "--wrap=true")
    assert judged.sbatch(*seen, user="bob").returncode == 0
    again = judged.sbatch(*seen)
    assert again.stderr == ""
    assert judged.job(again)["Comment"].strip() == f"mirage:{chain.name}:2"
    mine = judged.job(judged.sbatch("--hold", "--wrap=true"))["JobId"]
    change = ["scontrol", "update", f"JobId={mine}", f"Comment=mirage:{chain.name}:3"]
    assert judged.testbed.run(change, user="alice", check=False).returncode == 0
    assert judged.testbed.job(int(mine))["Comment"].strip() == f"mirage:{chain.name}:3"


HOSTILE = [
    "$(touch {canary})",
    "`touch {canary}`",
    "'; touch {canary}; '",
    '" && touch {canary} #',
    "a\nb | touch {canary}",
    "mirage:chain=$(touch {canary})",
    "mirage:chain=2,policy='`touch {canary}`'",
    "-x --mirage-chain=2;touch {canary}",
]


def test_no_name_comment_or_path_reaches_a_shell(judged: Hooked) -> None:
    both(judged)
    canary = judged.home / "canary"
    for text in (form.format(canary=canary) for form in HOSTILE):
        script = f"{text.replace('/', '_')[:60]}.sh"
        judged.write(script, MIRAGE_LINE)
        words = ("--hold", f"--job-name={text}", f"--comment={text}")
        for asks in ({}, {"MIRAGE_CHAIN": "2"}):
            done = judged.sbatch(*words, "--", script, text, env=asks)
            assert "terminated" not in done.stderr
            plain = judged.sbatch(*words, "--", script, text, env={"MIRAGE_DISABLE": "1"})
            if done.returncode == 0 == plain.returncode:
                assert judged.job(done)["JobName"] == judged.job(plain)["JobName"]
            else:
                assert "mirage" in done.stderr
    assert not canary.exists()


def test_the_options_are_those_of_the_wrapper() -> None:
    source = (PLUGIN / "spank" / "mirage_spank.c").read_text()
    program = "from mirage_slurm.wrapper import options; print(*sorted(options.MIRAGE_NAMES))"
    known = subprocess.run(
        ["/usr/bin/python3", "-c", program], cwd=PLUGIN, capture_output=True, text=True, check=True
    )
    assert sorted(re.findall(r'\{ "(mirage-[a-z-]+)"', source)) == known.stdout.split()
