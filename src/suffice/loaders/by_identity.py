"""What was made of objects that stay, remembered by which object it is: to hash a whole machine of the catalogue takes as long as the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

K = TypeVar("K")
V = TypeVar("V")


class ByIdentity(Generic[K, V]):
    """A function of immutable objects with a memory of so many of them.

    Example:
        >>> lengths = ByIdentity(len, most=2)
        >>> word = "catalogue"
        >>> lengths(word), lengths(word)
        (9, 9)
    """

    def __init__(self, make: Callable[[K], V], most: int) -> None:
        self._make, self._most = make, most
        self._known: dict[int, tuple[K, V]] = {}  # each object is kept, so that no other one gets its id

    def __call__(self, thing: K) -> V:
        """The value of an object, made when it is first asked for."""
        known = self._known.get(id(thing))
        if known is not None:
            return known[1]
        value = self._make(thing)
        if len(self._known) >= self._most:
            self._known.clear()
        self._known[id(thing)] = (thing, value)
        return value
