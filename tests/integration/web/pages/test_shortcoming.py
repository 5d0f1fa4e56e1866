"""While the simulator is compiled, pages, REST and doctor say that rules decide."""

from pathlib import Path

import pytest

from mirage.cli.doctor.finding import Severity
from mirage.cli.doctor.service_checks import check_readiness
from mirage.config.settings import Settings
from tests.support.web.seeded import CHAIN, Size
from tests.support.web.serving import Site, serving

FEW = Size(12, 300, 2)
HTML = {"Accept": "text/html"}

SENTENCE = (
    "he simulator is being compiled, once after an installation: until then rules decide, "
    "without the twin and without models"
)
PATHS = ["/", f"/chains/{CHAIN}", "/queue?to=gpu&nodes=4&time=4:00:00", "/accuracy", "/impact"]


def read(site: Site, path: str) -> str:
    return site.client.raw("GET", path, headers=HTML).text


@pytest.mark.parametrize("path", PATHS)
def test_each_page_says_so_until_it_is_over(
    path: str, sqlite_template: Path, tmp_path: Path
) -> None:
    compiled = [False]
    with serving(sqlite_template, tmp_path, FEW, is_compiled=lambda: compiled[0]) as site:
        assert f'<p class="note" id="shortcoming">T{SENTENCE}.</p>' in read(site, path)
        compiled[0] = True
        assert "shortcoming" not in read(site, path), "from the cache"


def test_a_service_that_is_ready_says_what_it_cannot_do_yet(
    sqlite_template: Path, tmp_path: Path
) -> None:
    compiled = [False]
    with serving(sqlite_template, tmp_path, FEW, is_compiled=lambda: compiled[0]) as site:
        host, port = site.url.removeprefix("http://").split(":")
        settings = Settings.model_validate({"service": {"host": host, "port": int(port)}})
        answer = site.client.get("/readyz")
        assert answer.status_code == 200
        assert answer.json() == {"status": "ok", "detail": f"t{SENTENCE}"}
        verdict, told = check_readiness(settings)
        assert verdict is Severity.WARNING
        assert told.endswith(f"has read the queue lately; t{SENTENCE}")
        compiled[0] = True
        assert site.client.get("/readyz").json() == {"status": "ok"}
        assert check_readiness(settings)[0] is Severity.GOOD
