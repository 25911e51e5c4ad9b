"""Bounded caches: the entry of a key is made once, by one thread; the least recently used one goes first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from itertools import count
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Budget(Generic[T]):
    """Memory that several caches share.

    size       : of a value, in bytes
    most_bytes : of the values of all caches together, but for the one that was used last
    lock       : of all these caches
    """

    def __init__(self, size: Callable[[T], int] = lambda _: 0, most_bytes: int = 1 << 62) -> None:
        self._size, self._most_bytes = size, most_bytes
        self.lock = Lock()
        self.clock = count()
        self._caches: list[Kept[T]] = []

    def add(self, cache: "Kept[T]") -> None:
        """Let a cache share the memory."""
        with self.lock:
            self._caches.append(cache)

    def make_room(self) -> None:
        """Let go of the values that were used least recently, in any cache. The caller holds the lock."""
        total = sum([self._size(value) for cache in self._caches for value in cache.held()])
        while total > self._most_bytes:
            filled = [cache for cache in self._caches if len(cache)]
            if sum(map(len, filled)) == 1:
                return
            total -= self._size(min(filled, key=lambda cache: cache.oldest()).pop())


class Kept(Generic[T]):
    """Values by key.

    most   : of values that are kept
    budget : memory that it shares with other caches
    """

    def __init__(self, most: int, budget: Budget[T] | None = None) -> None:
        self.most = most
        self._budget: Budget[T] = Budget() if budget is None else budget
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self._used: dict[Hashable, int] = {}
        self._making: dict[Hashable, Future[T]] = {}
        self._lock, self._clock = self._budget.lock, self._budget.clock
        self._budget.add(self)

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> list[T]:
        """Return the values, least recently used first."""
        with self._lock:
            return list(self._values.values())

    def clear(self) -> None:
        """Let go of all values."""
        with self._lock:
            self._values.clear()
            self._used.clear()

    def held(self) -> Iterable[T]:
        """Return the values; the caller holds the lock."""
        return self._values.values()

    def oldest(self) -> int:
        """Return the time at which the least recently used value was used; the caller holds the lock."""
        return self._used[next(iter(self._values))]

    def pop(self) -> T:
        """Let go of the least recently used value, and return it; the caller holds the lock."""
        key, value = self._values.popitem(last=False)
        del self._used[key]
        return value

    def find(self, key: Hashable) -> T | None:
        """Return the value of a key, now the most recently used; None if there is none."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
                self._used[key] = next(self._clock)
            return found

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key; `make` makes it if it is not there, once for all threads that wait for it.

        Raises what `make` raises, in each of them; the next call makes it anew.
        """
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                self._used[key] = next(self._clock)
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
            self._used[key] = next(self._clock)
            while len(self._values) > max(self.most, 1):
                self.pop()
            self._budget.make_room()
        future.set_result(made)
        return made
