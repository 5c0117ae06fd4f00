"""A memory of what was made of objects, by which object it is."""

from __future__ import annotations

from suffice.loaders.by_identity import ByIdentity


class Asking:
    """The first number of a list, with a list of what was asked."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []

    def first(self, numbers: list[int]) -> int:
        """Of a list."""
        self.asked.append(numbers)
        return numbers[0]


def test_an_object_is_asked_once_and_an_equal_one_again() -> None:
    """Two lists that are equal are two objects, and unhashable ones may be asked."""
    asking = Asking()
    first, one, other = ByIdentity(asking.first, most=10), [1, 2], [1, 2]

    assert [first(one), first(one), first(other)] == [1, 1, 1]
    assert [numbers is one for numbers in asking.asked] == [True, False]


def test_an_object_that_is_known_stays_so_that_no_other_gets_its_place() -> None:
    """Objects that are made and let go, one after the other, would have the same id."""
    first = ByIdentity(Asking().first, most=1000)

    assert [first([number]) for number in range(100)] == list(range(100))


def test_it_forgets_all_before_there_are_too_many() -> None:
    """A long-lived process that reads catalogue after catalogue keeps the last ones."""
    asking = Asking()
    first, lists = ByIdentity(asking.first, most=2), [[number] for number in range(3)]

    for one in (*lists, lists[0]):
        first(one)

    assert [numbers[0] for numbers in asking.asked] == [0, 1, 2, 0]
