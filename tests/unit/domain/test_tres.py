"""Trackable resources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.tres import count_gpus, parse_tres
from mirage.errors import MalformedText

_COUNTED = st.sampled_from(
    ["cpu", "node", "billing", "gres/gpu", "gres/gpu:a100", "license/ansys", "fs/disk"]
)


@given(st.dictionaries(_COUNTED, st.integers(min_value=0, max_value=10**6)))
def test_counts_read_back_as_they_were_written(amounts: dict[str, int]) -> None:
    written = ",".join(f"{name}={count}" for name, count in amounts.items())
    assert parse_tres(written) == amounts


def test_memory_is_mebibytes_whatever_its_unit() -> None:
    assert parse_tres("mem=500M")["mem"] == 500
    assert parse_tres("mem=500")["mem"] == 500
    assert parse_tres("mem=2G")["mem"] == 2048
    assert parse_tres("mem=1.50G")["mem"] == 1536
    assert parse_tres("mem=1T")["mem"] == 1 << 20
    assert parse_tres("mem=2048K")["mem"] == 2
    assert parse_tres("mem=4000Mc")["mem"] == 4000


def test_an_answer_of_slurm_is_read() -> None:
    amounts = parse_tres("billing=48,cpu=48,gres/gpu=48,mem=375G,node=6")
    assert amounts == {"billing": 48, "cpu": 48, "gres/gpu": 48, "mem": 384000, "node": 6}


@pytest.mark.parametrize("nothing", ["", " "])
def test_no_resources_is_an_empty_list(nothing: str) -> None:
    assert parse_tres(nothing) == {}


@pytest.mark.parametrize("text", ["cpu", "cpu=", "cpu=many", "cpu=4;mem=5", "mem=5X"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(MalformedText, match="not a TRES list"):
        parse_tres(text)


def test_gpus_are_counted_once_where_slurm_lists_them_twice() -> None:
    assert count_gpus({"gres/gpu": 8, "gres/gpu:a100": 8}) == 8


def test_gpus_of_several_types_are_added() -> None:
    assert count_gpus({"gres/gpu:a100": 4, "gres/gpu:v100": 2}) == 6


def test_other_resources_are_no_gpus() -> None:
    assert count_gpus({"cpu": 4, "gres/gpumem": 3}) == 0
