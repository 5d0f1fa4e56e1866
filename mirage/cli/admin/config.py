"""`mirage config`: checks the configuration, shows the values in force, and lists every key."""

import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from mirage.cli.options import ConfigOption, JsonOption
from mirage.config import config_file
from mirage.config import settings as settings_file
from mirage.config.config_file import ConfigFault, RawConfig
from mirage.config.schema import SettingSpec, collect_specs, collect_tables
from mirage.config.settings import CONFIG_PATH, Settings
from mirage.domain.sanitize import escape_unprintable
from mirage.errors import ConfigError, InputError, format_faults

app = typer.Typer()
config_app = typer.Typer(
    no_args_is_help=True, help="Check or show the configuration, or list every key."
)
app.add_typer(config_app, name="config")

_BAD = InputError.exit_code
_URL = "database.url"

_HEAD = f"""# Configuration

`mirage config reference` writes this page from `mirage/config/settings.py`. Do not edit it.

Mirage reads one TOML file: the file of `--config`, else the file that MIRAGE_CONFIG names, else
`{CONFIG_PATH}` if it exists. You may leave out any key, and the whole file. An environment variable
overrides the key beside it in the tables below. An empty variable counts as not set. A variable
holds a list as TOML writes it, or as words with commas between them. A user's own service
(`mirage serve --user`) ignores these variables. The service reads its configuration when it starts:
restart it after a change.

- `mirage config check [FILE] [--json]` lists every fault at once: the key, its value, the allowed
  values, and the key that you may have meant. The exit code is 2 if there is a fault, and 0 if
  there are warnings alone or nothing.
- `mirage config show [--origin] [--json]` prints the values in force. With `--origin` it also
  prints where each value comes from: `default`, FILE:LINE or a variable. It never prints passwords
  and secrets.
"""
_COLUMNS = "| key | type | unit | default | allowed | variable | |\n|---|---|---|---|---|---|---|\n"


@dataclass(frozen=True, slots=True)
class ConfigCheck:
    """The faults and warnings of a configuration; `source` is the file's name, or a phrase."""

    source: str
    faults: list[ConfigFault]
    warnings: list[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the findings as `--json` prints them."""
        fields = ("key", "value", "said", "allowed", "nearest", "line", "variable")
        return {
            "source": self.source,
            "right": not self.faults,
            "faults": [{name: getattr(fault, name) for name in fields} for fault in self.faults],
            "warnings": self.warnings,
        }


@config_app.command("check")
def check_config(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Check this file instead of --config.")
    ] = None,
    *,
    user: Annotated[
        bool,
        typer.Option("--user", help="Check the file of your own service (`mirage serve --user`)."),
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the configuration and the files that it names, and list every fault at once.

    The files that it names are the model, the cluster file and the keys. The exit code is 2 if
    there is a fault, and 0 if there are warnings alone or nothing.

    With --user, or if the site has no configuration and you have one, the command checks the file
    of your own service, ~/.config/mirage/mirage.toml, which no variable overrides.
    """
    if user or _has_own_file_alone(file or config):
        raw_config, environ = settings_file.read_user_config(file or config), {}
    else:
        raw_config, environ = settings_file.read_config(file or config), dict(os.environ)
    check = check_settings(raw_config, environ)
    if as_json:
        typer.echo(json.dumps(check.to_dict(), default=str))
    else:
        _print_faults(check, raw_config.path)
    if check.faults:
        raise typer.Exit(_BAD)


def _has_own_file_alone(file: Path | None) -> bool:
    """Return whether the only configuration that anybody named is that of a user's own service."""
    own_file, site_file = settings_file.find_user_config(), settings_file.find_site_config()
    return file is None and site_file is None and own_file is not None


def check_settings(raw_config: RawConfig, environ: Mapping[str, str]) -> ConfigCheck:
    """Find every fault of the settings and of the files that they name."""
    from mirage.service import wiring

    faults: list[ConfigFault] = []
    try:
        settings = Settings.model_validate(raw_config.data)
    except ValidationError as error:
        faults = config_file.list_faults(Settings, raw_config, error)
        settings = _replace_faulty_values(raw_config, faults)
    faulty_keys = {fault.key for fault in faults}
    for key, check in _list_key_checks().items():
        if key not in faulty_keys:
            faults += _find_key_faults(key, check, settings, raw_config)
    unknown_variables = config_file.find_unknown_variables(Settings, environ)
    warnings = [] if faults else wiring.check_settings(settings)
    dropped_notes = [f"{key} is no longer a setting: remove the key" for key in raw_config.dropped]
    return ConfigCheck(
        raw_config.source, faults, [*dropped_notes, *map(str, unknown_variables), *warnings]
    )


def _replace_faulty_values(raw_config: RawConfig, faults: list[ConfigFault]) -> Settings:
    """Return the settings with defaults in place of faulty values, to check the rest too."""
    faulty_keys = {".".join(fault.key.split(".")[:2]) for fault in faults}
    try:
        return Settings.model_validate(raw_config.drop_keys(faulty_keys).data)
    except ValidationError:
        return Settings()


def _list_key_checks() -> dict[str, Callable[[Settings], object]]:
    """Return, by key, a function that uses the key's value as the service does.

    Each function raises InputError for a value that cannot be used.
    """
    from mirage.database.schema.engine import parse_url
    from mirage.service import wiring

    return {
        _URL: lambda s: parse_url(s.database_url),
        "provision.policy": lambda s: wiring.get_policy_loader(s)(s.provision.policy),
        "cluster.file": wiring.get_cluster_file,
        "auth": wiring.build_jwt_reader,
    }


def _find_key_faults(
    key: str, check: Callable[[Settings], object], settings: Settings, raw_config: RawConfig
) -> Iterator[ConfigFault]:
    try:
        check(settings)
    except InputError as error:
        spec = collect_specs(Settings).get(key)
        yield ConfigFault(
            key=key,
            said=error.to_one_line() if isinstance(error, ConfigError) else str(error),
            value=None if spec is None else spec.mask_value(_get_json_value(settings, key)),
            line=raw_config.lines.get(key),
            variable=raw_config.variables.get(key),
        )


def _print_faults(check: ConfigCheck, file: Path | None) -> None:
    for sentence in check.warnings:
        typer.echo(f"warning: {escape_unprintable(sentence)}", err=True)
    if not check.faults:
        source = file or "there is no file; defaults and environment variables are in force"
        typer.echo(f"the configuration is right: {source}")
        return
    for line in format_faults(
        check.source, [escape_unprintable(str(fault)) for fault in check.faults]
    ):
        typer.echo(line if line.startswith("  ") else f"mirage: {line}", err=True)


@config_app.command("show")
def show_config(
    *,
    origin: Annotated[
        bool, typer.Option("--origin", help="Also show where each value comes from.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the settings in force, without passwords and secrets.

    With --origin the command also shows where each value comes from: the default, a line of the
    file (FILE:LINE), or an environment variable.
    """
    raw_config = settings_file.read_config(config)
    rows = list(_list_setting_rows(config_file.validate_config(Settings, raw_config), raw_config))
    if as_json:
        typer.echo(json.dumps(_build_nested_object(rows, with_origin=origin), indent=2))
        return
    lines = [f"{key} = {json.dumps(value)}" for key, value, _ in rows]
    width = max(map(len, lines))
    for line, (_, _, source) in zip(lines, rows, strict=True):
        typer.echo(f"{line:{width}}  # {source}" if origin else line)


SettingRow = tuple[str, Any, str]
"""(key, value as in JSON, origin)."""


def _list_setting_rows(settings: Settings, raw_config: RawConfig) -> Iterator[SettingRow]:
    from mirage.database.schema.engine import mask_url

    for key, spec in collect_specs(Settings).items():
        value = spec.mask_value(_get_json_value(settings, key))
        if key == _URL:
            value = mask_url(settings.database_url)
        yield key, value, raw_config.find_origin(key)


def _get_json_value(settings: Settings, key: str) -> Any:
    """Return the value of that key as JSON has it."""
    value: Any = settings.model_dump(mode="json")
    for name in key.split("."):
        value = value[name]
    return value


def _build_nested_object(rows: list[SettingRow], *, with_origin: bool) -> dict[str, Any]:
    """Return the rows as nested tables; with origins each value is {"value", "origin"}."""
    tree: dict[str, Any] = {}
    for key, value, source in rows:
        table, _, name = key.rpartition(".")
        branch = tree.setdefault(table, {}) if table else tree
        branch[name] = {"value": value, "origin": source} if with_origin else value
    return tree


@config_app.command("reference")
def print_reference() -> None:
    """Print every key with its default and meaning, in Markdown.

    docs/reference/configuration.md is the output of this command.
    """
    typer.echo(render_reference(), nl=False)


def render_reference() -> str:
    """Render docs/reference/configuration.md: each key with its type, unit, default and
    docstring."""
    specs = collect_specs(Settings).values()
    plain = [spec for spec in specs if "." not in spec.key]
    parts = [_HEAD, "\n## Before the first table\n\n", _render_table(plain)]
    for name, section in collect_tables(Settings).items():
        introduction = f"{inspect.cleandoc(section.__doc__)}\n\n" if section.__doc__ else ""
        table_specs = [spec for spec in specs if spec.key.startswith(f"{name}.")]
        parts += [f"\n## [{name}]\n\n{introduction}", _render_table(table_specs)]
    return "".join(parts)


def _render_table(specs: Iterable[SettingSpec]) -> str:
    return _COLUMNS + "".join(_render_row(spec) for spec in specs)


def _render_row(spec: SettingSpec) -> str:
    cells = (
        f"`{spec.key.rpartition('.')[2]}`",
        spec.kind,
        spec.unit,
        "unset" if spec.default is None else f"`{json.dumps(spec.default, default=str)}`",
        spec.allowed.replace("|", "\\|"),
        f"`{spec.variable}`",
        spec.meaning,
    )
    return f"| {' | '.join(cells)} |\n"
