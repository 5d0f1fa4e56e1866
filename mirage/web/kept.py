"""Pages made once for many looks: while nothing has changed, one is as good as its like."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

MOST = 64
"""Of one process: at 40 KB each they take what one more connection would."""


class Kept:
    """The pages looked at last, by what they are of."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._pages: OrderedDict[Hashable, str] = OrderedDict()
        self._lock = threading.Lock()

    def page(self, key: Hashable, make: Callable[[], str]) -> str:
        """`key` must hold all that the page depends on. Two who ask at once may both make it."""
        with self._lock:
            known = self._pages.get(key)
            if known is not None:
                self._pages.move_to_end(key)
                return known
        made = make()
        with self._lock:
            self._pages[key] = made
            while len(self._pages) > self._most:
                self._pages.popitem(last=False)
        return made
