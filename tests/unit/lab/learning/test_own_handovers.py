"""Which of the site's own hand-overs the models are judged on."""

from collections import Counter

from mirage.database.chains.chains import HandoverRow
from mirage.lab.learning.chain_shapes import ChainShape
from mirage.lab.learning.settling import select_own_handovers
from tests.support.chains import make_chain, make_link

SHAPE = ChainShape(partition="gpu", nodes=2, time_limit_s=7200)


def build_row(uid: int, start: int, *, nodes: int = 2) -> HandoverRow:
    asked = {"partition": "gpu", "nodes": nodes, "time_limit_s": 7200}
    before = make_link(str(uid), 1, 1, start=start, end=start + 7200, **asked)
    after = make_link(str(uid), 2, 2, start=start + 7200, **asked)
    return HandoverRow(make_chain(str(uid), uid=uid), before, after)


def test_one_owner_with_many_chains_does_not_displace_the_others() -> None:
    few = [build_row(1, start) for start in (10, 20)]
    many = [build_row(2, start) for start in range(100, 150)]
    own = select_own_handovers([*few, *many], [SHAPE], since=0, until=1000, most=6)[SHAPE]
    assert Counter(own.values()) == {1: 2, 2: 4}
    assert sorted(own)[2:] == [146, 147, 148, 149], "each owner's newest"


def test_chains_of_other_shapes_and_days_take_no_place() -> None:
    fitting = [build_row(1, 10), build_row(2, 20)]
    others = [build_row(3, start, nodes=1) for start in range(30, 40)]
    later = [build_row(4, 100)]
    own = select_own_handovers([*fitting, *others, *later], [SHAPE], since=10, until=100, most=2)
    assert own == {SHAPE: {10: 1, 20: 2}}
