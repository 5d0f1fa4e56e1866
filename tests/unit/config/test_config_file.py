"""Where a TOML file sets each key, found again for whatever TOML there is."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mirage.config import config_file
from mirage.config.config_file import RawConfig, find_key_lines
from mirage.config.settings import Settings

TEXT = '''# the site
"log_format" = "json"

[cluster]   # its name
name = """
[not.a.table]
port = 1
"""
service.port = 3

  [ "service" ]
port = 8  # name = 3
admins = [
    "root",  # ]
    "a = b",
]
socket = '# no comment'
[polling]
pair = {queue_s = 1, nodes_s = 2}
[[tried]]
x = 1
'''


def test_the_line_of_each_key() -> None:
    assert find_key_lines(TEXT) == {
        "log_format": 2,
        "cluster": 4,
        "cluster.name": 5,
        "cluster.service": 9,
        "cluster.service.port": 9,
        "service": 11,
        "service.port": 12,
        "service.admins": 13,
        "service.socket": 17,
        "polling": 18,
        "polling.pair": 19,
        "polling.pair.queue_s": 19,
        "polling.pair.nodes_s": 19,
        "tried": 20,
        "tried.x": 21,
    }


def keys(data: dict[str, Any], under: str = "") -> set[str]:
    found = set()
    for name, value in data.items():
        found.add(f"{under}{name}")
        if isinstance(value, dict):
            found |= keys(value, f"{under}{name}.")
    return found


WORD = st.text("abc_", min_size=1, max_size=3)
VALUE = st.one_of(
    st.integers(-5, 5).map(str),
    st.text('ab=[]#"\\\n', max_size=6).map(
        lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    ),
    st.text("ab=[]#\n", max_size=9).map(lambda text: f"'''{text}'''"),
    st.lists(st.integers(0, 9), max_size=3).map(lambda v: "[\n" + ",\n".join(map(str, v)) + "\n]"),
)


@given(st.dictionaries(WORD, st.dictionaries(WORD, VALUE, max_size=3), max_size=3))
def test_every_key_of_a_file_has_a_line_that_names_it(tables: dict[str, dict[str, str]]) -> None:
    text = "".join(
        f"[{table}]\n" + "".join(f"{key} = {value}\n" for key, value in inside.items())
        for table, inside in tables.items()
    )
    found = find_key_lines(text)
    assert set(found) == keys(tomllib.loads(text))
    lines = text.split("\n")
    for key, number in found.items():
        assert lines[number - 1].lstrip("[").startswith(key.rpartition(".")[2])


def test_what_is_not_set_anywhere_is_a_default() -> None:
    given = RawConfig(
        lines={"polling.queue_s": 3}, variables={"database.url": "MIRAGE_DATABASE_URL"}
    )
    origins = [given.find_origin(key) for key in ("polling.nodes_s", "database.url")]
    assert origins == [config_file.DEFAULT, "MIRAGE_DATABASE_URL"]


def test_variables_that_set_nothing_are_told_with_what_may_be_meant() -> None:
    environ = {"MIRAGE_POLLING_QEUE_S": "3", "MIRAGE_LINK": "4", "MIRAGE_POLLING_NODES_S": "5"}
    (found,) = config_file.find_unknown_variables(Settings, environ)
    assert (found.key, found.nearest) == ("MIRAGE_POLLING_QEUE_S", "MIRAGE_POLLING_QUEUE_S")
