"""Files that no engine runs here, as their linters read them: container, compose, Ansible."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import jinja2
import pytest
import yaml

from mirage.config.settings import Settings
from tests import needed
from tests.support.mirage_process import run
from tests.support.paths import CHECKOUT
from tests.support.patient import PATIENCE_S

DEPLOY = CHECKOUT / "deploy"
ROLE = DEPLOY / "ansible" / "roles" / "mirage"
COMPOSE = DEPLOY / "container" / "compose.yaml"


def linted(*words: str, cwd: Path) -> None:
    """By a tool of this environment (pyproject.toml, extra `dev`)."""
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    tool = shutil.which(words[0], path=places)
    if tool is None:
        needed.absent(f"{words[0]} is not installed")
    done = subprocess.run(
        [tool, *words[1:]], cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_containerfile() -> None:
    linted("hadolint", "Containerfile", cwd=DEPLOY / "container")


def test_compose(tmp_path: Path) -> None:
    # Elsewhere, since where a checkout lies is nothing against it.
    shutil.copytree(COMPOSE.parent, tmp_path / "container")
    linted(*("compose-lint", "--fail-on", "medium", "compose.yaml"), cwd=tmp_path / "container")


def test_compose_builds_from_what_is_there() -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    context = (COMPOSE.parent / services["mirage"]["build"]["context"]).resolve()
    assert context == CHECKOUT
    assert (context / services["mirage"]["build"]["dockerfile"]).exists()
    text = (COMPOSE.parent / "Containerfile").read_text()
    copied = re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", text)
    sources = [name for words in copied for name in words.split()]
    assert len(sources) > 5
    assert [name for name in sources if not (context / name).exists()] == []
    ignored = (COMPOSE.parent / "Containerfile.containerignore").read_text().splitlines()
    assert [name for name in sources if f"!{name}" not in ignored] == []


@pytest.mark.parametrize("folder", ["ansible", "prometheus", "container", "kubernetes"])
def test_yaml(folder: str) -> None:
    rules = DEPLOY / ("ansible" if folder == "ansible" else "") / ".yamllint"
    linted("yamllint", "--strict", "-c", str(rules), ".", cwd=DEPLOY / folder)


def test_the_roles_configuration_is_one_that_mirage_reads(tmp_path: Path) -> None:
    text = (ROLE / "templates" / "mirage.toml.j2").read_text()
    loader = jinja2.Environment(trim_blocks=True, autoescape=False)  # noqa: S701 - TOML
    loader.filters["to_json"] = json.dumps
    loader.filters["combine"] = lambda one, other: one | other
    made = loader.from_string(text).render(
        ansible_managed="managed",
        mirage_cluster_name='a"b',
        mirage_settings={"provision": {"allow_pin": True}, "service": {"admins": ["ann"]}},
    )
    file = tmp_path / "mirage.toml"
    file.write_text(made)
    settings = Settings.model_validate(tomllib.loads(made))
    assert (settings.cluster.name, settings.provision.allow_pin) == ('a"b', True)
    assert settings.service.admins == ("ann",)
    assert run("config", "check", "--config", str(file)).code == 0


def test_the_role_brings_by_wheel_the_units_that_the_package_has() -> None:
    tasks = yaml.safe_load((ROLE / "tasks" / "wheel.yml").read_text())
    brought = {
        task["ansible.builtin.copy"]["src"].replace("{{ item }}", item).rpartition("/systemd/")[2]
        for task in tasks
        for item in task.get("loop", [""])
        if "/systemd/" in task.get("ansible.builtin.copy", {}).get("src", "")
    }
    build = (DEPLOY / "deb" / "build.py").read_text()
    assert brought == set(re.findall(r'(?m)^    "(\S+)": "usr/lib/systemd/', build))
    assert all((DEPLOY / "systemd" / unit).exists() for unit in brought)


def test_the_role_names_what_is_there() -> None:
    """Every file of the checkout that its tasks copy."""
    tasks = "".join(path.read_text() for path in sorted((ROLE / "tasks").glob("*.yml")))
    named = re.findall(r'"\{\{ role_path \}\}/([^"{]+)"', tasks)
    assert len(named) >= 2
    assert [name for name in named if not (ROLE / name).exists()] == []
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
    own_variables = set(
        re.findall(r"^ +(?:register: (?=mirage_))?(mirage_\w+)(?=:|$)", tasks, re.MULTILINE)
    )
    used = set(re.findall(r"\bmirage_\w+", tasks)) - own_variables
    used -= {"mirage_sudo", "mirage_deb", "mirage_learn_deb"}  # of 0.1.0: the role refuses them
    assert used <= set(defaults)


def run_script(script: Path, root: Path, *words: str) -> None:
    """Run a script of dpkg's below `root`, whose programs come before the host's."""
    places = re.compile(r"(?m)(^ *|[ >'])(/(?:run|var|usr/lib/mirage)/)")
    set_up = DEPLOY / "deb/files/set-up"
    text, more = (places.sub(rf"\1{root}\2", file.read_text()) for file in (script, set_up))
    programs = root / "usr/lib/mirage/bin"
    programs.mkdir(parents=True, exist_ok=True)
    for name, content in (("python3", "#!/bin/sh\n"), ("set-up", more)):
        (programs / name).write_text(content)
        (programs / name).chmod(0o755)
    subprocess.run(
        ["sh", "-c", text, script.name, *words],
        env={"PATH": f"{root}:/usr/bin:/bin"},
        check=True,
        timeout=PATIENCE_S,
    )


@pytest.mark.parametrize(
    ("active", "kept", "started"),
    [
        (["mirage.service", "mirage-backup.timer"], None, ["mirage.service mirage-backup.timer"]),
        (["mirage-report.timer"], None, ["mirage-report.timer"]),
        ([], None, []),
        ([], "", ["mirage.service"]),  # by the prerm of an older package
    ],
)
def test_an_upgrade_starts_again_what_ran(
    tmp_path: Path, active: list[str], kept: str | None, started: list[str]
) -> None:
    """Where there is no systemd: with its words as small programs, below another /run."""
    (tmp_path / "run" / "systemd" / "system").mkdir(parents=True)
    commands = {
        "systemctl": f'[ "$1" != is-active ] || case " {" ".join(active)} " in\n'
        '*" $3 "*) ;;\n*) exit 3 ;;\nesac',
        "deb-systemd-invoke": f'[ "$1" = stop ] || {{ shift; echo "$@" >>{tmp_path}/started; }}',
        "systemd-run": f'echo "$@" >>{tmp_path}/compiled',
        **dict.fromkeys(("getent", "install", "mirage-as-service"), ":"),
    }
    for name, words in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{words}\n")
        (tmp_path / name).chmod(0o755)
    if kept is not None:
        (tmp_path / "run" / "mirage-was-active").write_text(kept)
    for script, word in (("prerm", "upgrade"), ("postinst", "configure")):
        run_script(DEPLOY / "deb" / script, tmp_path, word, "0.1.0")
    (compiled,) = (tmp_path / "compiled").read_text().splitlines()
    assert compiled.endswith(" -m mirage.service.kernel_warmup")
    told = tmp_path / "started"
    assert (told.read_text().splitlines() if told.exists() else []) == started
    assert not (tmp_path / "run" / "mirage-was-active").exists()


@pytest.mark.parametrize(
    ("version", "active", "words"),
    [
        ("", False, ["enable", "start"]),
        ("0.1.0", True, ["start"]),
        ("0.1.0", False, []),
    ],
)
def test_the_nightly_look_begins_with_the_package_and_is_then_the_admins(
    tmp_path: Path, version: str, active: bool, words: list[str]
) -> None:
    (tmp_path / "run" / "systemd" / "system").mkdir(parents=True)
    commands = {
        "systemctl": f'[ "$1" != is-active ] || exit {0 if active else 3}\n'
        f'[ "$1" != enable ] || echo enable >>{tmp_path}/words',
        "deb-systemd-invoke": f'[ "$1" = stop ] || echo "$1" >>{tmp_path}/words',
    }
    for name, text in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    steps = [("prerm", "upgrade")] if version else []
    for script, word in (*steps, ("postinst", "configure")):
        run_script(DEPLOY / "deb" / "learn" / script, tmp_path, word, version)
    told = tmp_path / "words"
    assert (told.read_text().split() if told.exists() else []) == words
    assert not (tmp_path / "run" / "mirage-learn-was-active").exists()
