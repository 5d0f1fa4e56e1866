"""sbatch inside a link: as many jobs as the chain has links, whatever the script submits."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.slurm_plugin.fakes import FakeSlurm
from tests.support.slurm_plugin.once import Queue, arguments, is_carrier

HEAD = "#!/bin/bash\n#SBATCH --time=60\n"
LINE = "#MIRAGE --chain=3\n"
ASKED = [
    (["--mirage-chain=3"], {}, ""),
    ([], {"MIRAGE_CHAIN": "3"}, ""),
    ([], {}, LINE),
    ([], {}, "#SBATCH --comment=mirage:chain=3\n"),
]
COUNTS = 'left=${1:-2}\n[ "$left" -eq 0 ] || sbatch -d afterany:$SLURM_JOB_ID "$0" $((left - 1))\n'
ITSELF = [
    COUNTS,
    COUNTS.replace("-d afterany:$SLURM_JOB_ID", "--dependency=singleton"),
    'sbatch "$0"\n',
    "sbatch --time=10 -J other train.sh\n",
    'sbatch "$0" "$@"\n',
    'sbatch "$0" "$1"\n',
    'sbatch --parsable <"$0"\n',
    'cat "$0" | sbatch\n',
    'sbatch "$MIRAGE_DIR/carrier/train.sh"\n',
    'sbatch "$MIRAGE_DIR/carrier/train.sh" "mirage:$MIRAGE_CHAIN_ID:1"\n',
    "trap 'sbatch \"$0\"' USR1\nkill -s USR1 $$\n",
    "trap 'sbatch \"$0\"' EXIT\ntrue\n",
]


def submit(slurm: FakeSlurm, text: str, *words: str, **env: str) -> Queue:
    slurm.script(text, "train.sh")
    done = slurm.sbatch(*words, "train.sh", env=env)
    assert done.returncode == 0, done.stderr
    return Queue(slurm)


def lines(done: subprocess.CompletedProcess[bytes]) -> list[str]:
    return [line for line in done.stderr.decode().splitlines() if line.startswith("mirage: ")]


@pytest.mark.parametrize(("words", "env", "line"), ASKED, ids=["option", "env", "line", "comment"])
@pytest.mark.parametrize("body", ITSELF)
def test_a_script_that_submits_itself_is_as_many_jobs_as_the_chain_has_links(
    slurm: FakeSlurm, words: list[str], env: dict[str, str], line: str, body: str
) -> None:
    queue = submit(slurm, HEAD + line + body, *words, **env)
    assert queue.run() == 3
    assert len(slurm.chains()) == 1
    assert all(is_carrier(call) for call in slurm.calls())
    first, second, last = queue.done
    for done, job in ((first, 102), (second, 103)):
        assert done.stdout.decode().split()[-1:] == [str(job)], done
        (said,) = lines(done)
        assert f"job {job} already: nothing was submitted" in said
        assert "env -u MIRAGE_LINK" in said
    assert last.stdout == b""
    assert "the last of the chain's 3 links" in lines(last)[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "Submitted batch job 102\n"),
        (["--parsable"], "102\n"),
        (["-M", "lab"], "Submitted batch job 102 on cluster lab\n"),
        (["--parsable", "-M", "lab"], "102;lab\n"),
        (["--quiet"], ""),
        (["-Q", "--parsable"], ""),
    ],
)
def test_the_next_links_id_is_printed_as_sbatch_prints_it(
    slurm: FakeSlurm, words: list[str], says: str
) -> None:
    body = f"sbatch {' '.join(words)} train.sh; echo rc $?\n"
    queue = submit(slurm, HEAD + LINE + body)
    queue.run(most=1)
    assert queue.done[0].stdout.decode() == f"{says}rc 0\n"
    assert len(lines(queue.done[0])) == 1


@pytest.mark.parametrize("words", ["other", "7", "--evaluate 3", "-d afterany:$SLURM_JOB_ID"])
def test_its_own_script_with_other_arguments_is_one_plain_job(slurm: FakeSlurm, words: str) -> None:
    """The plain job's own sbatch begins no chain either: without Mirage it would not."""
    option, argument = ("", words) if not words.startswith("-d") else (words, "evaluate")
    queue = submit(
        slurm, HEAD + LINE + f'[ -n "$1" ] || sbatch {option} "$0" {argument}\nsbatch "$0" more\n'
    )
    queue.run(most=1)
    (said, _) = lines(queue.done[0])
    assert "this chain's own script with other arguments: submitted as one plain job" in said
    assert "env -u MIRAGE_LINK" in said
    plain = slurm.calls()[2]
    assert (is_carrier(plain), arguments(plain)) == (False, argument.split())
    assert plain.env["MIRAGE_CHAIN"] == "0"
    queue.run(most=12)
    assert len(slurm.chains()) == 1


@pytest.mark.parametrize("export", ["ALL", "NONE", "OMP_NUM_THREADS"])
@pytest.mark.parametrize("option", ["", "--mirage-chain=3"])
def test_no_plain_job_of_a_link_begins_a_chain(slurm: FakeSlurm, export: str, option: str) -> None:
    """Whatever is handed down to it, and however its script asks: else chains would multiply."""
    body = f'sbatch --export={export} {option} "$0" $((${{1:-0}} + 1))\n'
    queue = submit(slurm, HEAD + LINE + body)
    assert queue.run(most=20) == 20
    assert len(slurm.chains()) == 1
    assert [is_carrier(call) for call in slurm.calls()].count(True) == 3
    below = "no chain begins in a plain job of a link: submitted as one plain job"
    around = "env -u SLURM_MIRAGE_PLAIN -u MIRAGE_CHAIN sbatch"
    plain = [
        done for done, call in zip(queue.done, slurm.calls(), strict=False) if not is_carrier(call)
    ]
    asks = bool(option) or export != "ALL"  # else by MIRAGE_CHAIN=0 it does not
    assert [len(lines(done)) for done in plain] == [asks] * len(plain)
    assert all(below in text and around in text for done in plain for text in lines(done))


def test_the_way_around_in_a_plain_job_of_a_link_makes_a_chain(slurm: FakeSlurm) -> None:
    """Whose links are links as any."""
    around = "env -u SLURM_MIRAGE_PLAIN -u MIRAGE_CHAIN"
    slurm.script(HEAD + LINE + "env -0 >names\n", "other.sh")
    body = f'[ -n "$1" ] && {around} sbatch other.sh || sbatch "$0" again\n'
    submit(slurm, HEAD + "#MIRAGE --chain=1\n" + body).run()
    assert len(slurm.chains()) == 2
    assert b"SLURM_MIRAGE_PLAIN" not in (slurm.root / "home" / "names").read_bytes()


AGAIN = '[ -n "$1" ] || { sbatch other.sh; sbatch --mirage-chain=2 --wrap=true; }\n'


def test_another_script_that_asks_for_a_chain_is_one_plain_job(slurm: FakeSlurm) -> None:
    slurm.script(HEAD + LINE + "echo other; sbatch train.sh now\n", "other.sh")
    queue = submit(slurm, HEAD + LINE + AGAIN)
    queue.run(most=1)
    _, _, other, wrapped = slurm.calls()
    assert (other.argv, is_carrier(other)) == (["other.sh"], False)
    assert (wrapped.argv, is_carrier(wrapped)) == (["--wrap=true"], False)
    for said in lines(queue.done[0]):
        assert "no chain begins inside a link: submitted as one plain job" in said
        assert "env -u MIRAGE_LINK" in said
    assert queue.run() == 12, "three links, and for each other.sh, what that submits, and the third"
    assert len(slurm.chains()) == 1


def test_the_way_around_makes_a_chain(slurm: FakeSlurm) -> None:
    slurm.script(HEAD + LINE + "true\n", "other.sh")
    queue = submit(slurm, HEAD + LINE + "env -u MIRAGE_LINK sbatch other.sh\n")
    queue.run(most=1)
    assert len(slurm.chains()) == 2
    assert is_carrier(slurm.calls()[2])


def test_what_asks_for_nothing_is_as_without_a_link(slurm: FakeSlurm) -> None:
    slurm.script(HEAD + "true\n", "other.sh")
    slurm.script(HEAD + LINE + "true\n", "chain.sh")
    calls = ["-N2 other.sh 'a  b'", "--wrap=true", "--test-only chain.sh", "nowhere.sh"]
    calls += ["--no-such-option chain.sh", "--version", "other.sh </dev/null", "<other.sh"]
    calls += ["--comment=mine other.sh", "--array=1-3 other.sh"]
    body = "".join(
        f"sbatch {call}; echo $?\n{slurm.root}/bin/sbatch {call}; echo $?\n" for call in calls
    )
    queue = submit(slurm, HEAD + LINE + body)
    queue.run(most=1)
    (done,) = queue.done
    assert lines(done) == []
    ours, theirs = slurm.calls()[2::2], slurm.calls()[3::2]
    for mine, real in zip(ours, theirs, strict=True):
        assert (mine.argv, mine.script, mine.cwd) == (real.argv, real.script, real.cwd)
        assert {**mine.env, "_": ""} == {**real.env, "_": ""}
    codes = done.stdout.decode().splitlines()
    assert len([line for line in codes if line.isdigit()]) == 2 * len(calls)


@pytest.mark.parametrize("stale", ["another job", "no job", "no directory"])
def test_names_that_a_job_inherited_are_no_link(slurm: FakeSlurm, stale: str) -> None:
    queue = submit(slurm, HEAD + LINE + "env -0 >names\n")
    queue.run(most=1)
    names = dict(
        entry.split("=", 1)
        for entry in (slurm.root / "home" / "names").read_text().split("\0")
        if entry.startswith(("MIRAGE_", "SLURM_"))
    )
    assert names["SLURM_JOB_ID"] == "101"
    if stale == "another job":
        names["SLURM_JOB_ID"] = "555"
    elif stale == "no job":
        del names["SLURM_JOB_ID"]
    else:
        shutil.rmtree(names["MIRAGE_DIR"])
    done = slurm.sbatch("train.sh", env=names)
    assert is_carrier(slurm.calls()[2])
    assert "MIRAGE_LINK" not in slurm.calls()[2].env, "it is another chain's"
    assert done.stdout == b"Submitted batch job 103\n"


@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("touch $MIRAGE_DIR/done", "this chain is done"),
        ("touch $MIRAGE_DIR/stop", "this chain was stopped"),
        ("rm $MIRAGE_DIR/jobs/2", "has no job yet"),
    ],
)
def test_where_no_next_link_stands_none_is_named(slurm: FakeSlurm, before: str, says: str) -> None:
    queue = submit(slurm, HEAD + LINE + f"{before}\nsbatch train.sh; echo rc $?\n")
    queue.run(most=1)
    assert queue.done[0].stdout == b"rc 0\n"
    assert says in lines(queue.done[0])[0]
    assert len(slurm.chains()) == 1


def test_a_closed_output_submits_nothing_either(slurm: FakeSlurm) -> None:
    queue = submit(slurm, HEAD + LINE + "sbatch train.sh >&-; echo rc $?\n")
    assert queue.run() == 3
    assert queue.done[0].stdout == b"rc 0\n"


@pytest.mark.parametrize(
    ("body", "is_told"),
    [
        ('sbatch "$0"', True),
        ("sbatch --time=5 \\\n  ${0} 3", True),
        ("  cd sub && sbatch ../train.sh", True),
        ('sbatch "${BASH_SOURCE[0]}"', True),
        ("# sbatch train.sh", False),
        ("sbatch other_train.sh", False),
        ("sbatch train.sh.old", False),
        ("echo $0", False),
    ],
)
def test_a_script_that_calls_sbatch_on_itself_is_told_at_its_first_submission(
    slurm: FakeSlurm, body: str, is_told: bool
) -> None:
    slurm.script(HEAD + LINE + body + "\n", "train.sh")
    done = slurm.sbatch("train.sh")
    assert (b"'train.sh' calls sbatch on itself" in done.stderr) == is_told
    assert slurm.sbatch("--parsable", "train.sh").stderr == b""


@pytest.mark.parametrize(
    ("body", "is_warned"),
    [
        (
            'if [ "$(squeue -h -u $USER --name="$SLURM_JOB_NAME" | wc -l)" -gt 1 ] && exit 1',
            True,
        ),
        ("squeue -hn train.sh", True),
        ("squeue \\\n  --me | grep train", True),
        ("python3 -c 'import os; os.popen(\"squeue --user=alice\")'", True),
        ("squeue | grep lm-7b", True),
        ("squeue -h -j $SLURM_JOB_ID -o %L", False),
        ("squeue -u alice --jobs=$SLURM_JOB_ID", False),
        ("squeue | head -n 3", False),
        ("# squeue --me", False),
    ],
)
def test_a_script_that_looks_for_its_own_name_is_warned_at_its_first_submission(
    slurm: FakeSlurm, body: str, is_warned: bool
) -> None:
    slurm.script(f"{HEAD}#SBATCH --job-name=lm-7b\n{LINE}{body}\n", "train.sh")
    done = slurm.sbatch("train.sh")
    assert (b"'train.sh' looks for jobs of its own name" in done.stderr) == is_warned


def test_begin_needs_a_job(slurm: FakeSlurm) -> None:
    queue = submit(slurm, HEAD + LINE + "env -u SLURM_JOB_ID mirage-link begin; echo $?\n")
    queue.run(most=1)
    assert queue.done[0].stdout == b"1\n"


# The script's own directory, here-documents, and the carrier alone.


def test_a_script_finds_its_neighbours_by_the_command_that_slurm_shows(slurm: FakeSlurm) -> None:
    slurm.command("scontrol", '#!/bin/sh\necho "   Command=$(cat {home}/command)"\n')
    here = "here=$(dirname \"$(scontrol show job $SLURM_JOB_ID | sed -n 's/ *Command=//p')\")\n"
    project = slurm.root / "home" / "project"
    (project / "lib").mkdir(parents=True)
    (project / "settings.sh").write_text("echo settings\n")
    (project / "lib" / "more.sh").write_text("echo more\n")
    slurm.script(
        HEAD + LINE + here + '. "$here/settings.sh" && . "$here/lib/more.sh"\n', "project/a.sh"
    )
    slurm.sbatch("project/a.sh")
    (chain,) = slurm.chains()
    (slurm.root / "command").write_text(f"{chain}/carrier/a.sh mirage:{chain.name}:1\n".split()[0])
    queue = Queue(slurm)
    queue.run()
    assert [done.stdout for done in queue.done] == [b"settings\nmore\n"] * 3


def test_what_a_script_leaves_beside_the_carrier_is_not_taken_for_it(slurm: FakeSlurm) -> None:
    slurm.script("other\n", "aaa")
    queue = submit(slurm, HEAD + LINE + "true || scontrol show job\n")
    queue.run(most=1)
    (chain,) = slurm.chains()
    (chain / "carrier" / "a.log").write_text("of the script\n")
    assert (chain / "carrier" / "aaa").is_symlink()
    (slurm.root / "queue").write_text("")
    done = subprocess.run(
        ["mirage-link", "resume", chain.name], env=slurm.environ, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout.split(b"\t")[0]) == (0, b"link 2"), done.stderr


def test_a_script_that_asks_slurm_nothing_has_its_carrier_alone(slurm: FakeSlurm) -> None:
    slurm.script("kept\n", "notes")
    submit(slurm, HEAD + LINE + "true\n")
    (chain,) = slurm.chains()
    assert [path.name for path in (chain / "carrier").iterdir()] == ["train.sh"]


def test_a_refused_chain_takes_its_links_away_and_no_file_of_the_user(slurm: FakeSlurm) -> None:
    slurm.script("kept\n", "notes")
    (slurm.root / "home" / "folder").mkdir()
    slurm.script(HEAD + LINE + "true || squeue --me\n", "train.sh")
    slurm.answers(code=1)
    assert slurm.sbatch("train.sh").returncode == 1
    assert slurm.chains() == []
    assert {path.name for path in (slurm.root / "home").iterdir()} >= {"notes", "folder"}


HERE_DOCUMENT = """sbatch "$@" <<'EOF'
#!/bin/bash
#SBATCH --time=60
{line}echo hello
EOF
"""


@pytest.mark.parametrize(("line", "links"), [(LINE, 3), ("", 0), ("#MIRAGE --style=wait\n", 0)])
def test_a_here_document_asks_as_a_file_does(slurm: FakeSlurm, line: str, links: int) -> None:
    """A pipe in bash 5.1 and later, a file before."""
    done = subprocess.run(
        ["bash", "-c", HERE_DOCUMENT.format(line=line)],
        env=slurm.environ,
        cwd=slurm.root / "home",
        capture_output=True,
        check=False,
    )
    assert done.stdout == b"Submitted batch job 101\n"
    assert len(slurm.chains()) == min(links, 1)
    if links:
        assert Queue(slurm).run() == links
    else:
        assert slurm.calls()[0].script.endswith(b"echo hello\n")
        assert done.stderr.count(b"\n") == (1 if line else 0)


@pytest.mark.parametrize("shell", [["dash"], ["bash", "--posix"]], ids=str)
@pytest.mark.parametrize("words", [[], ["mirage:x:1"], ["an argument"]])
def test_a_carrier_without_the_words_of_a_link_runs_its_script_once(
    slurm: FakeSlurm, shell: list[str], words: list[str]
) -> None:
    slurm.script(HEAD + LINE + 'echo "$# $1 ${MIRAGE_LINK-no link}"; exit 7\n', "train.sh")
    slurm.sbatch("train.sh")
    (chain,) = slurm.chains()
    before = sorted(chain.rglob("*"))
    done = subprocess.run(
        [*shell, chain / "carrier" / "train.sh", *words],
        env=slurm.environ | {"SLURM_JOB_ID": "500"},
        cwd=slurm.root / "home",
        capture_output=True,
        check=False,
    )
    said = f"{len(words)} {(words or [''])[0]} no link\n"
    assert (done.returncode, done.stdout.decode()) == (7, said)
    assert done.stderr.count(b"\n") == 1
    assert b"the script runs once, as a plain job" in done.stderr
    assert (sorted(chain.rglob("*")), len(slurm.calls())) == (before, 1)
    assert list(Path(slurm.environ["TMPDIR"]).iterdir()) == []
