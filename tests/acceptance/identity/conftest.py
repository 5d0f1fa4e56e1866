"""One site for all tests of this folder: bringing it up is what costs."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.identity.site import SETTINGS, Site
from tests.support.slurm_testbed import Testbed, has_auth_slurm

AUTHS = ["munge", "slurm"] if has_auth_slurm() else ["munge"]
"""What identifies users: MUNGE, and Slurm's own sockets where this release has them."""


@pytest.fixture(scope="package", params=AUTHS)
def site(slurm_host: Testbed, request: pytest.FixtureRequest) -> Iterator[Site]:
    """Its service runs as the account mirage, an Operator; alice and bob have a chain each."""
    made = Site.set_up(slurm_host, replace(SETTINGS, auth=request.param))
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
