"""Takes pictures of every page: `python -m tests.support.web.screenshots OUT [NAME...]`.

The pages are those of the databases of seeded.py, in light and dark colours and as wide as a phone.
The files are OUT/NAME-SIZE-LOOK.png.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from mirage.database.schema import schema_migrations
from tests.integration.web.pages.conftest import chromium
from tests.integration.web.pages.shown import PAGES
from tests.support.paths import MIGRATIONS
from tests.support.web.looking import PHONE, WIDE, visiting
from tests.support.web.seeded import SIZES
from tests.support.web.serving import Site, serving

LOOKS = (("light", "light", WIDE), ("dark", "dark", WIDE), ("phone", "light", PHONE))
FEWER = {"empty": ("light",), "one": ("light",), "full": ("light", "dark", "phone")}
"""By size of the database: the looks that are taken."""


def take_pictures(browser: Browser, site: Site, size: str, out: Path, page_names: set[str]) -> None:
    pages = [page for page in PAGES if not page_names or page.name in page_names]
    for page in pages:
        if page.needs_chain and SIZES[size].chains == 0:
            continue
        cookie = site.sessions[page.who] if page.who else None
        for look_name, scheme, window in LOOKS:
            if look_name not in FEWER[size]:
                continue
            with visiting(
                browser,
                site.url,
                cookie=cookie,
                scheme="dark" if scheme == "dark" else "light",
                size=window,
            ) as visitor:
                visitor.open(page.path)
                path = out / f"{page.name}-{size}-{look_name}.png"
                visitor.page.screenshot(path=path, full_page=True)
                print(path)  # noqa: T201 - its output


def main(out: Path, page_names: set[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        template = Path(folder) / "template.db"
        schema_migrations.upgrade_schema(f"sqlite:///{template}", MIGRATIONS)
        for name, size in SIZES.items():
            place = Path(folder) / name
            place.mkdir()
            with serving(template, place, size) as site:
                take_pictures(browser, site, name, out, page_names)


if __name__ == "__main__":
    main(Path(sys.argv[1]), set(sys.argv[2:]))
