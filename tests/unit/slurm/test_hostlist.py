"""Host lists, both ways."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.errors import MalformedText
from mirage.slurm.text.hostlist import MOST_HOSTS, compress_hostlist, expand_hostlist

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,4}[0-9]{0,4}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("gpu[01-03,07]", ["gpu01", "gpu02", "gpu03", "gpu07"]),
        ("login1,gpu[9-10]", ["login1", "gpu9", "gpu10"]),
        ("r[1-2]n[08-09]", ["r1n08", "r1n09", "r2n08", "r2n09"]),
        ("a[1-2]-ib", ["a1-ib", "a2-ib"]),
        (" n1 , n2 ", ["n1", "n2"]),
        ("n1,n1", ["n1", "n1"]),
        ("(null)", []),
        ("", []),
    ],
)
def test_every_form_is_expanded_in_the_order_written(text: str, names: list[str]) -> None:
    assert list(expand_hostlist(text)) == names


@pytest.mark.parametrize(
    "text", ["gpu[01", "gpu]1[", "gpu[3-1]", "gpu[a-b]", "gpu[]", "a,,b", f"n[0-{MOST_HOSTS}]"]
)
def test_what_is_no_host_list_is_refused(text: str) -> None:
    with pytest.raises(MalformedText):
        expand_hostlist(text)


def test_brackets_that_multiply_beyond_any_cluster_are_refused() -> None:
    with pytest.raises(MalformedText, match="more than"):
        expand_hostlist("r[1-1000]n[1-1000]")


def test_equal_neighbours_are_put_into_brackets() -> None:
    names = ["gpu08", "gpu09", "gpu10", "gpu12", "login", "n9", "n10", "n010"]
    assert compress_hostlist(names) == "gpu[08-10,12],login,n[9-10,010]"


@given(st.lists(NAMES, max_size=30))
def test_compressed_names_expand_to_themselves(names: list[str]) -> None:
    assert list(expand_hostlist(compress_hostlist(names))) == names
