"""What the benchmark of returns says of the sentences that foretold a start."""

from __future__ import annotations

from benchmarks.return_pairs import Sentence, format_sentences


def test_a_start_outside_its_interval_is_counted_by_side_and_named() -> None:
    lines = format_sentences(
        [
            Sentence("link 2 of a", 600, 900, 1200, 630),
            Sentence("link 3 of a", 600, 900, 1200, 1259),  # the same minute
            Sentence("link 4 of a", 600, 900, 1200, 1500),
            Sentence("link 5 of a", 600, 900, 1200, 420),
            Sentence("link 6 of a", 600, 600, 600, 840),  # it waits for no nodes
        ]
    )
    assert lines == [
        '"expected to start", with an interval: 4 hand-overs, 2 inside, 1 before, 1 after, '
        "median error 7.0 min, largest 10.0 min",
        "- link 4 of a: 4.0 min after an interval of 10 min",
        "- link 5 of a: 2.0 min before an interval of 10 min",
        '"expected to start", an instant alone: 1 hand-overs, 0 inside, 0 before, 1 after, '
        "median error 4.0 min, largest 4.0 min",
        "- link 6 of a: 3.0 min after an interval of 0 min",
    ]
