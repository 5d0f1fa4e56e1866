"""What a chain is asked to be, by each of the four ways of saying so."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from tests.support.slurm_plugin.fakes import FakeSlurm

DEFAULTS = {
    "links": "1000",
    "total": "",
    "until": "",
    "max_overlap": "",
    "presubmit": "next",
    "style": "sequential",
    "mode": "standby",
    "continue": "TIMEOUT,PREEMPTED,NODE_FAIL,COMPLETED,FAILED",
    "min_runtime": "600",
    "checkpoint": "",
    "price": "",
    "lead": "",
    "returns": "2",
    "service": "site",
}
CASES = [
    ("chain", "7", {"links": "7"}),
    ("total", "2-12:30", {"total": "217800"}),
    ("until-file", "/x/run-done", {"until": "/x/run-done"}),
    ("max-overlap", "90", {"max_overlap": "5400"}),
    ("never-overlap", None, {"max_overlap": "0"}),
    ("presubmit", "next", {"presubmit": "next"}),
    ("style", "serve", {"style": "serve"}),
    ("style", "concurrent", {"style": "concurrent"}),
    ("style", "sequential", {"style": "sequential"}),
    ("mode", "submit", {"mode": "submit"}),
    ("continue", "timeout,COMPLETED", {"continue": "TIMEOUT,COMPLETED"}),
    ("min-runtime", "1:30", {"min_runtime": "90"}),
    ("checkpoint", "/ck/point", {"checkpoint": "/ck/point"}),
    ("overlap-price", "0.25", {"price": "0.25"}),
    ("lead", "6:00:00", {"lead": "21600"}),
    ("lead", "0", {"lead": "0"}),
    ("returns", "0", {"returns": "0"}),
    ("returns", "9", {"returns": "9"}),
    ("service", "none", {"service": "none"}),
]
NAMES = [f"{name}={value}" for name, value, _ in CASES]


def head(slurm: FakeSlurm) -> dict[str, str]:
    """What the last submission's carrier says of its chain."""
    text = slurm.calls()[-1].script.decode()
    return {
        name: value
        for name, value in re.findall(r"(?m)^mirage_(\w+)='(.*)'$", text)
        if name in DEFAULTS
    }


def tag(slurm: FakeSlurm) -> str:
    """The mark of the last submission's first link."""
    (chain,) = re.findall(rb"(?m)^mirage_chain='(.*)'$", slurm.calls()[-1].script)
    return f"mirage:{chain.decode()}:1"


def ask(
    slurm: FakeSlurm, *words: str, lines: str = "", env: Mapping[str, str] | None = None
) -> str:
    """Submit, and return what stood on standard error."""
    slurm.script(f"#!/bin/sh\n{lines}true\n")
    done = slurm.sbatch(*words, "job.sh", env=env)
    return done.stderr.decode()


@pytest.mark.parametrize(("name", "value", "expected"), CASES, ids=NAMES)
@pytest.mark.parametrize("way", ["option", "two words", "environment", "line", "comment"])
def test_each_setting_is_taken_from_each_place(
    slurm: FakeSlurm, way: str, name: str, value: str | None, expected: dict[str, str]
) -> None:
    equals = name if value is None else f"{name}={value}"
    chain = [] if name in ("chain", "total") else ["--mirage-total=1-0"]
    if chain:
        expected = expected | {"total": "86400"}
    if way == "option":
        ask(slurm, *chain, f"--mirage-{equals}")
    elif way == "two words":
        ask(slurm, *chain, f"--mirage-{name}", *([] if value is None else [value]))
    elif way == "environment":
        ask(slurm, *chain, env={f"MIRAGE_{name.upper().replace('-', '_')}": value or "1"})
    elif way == "line":
        ask(slurm, *chain, lines=f"#MIRAGE --{equals}\n")
    else:
        ask(slurm, *chain, f"--comment=mirage:{equals}")
    assert head(slurm) == DEFAULTS | expected


def test_an_option_wins_over_the_environment_that_over_the_script_that_over_the_comment(
    slurm: FakeSlurm,
) -> None:
    words = ["--mirage-chain=2"]
    comment = ["--comment=mirage:chain=5,style=serve,min-runtime=9,never-overlap"]
    lines = "#MIRAGE --chain=4 --style=wait --min-runtime=8 # and so on\n#MIRAGE --max-overlap=1\n"
    env = {"MIRAGE_CHAIN": "3", "MIRAGE_STYLE": "switch"}
    seen = []
    for has_words, has_env, has_lines in ((1, 1, 1), (0, 1, 1), (0, 0, 1), (0, 0, 0)):
        given = env if has_env else {}
        ask(slurm, *words * has_words, *comment, lines=lines * has_lines, env=given)
        found = head(slurm)
        seen.append([found[n] for n in ("links", "style", "min_runtime", "max_overlap")])
    assert seen == [
        ["2", "switch", "480", "60"],
        ["3", "switch", "480", "60"],
        ["4", "wait", "480", "60"],
        ["5", "serve", "540", "0"],
    ]


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ("mirage:chain=2", ""),
        ("my run, v2 mirage:chain=2,overlap-price=0.3", "my run, v2"),
        ("mirage:chain=2 my  run", "my  run"),
        ("a mirage:never-overlap,chain=2 'b'", "a 'b'"),
        ("mirage:chain=2,continue=TIMEOUT,FAILED,style=wait x", "x"),
    ],
)
def test_a_comment_that_asks_for_a_chain_leaves_the_users_own(
    slurm: FakeSlurm, comment: str, left: str
) -> None:
    for words, lines in (([f"--comment={comment}"], ""), ([], f'#SBATCH --comment="{comment}"\n')):
        ask(slurm, *words, lines=lines)
        (said,) = [w for w in slurm.calls()[-1].argv if w.startswith("--comment=")][-1:]
        assert said == "--comment=" + f"{left} {tag(slurm)}".strip()
        assert head(slurm)["links"] == "2"


@pytest.mark.parametrize(
    "comment",
    [
        *("mirage", "mirage:", "mirage: chain=3", "mirage:0f000000000000000000:1", "mirage:x=1"),
        *("amirage:chain=3", "see mirage:chain", "chain=3", "mirage:chains=3,chain=3"),
    ],
)
def test_a_comment_that_is_not_ours_is_left_alone(slurm: FakeSlurm, comment: str) -> None:
    for words, lines in (([f"--comment={comment}"], ""), ([], f"#SBATCH --comment='{comment}'\n")):
        assert ask(slurm, *words, lines=lines) == ""
        assert slurm.calls()[-1].argv == [*words, "job.sh"]
    assert slurm.chains() == []


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("--mirage-total=soon", "--mirage-total is a time as Slurm writes it"),
        ("--mirage-total=0", "--mirage-total is a time as Slurm writes it"),
        ("--mirage-max-overlap=1:2:3:4", "--mirage-max-overlap is a time"),
        ("--mirage-min-runtime=-1", "--mirage-min-runtime is a time"),
        ("--mirage-presubmit=some", "--mirage-presubmit is next or all, not 'some'"),
        ("--mirage-style=bold", "--mirage-style is sequential, concurrent, switch, wait or serve"),
        ("--mirage-mode=act", "--mirage-mode is standby or submit, not 'act'"),
        ("--mirage-continue=CANCELLED", "--mirage-continue is a list of COMPLETED,FAILED,"),
        ("--mirage-until-file=", "--mirage-until-file is a path, not ''"),
        ("--mirage-never-overlap=1", "--mirage-never-overlap takes no value"),
        ("--mirage-lead=-5", "--mirage-lead is a time as Slurm writes it"),
        ("--mirage-lead=1:2:3:4", "--mirage-lead is a time as Slurm writes it"),
        ("--mirage-lead=", "--mirage-lead is a time as Slurm writes it"),
        ("--mirage-returns=-1", "--mirage-returns is a number from 0 to 9, not '-1'"),
        ("--mirage-returns=1000", "--mirage-returns is a number from 0 to 9, not '1000'"),
        ("--mirage-returns=x", "--mirage-returns is a number from 0 to 9, not 'x'"),
        ("--mirage-returns=", "--mirage-returns is a number from 0 to 9, not ''"),
        ("--mirage-service=mine", "--mirage-service is site or none, not 'mine'"),
        ("--mirage-overlap-price=nan", "--mirage-overlap-price is a number from 0 to 100"),
        ("--comment=mirage:chain=3,colour=red", "unknown setting in --comment=mirage:...: 'colour"),
    ],
)
def test_a_bad_setting_is_refused_in_one_sentence(
    slurm: FakeSlurm, word: str, sentence: str
) -> None:
    said = ask(slurm, "--mirage-chain=3", word)
    assert said.startswith(f"sbatch: error: mirage: {sentence}")
    assert said.count("\n") == 1
    assert slurm.calls() == []


def test_the_last_word_needs_its_value(slurm: FakeSlurm) -> None:
    done = slurm.sbatch("job.sh", "--mirage-chain")  # the script's own argument
    assert done.returncode == 0
    done = slurm.sbatch("--mirage-style")
    assert done.stderr.startswith(b"sbatch: error: mirage: --mirage-style needs a value")
    assert done.returncode == 1


def test_a_refusal_ends_with_the_code_that_the_user_chose(slurm: FakeSlurm) -> None:
    slurm.script("#!/bin/sh\ntrue\n")
    for chosen, code in (("7", 7), ("0", 1), ("no", 1)):
        env = {"SLURM_EXIT_ERROR": chosen}
        assert slurm.sbatch("--mirage-chain=0", "job.sh", env=env).returncode == code


def test_settings_in_a_profile_ask_for_no_chain(slurm: FakeSlurm) -> None:
    profile = {"MIRAGE_MAX_OVERLAP": "1:00:00", "MIRAGE_NEVER_OVERLAP": "0", "MIRAGE_STYLE": "no"}
    assert ask(slurm, env=profile) == ""
    assert slurm.calls()[-1].argv == ["job.sh"]
    ask(slurm, "--mirage-chain=2", env=profile | {"MIRAGE_LINK": "4"})
    assert (head(slurm)["max_overlap"], head(slurm)["style"]) == ("3600", "sequential")


def test_an_option_without_a_chain_is_refused(slurm: FakeSlurm) -> None:
    said = ask(slurm, "--mirage-style=wait")
    assert said.startswith("sbatch: error: mirage: --mirage-style means nothing without")
    assert slurm.calls() == []


@pytest.mark.parametrize(
    ("words", "lines", "said"),
    [
        ([], "#MIRAGE --style=wait\n", "--mirage-style means nothing without"),
        ([], "#MIRAGE dataset v2\n", "unknown setting in a #MIRAGE line: 'dataset'"),
        ([], "#MIRAGE chain of thought\n", "unknown setting in a #MIRAGE line: 'chain'"),
        ([], "#MIRAGE --colour=red --style=wait\n", "unknown setting in a #MIRAGE line: '--col"),
        (["--comment=mirage:style=wait"], "", "--mirage-style means nothing without"),
        (["--comment=mirage:mode=fast"], "", "--mirage-mode means nothing without"),
        (["--comment=mirage:mode=fast,x"], "", "unknown setting in --comment=mirage:...: 'x'"),
        ([], "#SBATCH --comment='mirage:mode=fast'\n", "--mirage-mode means nothing without"),
    ],
)
def test_a_comment_that_asks_for_no_chain_keeps_no_job_back(
    slurm: FakeSlurm, words: list[str], lines: str, said: str
) -> None:
    heard = ask(slurm, *words, lines=lines)
    assert heard.startswith(f"mirage: {said}")
    assert heard.endswith("; submitted without a chain\n")
    assert heard.count("\n") == 1
    assert slurm.calls()[-1].argv == [*words, "job.sh"]
    assert ask(slurm, "--parsable", *words, lines=lines) == ""
    assert slurm.chains() == []


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ([], "#MIRAGE --chain 8\n"),
        ([], "#MIRAGE chain=8\n"),
        ([], "#MIRAGE --chain=abc\n"),
        ([], "#MIRAGE --total=1-0 dataset\n"),
        (["--comment=mirage:chain=abc"], ""),
        (["--comment=mirage:mode=submit,chain"], ""),
    ],
)
def test_a_chain_that_is_asked_for_badly_is_refused(
    slurm: FakeSlurm, words: list[str], lines: str
) -> None:
    said = ask(slurm, *words, lines=lines)
    assert said.startswith("sbatch: error: mirage: ")
    assert said.count("\n") == 1
    assert slurm.calls() == []


@pytest.mark.parametrize("value", ["0", ""])
def test_no_chain_in_the_environment_is_none(slurm: FakeSlurm, value: str) -> None:
    none = {"MIRAGE_CHAIN": value}
    assert ask(slurm, env=none) == ""
    assert slurm.calls()[-1].argv == ["job.sh"]
    ask(slurm, "--mirage-chain=2", env=none)
    assert head(slurm)["links"] == "2"


def test_no_chain_in_the_environment_goes_before_the_scripts_own(slurm: FakeSlurm) -> None:
    for words, lines in (
        ([], "#MIRAGE --chain=4\n"),
        (["--comment=mirage:total=1-0,style=wait"], ""),
    ):
        assert ask(slurm, *words, lines=lines, env={"MIRAGE_CHAIN": "0"}) == ""
        assert slurm.calls()[-1].argv == [*words, "job.sh"]
    assert slurm.chains() == []


def test_paths_are_seen_from_the_directory_of_the_submission(slurm: FakeSlurm) -> None:
    ask(slurm, "--mirage-chain=2", "--mirage-until-file=a/done", "--mirage-checkpoint=ck")
    home = slurm.root / "home"
    assert head(slurm)["until"] == f"{home}/a/done"
    assert head(slurm)["checkpoint"] == f"{home}/ck"


@pytest.mark.parametrize(
    ("words", "env", "lines", "sentence"),
    [
        (["--cluster-constraint=x"], {}, "", "a federation"),
        (["--export-file=3"], {}, "", "open for this call alone"),
        ([], {}, "#PBS -J 1-3\n", "a job array"),
        ([], {}, "#PBS -t 1-3\n", "a job array"),
        ([], {}, "#SBATCH --hold\n", "would hold every link"),
        ([], {}, "#SBATCH hetjob\n#SBATCH -a 1\n", "a job array"),
        ([], {}, "#SLURM --array=1\n", "a job array"),
        ([], {}, "#SBATCH -x a\\ b --array=1\n", "a job array"),
    ],
)
def test_what_cannot_be_a_link_is_refused(
    slurm: FakeSlurm, words: list[str], env: dict[str, str], lines: str, sentence: str
) -> None:
    said = ask(slurm, "--mirage-chain=3", *words, lines=lines, env=env)
    assert sentence in said
    assert said.count("\n") == 1
    assert slurm.calls() == []


def test_ignored_pbs_lines_are_ignored(slurm: FakeSlurm) -> None:
    ask(slurm, "--mirage-chain=3", "--ignore-pbs", lines="#PBS -J 1-3\n")
    assert head(slurm)["links"] == "3"


def test_an_empty_comment_is_the_users_own(slurm: FakeSlurm) -> None:
    ask(slurm, "--mirage-chain=2", "--comment=", lines="#SBATCH --comment=mirage:style=wait\n")
    assert slurm.calls()[-1].argv[-3] == f"--comment={tag(slurm)}"
    assert head(slurm)["style"] == "sequential"


@pytest.mark.parametrize(
    ("words", "lines", "env", "style"),
    [
        (["--mirage-chain=2"], "#SBATCH --mirage-style=serve\n", {}, "serve"),
        ([], "#SBATCH --mirage-style=serve\n", {"MIRAGE_CHAIN": "2"}, "serve"),
        (["--mirage-chain=2", "--mirage-style=wait"], "#SBATCH --mirage-style=serve\n", {}, "wait"),
        (["--mirage-chain=2"], "#SBATCH --mirage-style=serve\n", {"MIRAGE_STYLE": "wait"}, "wait"),
        ([], "#MIRAGE --chain=2 --style=wait\n#SBATCH --mirage-style=serve\n", {}, "serve"),
        (["--mirage-style=wait"], "#SBATCH --mirage-chain=2\n", {}, "wait"),
    ],
)
def test_what_a_directive_says_of_a_chain_counts_whoever_asks_for_it(
    slurm: FakeSlurm, words: list[str], lines: str, env: dict[str, str], style: str
) -> None:
    """By then SPANK has become the wrapper, and hears no directive."""
    ask(slurm, *words, lines=lines, env=env)
    assert head(slurm)["style"] == style


def test_the_second_components_comment_is_not_the_first_ones(slurm: FakeSlurm) -> None:
    lines = "#SBATCH -N1\n#SBATCH hetjob\n#SBATCH --comment=second\n"
    ask(slurm, "--mirage-chain=2", lines=lines)
    assert f"--comment={tag(slurm)}" in slurm.calls()[-1].argv


@pytest.mark.parametrize(
    ("words", "lines", "env", "refused"),
    [
        (["--open-mode=truncate", "-o", "run.log"], "", {}, True),
        (["--open-mode", "Trunc", "--output=run-%x.log"], "", {}, True),
        (["--open-mode=truncate", "--error=%u.err"], "", {}, True),
        (["--open-mode=truncate", "-o", "%%j.log"], "", {}, True),
        (["--open-mode=truncate", "-o", "no\\\\%j.log"], "", {}, True),
        ([], "#SBATCH --open-mode=truncate -o run.log\n", {}, True),
        ([], "#SBATCH -o run.log\n", {"SBATCH_OPEN_MODE": "truncate"}, True),
        (["--open-mode=truncate"], "", {"SBATCH_OUTPUT": "run.log"}, True),
        (["--open-mode=append"], "#SBATCH --open-mode=truncate -o run.log\n", {}, False),
        (["--open-mode=truncate", "-o", "run-%j.log"], "#SBATCH -o run.log\n", {}, False),
        (["--open-mode=truncate", "-o", "%10J.log", "-e", "/dev/null"], "", {}, False),
        (["--open-mode=truncate", "-o", "run-%A.log"], "", {}, False),
        (["--open-mode=truncate", "-o", "run-%a.log"], "", {}, True),
        (["--open-mode=truncate"], "", {}, False),
        (["-o", "run.log"], "", {}, False),
        (["--mirage-chain=1", "--open-mode=truncate", "-o", "run.log"], "", {}, False),
    ],
)
def test_no_link_empties_the_log_of_the_one_before_it(
    slurm: FakeSlurm, words: list[str], lines: str, env: dict[str, str], refused: bool
) -> None:
    said = ask(slurm, "--mirage-chain=3", *words, lines=lines, env=env)
    assert ("--open-mode=truncate with one output file" in said) is refused
    assert len(slurm.calls()) == (0 if refused else 1)
