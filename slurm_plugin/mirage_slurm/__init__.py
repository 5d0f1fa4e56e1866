"""Mirage's part on login nodes and in jobs: standard library, Python 3.6. The folder around it has programs.

For programs of users: `submit`, `Chain`, `Link` and `ChainError` (docs/use/chain-from-python.md). They
are loaded at their first use, because each sbatch imports this package.
"""

import sys

TYPE_CHECKING = False  # a type checker takes it for True; `typing` costs each sbatch milliseconds
if TYPE_CHECKING:
    from mirage_slurm.api.chain import Chain, ChainError, Link
    from mirage_slurm.api.submission import submit

__all__ = ["Chain", "ChainError", "Link", "submit"]


class _Package(type(sys)):  # type: ignore[misc]
    """This package with names that are loaded at their first use: PEP 562 for Python 3.6 too."""

    def __getattr__(self, name: str) -> object:
        if name not in __all__:
            raise AttributeError("module %r has no attribute %r" % (self.__name__, name))
        from mirage_slurm.api import chain, submission

        return getattr(submission if name == "submit" else chain, name)


sys.modules[__name__].__class__ = _Package
