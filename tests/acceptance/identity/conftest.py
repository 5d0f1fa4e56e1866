"""One site for all tests of this folder: bringing it up is what costs."""

from collections.abc import Iterator

import pytest

from tests.support.identity.site import Site
from tests.support.slurm_testbed import Testbed


@pytest.fixture(scope="package")
def site(slurm_host: Testbed) -> Iterator[Site]:
    """Its service runs as the account mirage, an Operator; alice and bob have a chain each."""
    made = Site.set_up(slurm_host)
    try:
        made.start_service()
        yield made
    finally:
        made.strike()


@pytest.fixture(scope="package")
def chains(site: Site) -> dict[str, str]:
    """The id of alice's chain, and of bob's, once the service knows two links of each."""
    made = {user: site.submit_chain(user) for user in ("alice", "bob")}
    for user, chain_id in made.items():
        site.testbed.wait_until(
            lambda c=chain_id, u=user: len(site.links(c, u)) == 2,  # type: ignore[misc]
            30,
            f"two links of {user}'s chain",
        )
    return made
