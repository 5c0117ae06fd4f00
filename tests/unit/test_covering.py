"""What was found out of one machine, said of others."""

from __future__ import annotations

from dataclasses import dataclass

from suffice.decide.covering import Covering


@dataclass(frozen=True)
class Fast:
    """A machine of some speed."""

    speed: float

    def covers(self, other: Fast) -> bool:
        """Faster or as fast."""
        return self.speed >= other.speed


def found(known: Covering[Fast, str], speed: float, needed: float, looked_at: list[float]) -> tuple[Fast, str] | None:
    """Whether a speed is enough, which is looked up where it is not known."""

    def find() -> str | None:
        looked_at.append(speed)
        return f"{speed:g} is enough" if speed >= needed else None

    return known.found(Fast(speed), find)


def test_a_faster_one_is_enough_and_a_slower_one_is_not_without_a_look() -> None:
    """The first that is known stands for it."""
    known, looked_at = Covering[Fast, str](), list[float]()

    answers = [found(known, speed, 5.0, looked_at) for speed in (6.0, 4.0, 7.0, 3.0, 5.0)]

    assert looked_at == [6.0, 4.0, 5.0]
    enough = (Fast(6.0), "6 is enough")
    assert answers == [enough, None, enough, None, (Fast(5.0), "5 is enough")]
