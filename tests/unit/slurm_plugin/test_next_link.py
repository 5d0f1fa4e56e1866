"""`mirage-link next`: of a chain of mode submit, the next link in the queue at its user's word."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.slurm_plugin.test_pauses import mirage_link
from tests.support.slurm_plugin.editable_chain import MakeChain
from tests.support.slurm_plugin.fakes import FakeSlurm


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
    assert "link 3 cannot be submitted" in done.stderr


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Of this process, and of what it starts."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_every_link_is_submitted_with_the_umask_of_the_first(chain: MakeChain, mask: int) -> None:
    """Whoever calls sbatch: the user later, or a link."""
    with umask(mask):
        link = chain(mode="submit")
    link.has("started/1", "101")
    queue = link.slurm.root / "queue"
    with umask(0o002):
        queue.write_text("")
        assert mirage_link(link, "next", link.chain.name).returncode == 0
        link.has("paused", "a reason")
        queue.write_text("")
        assert mirage_link(link, "resume", link.chain.name).returncode == 0
        (link.chain / "started" / "1").unlink()
        queue.write_text("")
        link.set(mode="standby")
        link.run(1)
    assert [call.umask for call in link.slurm.calls()] == [f"{mask:04o}"] * 4


def test_a_umask_that_sbatch_was_told_is_that_of_the_links_too(
    chain: MakeChain, slurm: FakeSlurm
) -> None:
    """sbatch lets SLURM_UMASK go before its own."""
    slurm.environ["SLURM_UMASK"] = "0007"
    with umask(0o022):
        chain().run(1)
    told = slurm.calls()[-1]
    assert (told.umask, told.env["SLURM_UMASK"]) == ("0007", "0007")
