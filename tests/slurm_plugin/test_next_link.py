"""`mirage-link next`: of a chain of mode submit, the next link in the queue at another's word."""

from __future__ import annotations

import pytest

from tests.slurm_plugin.test_pauses import mirage_link
from tests.slurm_plugin.told import MakeChain


def test_the_next_link_is_eligible_at_once_and_put_there_once(chain: MakeChain) -> None:
    link = chain(mode="submit")
    link.has("started/1", "101")
    queue = link.slurm.root / "queue"
    queue.write_text("")
    done = mirage_link(link, "next", link.chain.name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "link 2\tjob 102\n", "")
    call = link.slurm.calls()[-1]
    assert f"--comment=mirage:{link.chain.name}:2" in call.argv
    assert not [word for word in call.argv if word.startswith("--dependency")]
    queue.write_text(f"102 mirage:{link.chain.name}:2\n")
    before = len(link.slurm.calls())
    assert mirage_link(link, "next", link.chain.name).stdout == "link 2\tjob 102\n"
    assert len(link.slurm.calls()) == before, "it stands: it is not submitted again"


def test_a_chain_with_standbys_takes_no_such_word(chain: MakeChain) -> None:
    link = chain()
    link.has("started/1", "101")
    before = len(link.slurm.calls())
    done = mirage_link(link, "next", link.chain.name)
    assert (done.returncode, "the chain is of mode standby," in done.stderr) == (1, True)
    assert len(link.slurm.calls()) == before


@pytest.mark.parametrize("marker", ["stop", "done", "paused"])
def test_a_chain_that_is_not_to_go_on_gets_no_next_link(chain: MakeChain, marker: str) -> None:
    link = chain(mode="submit")
    link.has("started/1", "101")
    link.has(marker, "a reason")
    before = len(link.slurm.calls())
    done = mirage_link(link, "next", link.chain.name)
    assert (done.returncode, f"no next link: {marker}" in done.stderr) == (1, True)
    assert len(link.slurm.calls()) == before


def test_after_the_last_link_there_is_none(chain: MakeChain) -> None:
    link = chain(links=2, mode="submit")
    link.has("started/2", "102")
    done = mirage_link(link, "next", link.chain.name)
    assert done.returncode == 1
    assert "link 3 is not to be submitted" in done.stderr
