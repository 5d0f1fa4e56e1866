"""Takes pictures of the card "My chains": `python -m tests.support.web.ondemand_pictures OUT`.

The services are fast, slow (the card gives up before the answer comes), absent, and none of
Mirage's. The files are OUT/SERVICE-SIZE-THEME.png; slow-before is the page until the card gives up.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from mirage.database.schema import schema_migrations
from tests.integration.web.pages.conftest import chromium
from tests.support.paths import MIGRATIONS
from tests.support.web import ondemand
from tests.support.web.looking import PHONE, WIDE, visiting


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        template = folder / "template.db"
        schema_migrations.upgrade_schema(f"sqlite:///{template}", MIGRATIONS)
        dashboard = stack.enter_context(ondemand.run_dashboard(folder))
        browser = stack.enter_context(chromium())
        slow = ondemand.listen(folder / "slow", ondemand.say_nothing)
        html = ondemand.listen(folder / "html", ondemand.send(ondemand.HTML))
        services = {
            "fast": stack.enter_context(ondemand.serve_own_chains(template, folder)),
            "slow": stack.enter_context(slow).path,
            "dead": folder / "dead",
            "html": stack.enter_context(html).path,
        }
        views = [
            (service, name, size, theme)
            for service in services
            for name, size in (("wide", WIDE), ("phone", PHONE))
            for theme in ("light", "dark")
        ]
        for service, name, size, theme in views:
            dashboard.name_service(services[service])
            with visiting(browser, dashboard.url, size=size) as visitor:
                visitor.open(f"{ondemand.DASHBOARD}/?theme={theme}")
                if service == "slow":
                    visitor.page.screenshot(path=out / f"slow-before-{name}-{theme}.png")
                ondemand.read_frame(visitor)
                path = out / f"{service}-{name}-{theme}.png"
                visitor.page.screenshot(path=path, full_page=True)
                print(path)  # noqa: T201 - its output


if __name__ == "__main__":
    main(Path(sys.argv[1]))
