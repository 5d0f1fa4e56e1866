"""What the log says of a site's settings."""

import pytest
from structlog.testing import capture_logs

from mirage.errors import ClusterUnavailable
from mirage.service import site_warnings
from mirage.slurm.commands import scontrol
from tests.support.slurm.captured import answer

NAME = scontrol.parse_config(answer("scontrol-show-config.txt"))["ClusterName"]


def said(**changes: str) -> list[str]:
    values = scontrol.parse_config(answer("scontrol-show-config.txt")) | changes
    text = "\n".join(f"{key} = {value}" for key, value in values.items())
    with capture_logs() as lines:
        site_warnings.warn_about_site(lambda: scontrol.parse_site_config(text), NAME)
    return [line["event"] for line in lines]


def test_of_a_site_like_the_testbed_there_is_nothing_to_say() -> None:
    assert said() == []


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (
            "ClusterName",
            "other",
            "cluster.name is not Slurm's ClusterName: history of two clusters may be mixed",
        ),
        ("PriorityFlags", "ACCRUE_ALWAYS", "a plain dependency may do as well as Mirage here"),
        ("PriorityWeightAge", "0", "age does not count in priority here"),
        ("AccountingStoreFlags", "(null)", "accounting keeps no comments"),
    ],
)
def test_a_setting_that_bears_on_mirage_is_said(key: str, value: str, sentence: str) -> None:
    assert said(**{key: value}) == [sentence]


def test_no_answer_is_said_and_stops_nothing() -> None:
    def silent() -> scontrol.SiteConfig:
        raise ClusterUnavailable("no answer")

    with capture_logs() as lines:
        site_warnings.warn_about_site(silent, NAME)
    assert [(line["event"], line["error"]) for line in lines] == [
        ("Slurm's settings are not known", "no answer")
    ]
