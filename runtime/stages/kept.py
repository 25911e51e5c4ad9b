"""A bounded cache: the entry of a key is made once, by one thread; the least recently used one goes first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """Values by key.

    most       : of values that are kept
    size       : of a value, in bytes
    most_bytes : of all but the one that was used last
    """

    def __init__(self, most: int, size: Callable[[T], int] = lambda _: 0, most_bytes: int = 1 << 62) -> None:
        self.most, self._size, self._most_bytes = most, size, most_bytes
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._making: dict[Hashable, Future[T]] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[T]:
        """Return the values, least recently used first."""
        with self._lock:
            return list(self._values.values())

    def find(self, key: Hashable) -> T | None:
        """Return the value of a key, now the most recently used; None if there is none."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key; `make` makes it if it is not there, once for all threads that wait for it.

        Raises what `make` raises, in each of them; the next call makes it anew.
        """
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            future = self._making.get(key)
            own = future is None
            if future is None:
                future = self._making[key] = Future()
        if not own:
            return future.result()
        try:
            made = make()
        except BaseException as error:
            with self._lock:
                del self._making[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._making[key]
            self._values[key] = made
            self._make_room()
        future.set_result(made)
        return made

    def _make_room(self) -> None:
        """Let go of the values that were used least recently."""
        total = sum([self._size(value) for value in self._values.values()])
        while len(self._values) > max(self.most, 1) or (total > self._most_bytes and len(self._values) > 1):
            _, value = self._values.popitem(last=False)
            total -= self._size(value)
