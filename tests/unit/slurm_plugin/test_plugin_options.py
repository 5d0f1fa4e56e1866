"""Reading sbatch's words: what is an option, what is the script."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.paths import PLUGIN


@pytest.fixture(scope="module")
def options() -> Iterator[ModuleType]:
    sys.path.insert(0, str(PLUGIN))
    yield importlib.import_module("mirage_slurm.wrapper.options")
    sys.path.remove(str(PLUGIN))


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ("job.sh -N 2", 0),
        ("-N 2 job.sh", 2),
        ("-N2 job.sh", 1),
        ("-HQ job.sh", 1),
        ("-HN 2 job.sh", 2),
        ("-k job.sh", 1),
        ("--nodes 2 job.sh", 2),
        ("--nodes=2 job.sh", 1),
        ("--parti gpu job.sh", 2),
        ("--exclusive job.sh", 1),
        ("--exclusive=user job.sh", 1),
        ("--requeue -- -odd.sh", 2),
        ("-N1 : -N2 job.sh : x", 3),
        ("--site-option=4 job.sh", 1),
        ("-", 0),
    ],
)
def test_the_script_is_the_first_word_that_is_no_option(
    options: ModuleType, words: str, script: int
) -> None:
    reading = options.read_words(words.split())
    assert reading.not_understood is None
    assert reading.script == script


@pytest.mark.parametrize("words", ["--no x", "--bogus x", "-Z x", "--hold=1 x", "--nodes", "-N"])
def test_what_sbatch_would_refuse_is_not_understood(options: ModuleType, words: str) -> None:
    assert options.read_words(words.split()).not_understood == words.split(maxsplit=1)[0]


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("-d afterok:3 -N2 x", "-N2 x"),
        ("-dafterok:3 --depend=singleton x", "x"),
        ("-HQ x", "-Q x"),
        ("-QHN 2 x", "-Q -N 2 x"),
        ("-Hk3 x", "-k3 x"),
        ("--mirage-chain 3 --hold x", "x"),
        ("-N1 : -N2 -- x --hold", "-N1 : -N2 -- x --hold"),
    ],
)
def test_options_are_taken_out_and_the_rest_is_kept(
    options: ModuleType, words: str, left: str
) -> None:
    reading = options.read_words(words.split())
    assert reading.list_words_without({"dependency", "hold"}) == left.split()


WORDS = st.lists(
    st.sampled_from(["-N", "2", "-HQ", "--", ":", "--nodes", "--time=3", "x", "-", "-k", "--wrap"])
)


@given(WORDS)
def test_taking_nothing_out_changes_nothing(options: ModuleType, words: list[str]) -> None:
    reading = options.read_words(words)
    assert reading.list_plain_words() == words
    assert reading.script is None or 0 <= reading.insert <= reading.script < len(words)
