"""Time limits as Slurm writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirage.domain.timelimit import UNLIMITED, format_time_limit, parse_time_limit
from mirage.errors import InputError, MalformedText


@given(st.integers(min_value=0, max_value=UNLIMITED))
def test_what_is_formatted_reads_back_as_itself(seconds: int) -> None:
    assert parse_time_limit(format_time_limit(seconds)) == seconds


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30", 30 * 60),
        ("0", 0),
        ("10:30", 10 * 60 + 30),
        ("01:00:00", 3600),
        ("48:00:00", 48 * 3600),
        ("2-00:00:00", 2 * 86400),
        ("2-0", 2 * 86400),
        ("1-12", 36 * 3600),
        ("1-12:30", 36 * 3600 + 30 * 60),
        ("1-12:30:15", 36 * 3600 + 30 * 60 + 15),
        ("00:00:59", 59),
        (" 5:00 ", 5 * 60),
    ],
)
def test_the_forms_of_the_manual_are_read(written: str, seconds: int) -> None:
    assert parse_time_limit(written) == seconds


@pytest.mark.parametrize("word", ["UNLIMITED", "unlimited", "INFINITE", "infinite"])
def test_no_limit_is_a_value_of_its_own(word: str) -> None:
    assert parse_time_limit(word) == UNLIMITED


@pytest.mark.parametrize("word", ["Partition_Limit", "NOT_SET", "INVALID", "N/A", "", "Unknown"])
def test_a_limit_that_is_not_told_is_none(word: str) -> None:
    assert parse_time_limit(word) is None


@pytest.mark.parametrize("text", ["soon", "1:2:3:4", "-5", "1-", "1--2", "5m", "1.5", "1-2-3"])
def test_other_text_is_refused_with_itself_in_the_message(text: str) -> None:
    with pytest.raises(MalformedText, match="not a time limit") as refused:
        parse_time_limit(text)
    assert repr(text) in str(refused.value)
    assert isinstance(refused.value, InputError)


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0, "00:00:00"), (3661, "01:01:01"), (86400, "1-00:00:00"), (UNLIMITED, "UNLIMITED")],
)
def test_limits_are_printed_as_squeue_prints_them(seconds: int, written: str) -> None:
    assert format_time_limit(seconds) == written
