"""Finds the imports inside the functions of a command, which run only with the command."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path


def import_whole(module: str) -> None:
    """Import a module of a command, then what its functions import."""
    import_module(module)
    for source, names in list_late_imports(module):
        __import__(source, fromlist=names)


def list_late_imports(module: str) -> Iterator[tuple[str, list[str]]]:
    """List the imports inside functions as (module, names), in the order of the file."""
    file = Path(str(import_module(module).__file__))
    for part in ast.parse(file.read_text(encoding="utf-8")).body:
        for node in ast.walk(part) if isinstance(part, ast.FunctionDef) else ():
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                yield node.module, [alias.name for alias in node.names]
