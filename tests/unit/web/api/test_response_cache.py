"""What many ask for is made once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from mirage.errors import StoreUnavailable
from mirage.web.shared.response_cache import MAX_ENTRIES, ResponseCache


class Maker:
    """Counts what it makes."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> int:
        self.made += 1
        return self.made


def test_an_answer_is_made_once_until_what_it_depends_on_has_changed() -> None:
    kept, make = ResponseCache(), Maker()
    assert [kept.get_or_make("page", 1, make), kept.get_or_make("page", 1, make)] == [1, 1]
    assert [kept.get_or_make("page", 2, make), kept.get_or_make("page", 2, make)] == [2, 2]
    assert kept.get_or_make("another page", 2, make) == 3


def test_of_many_who_ask_at_once_one_makes_it() -> None:
    kept, make, begin = ResponseCache(), Maker(), Barrier(8)

    def ask(_: int) -> int:
        begin.wait(10)
        return kept.get_or_make("page", 1, make)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [1] * 8


def test_an_answer_that_could_not_be_made_is_tried_again_by_the_next() -> None:
    def fail() -> int:
        raise StoreUnavailable("no answer")

    kept = ResponseCache()
    with pytest.raises(StoreUnavailable):
        kept.get_or_make("page", 1, fail)
    assert kept.get_or_make("page", 1, Maker()) == 1


def test_an_answer_may_be_made_of_others() -> None:
    kept, make = ResponseCache(), Maker()
    assert (
        kept.get_or_make("page", 1, lambda: f"page of {kept.get_or_make('answer', 1, make)}")
        == "page of 1"
    )


def test_the_ones_asked_for_last_are_kept() -> None:
    kept, make = ResponseCache(), Maker()
    for number in range(MAX_ENTRIES):
        kept.get_or_make(number, 1, make)
    kept.get_or_make(0, 1, make)
    kept.get_or_make("one more", 1, make)
    made = make.made
    kept.get_or_make(0, 1, make)
    assert make.made == made
    kept.get_or_make(1, 1, make)
    assert make.made == made + 1
