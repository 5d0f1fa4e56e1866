"""Rows of squeue's answer that do not read: each is left out and named, or the answer is none."""

import random

import pytest

from mirage.domain.job import JobId
from mirage.errors import ForgedAnswer, MalformedText
from mirage.slurm.commands import sinfo, squeue
from mirage.slurm.text.delimited_rows import SEPARATOR
from mirage.slurm.text.unread_rows import Unread
from tests.support.cluster.queue_texts import DAMAGES, NOW, cells, text

ROWS, DAMAGED = 100_001, 10_000


@pytest.mark.slow
def test_ten_thousand_damaged_rows_cost_ten_thousand_jobs() -> None:
    rng = random.Random(7)  # noqa: S311 - no secrets here
    # The last row stays: an answer that ends too early is none.
    bad = set(rng.sample(range(1, ROWS), DAMAGED))
    rows = []
    for number in range(1, ROWS + 1):
        row = cells(JobID=str(number), Name=rng.choice(("train", "\n7", "a\nb", "")))
        rows.append(rng.choice(DAMAGES)(row, rng) if number in bad else row)
    unread = Unread()
    queue = squeue.parse_queue(text(rows), NOW, "|", unread)
    assert set(queue.job_id.tolist()) == set(range(1, ROWS + 1)) - bad
    assert len(unread.rows) == DAMAGED
    assert queue.unread <= bad
    assert len(queue.unread) > DAMAGED * 0.8, "most ids read"


@pytest.mark.parametrize("damage", range(len(DAMAGES)))
def test_one_bad_row_costs_one_row(damage: int) -> None:
    rng = random.Random(damage)  # noqa: S311 - no secrets here
    for place in range(4):
        rows = [cells(JobID=str(number), Name="\n12\n") for number in range(1, 6)]
        rows[place] = DAMAGES[damage](rows[place], rng)
        unread = Unread()
        queue = squeue.parse_queue(text(rows), NOW, "|", unread)
        assert queue.job_id.tolist() == [n for n in range(1, 6) if n != place + 1]
        assert len(unread.rows) == 1


def _many(bad: int, total: int, *, owners: int = 1000) -> str:
    """The first `owners` rows are of as many owners, and the others begin anew with the first."""
    rows = [cells(JobID=str(n), UserID=str(1000 + n % owners)) for n in range(1, total + 1)]
    place = squeue.FIELDS.index("SubmitTime")
    for row in rows[:bad]:
        row[place] = "soon"
    return text(rows)


@pytest.mark.parametrize(("bad", "total"), [(3, 5), (11, 110), (40, 400)])
def test_rows_of_few_owners_are_left_out(bad: int, total: int) -> None:
    queue = squeue.parse_queue(_many(bad, total), NOW, "|", Unread())
    assert (len(queue), len(queue.unread)) == (total - bad, bad)


def test_one_owner_has_one_vote_whatever_the_number_of_rows() -> None:
    """A thousand odd rows of one user, and a plain one of each of nine others."""
    rows = [cells(JobID=str(n), SubmitTime="soon") for n in range(1, 1001)]
    rows += [cells(JobID=str(n), UserID=str(1000 + n)) for n in range(1001, 1010)]
    assert len(squeue.parse_queue(text(rows), NOW, "|", Unread())) == 9


def test_rows_without_an_owner_count_as_rows() -> None:
    rows = [cells(JobID=str(n)) for n in range(1, 100)]
    lost = [cells(JobID=str(n), UserID="") for n in range(100, 111)]
    assert len(squeue.parse_queue(text([*rows, *lost[1:]]), NOW, "|", Unread())) == 99
    with pytest.raises(MalformedText, match="11 of 109 rows, such as job '100'"):
        squeue.parse_queue(text([*rows[1:], *lost]), NOW, "|", Unread())


@pytest.mark.parametrize(("bad", "total"), [(4, 39), (11, 109), (41, 400), (3, 3)])
def test_many_rows_are_no_answer(bad: int, total: int) -> None:
    with pytest.raises(MalformedText, match=f"{bad} of {total} rows, such as job '1': not a num"):
        squeue.parse_queue(_many(bad, total), NOW, "|", Unread())


@pytest.mark.parametrize("lost", [1, 2, 3, 30, 120])
def test_an_answer_cut_off_at_its_end_is_none(lost: int) -> None:
    with pytest.raises(MalformedText, match="ends in the middle of a row"):
        squeue.parse_queue(_many(1, 50)[:-lost], NOW, "|", Unread())


@pytest.mark.parametrize("begins", ["\n", "\n99"])
def test_a_users_newline_hides_no_cut(begins: str) -> None:
    rows = [cells(JobID=str(number), Name=f"{begins} x", Comment=begins) for number in range(1, 9)]
    whole = text(rows)
    for lost in range(1, len(text(rows[:1]))):
        with pytest.raises(MalformedText):
            squeue.parse_queue(whole[:-lost], NOW, "|", Unread())


def test_a_row_that_does_not_read_still_says_whose_the_job_is() -> None:
    rows = [
        cells(),
        cells(UserID="1002", SubmitTime="soon"),
        *(cells(JobID=str(n)) for n in (2, 3)),
    ]
    with pytest.raises(ForgedAnswer, match="none is believed"):
        squeue.parse_queue(text(rows), NOW, "|", Unread())


def test_of_a_het_job_all_is_left_out_where_a_component_does_not_read() -> None:
    """It would be smaller than it is."""
    whole = [cells(JobID=str(n), HetJobID="4") for n in (4, 5, 6)]
    bad = cells(JobID="5", HetJobID="4", NumCPUs="many")
    unread = Unread()
    rows = text([cells(), whole[0], bad, whole[2], cells(JobID="7")])
    queue = squeue.parse_queue(rows, NOW, "|", unread)
    assert queue.job_id.tolist() == [1, 7]
    assert queue.unread == {JobId(4)}
    assert [row.name for row in unread.rows] == ["job '5'", "job '4'", "job '6'"]


def test_a_node_that_does_not_read_is_left_out() -> None:
    good = ["gpu01", "gpu", "idle", "0/16/0/16", "gpu:a100:2(S:0-1)", "gpu:a100:0(IDX:N/A)"]
    rows = [[f"gpu{n:02}", *good[1:]] for n in range(1, 13)]
    rows[3][3], rows[5][2], rows[7] = "0/16/16", "~", rows[7][:-1]
    rows[9][0], rows[10][0] = "", "gp\ufffd"
    unread = Unread()
    nodes = sinfo.parse_nodes(text(rows, SEPARATOR), unread)
    assert [node.name for node in nodes] == [f"gpu{n:02}" for n in (1, 2, 3, 5, 7, 9, 12)]
    assert len(unread.rows) == 5
    assert unread.rows[1].name == "node 'gpu04'" or unread.rows[0].name == "node 'gpu08'"
