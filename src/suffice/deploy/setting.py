"""A value of a deployment, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

Value = TypeVar("Value", bound="str | int | float")


class Origin(StrEnum):
    """On what a value rests."""

    MEASURED = "measured"  # it stands in the run record
    SIMULATED = "simulated"  # of the demand on the machine, as the verdict has it
    STATED = "stated"  # in the demand, or on the command line
    CATALOGUE = "catalogue"  # a machine to rent, as its provider describes it
    COMPUTED = "computed"  # by arithmetic from others of these
    DEFAULT = "default"  # nobody measured or said it: ours, with a reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Generic[Value]):  # Python 3.11 has no other way to write it
    """A value with its origin and the reason in words."""

    value: Value
    origin: Origin
    why: str

    @property
    def comment(self) -> str:
        """As it stands beside the value in a file."""
        return f"{self.origin.value}: {self.why}"


def measured(value: Value, why: str) -> Setting[Value]:
    """A value of the run record."""
    return Setting(value=value, origin=Origin.MEASURED, why=why)


def simulated(value: Value, why: str) -> Setting[Value]:
    """A value that the verdict found by simulation."""
    return Setting(value=value, origin=Origin.SIMULATED, why=why)


def stated(value: Value, why: str) -> Setting[Value]:
    """A value of the user's."""
    return Setting(value=value, origin=Origin.STATED, why=why)


def computed(value: Value, why: str) -> Setting[Value]:
    """A value that follows from others."""
    return Setting(value=value, origin=Origin.COMPUTED, why=why)


def default(value: Value, why: str) -> Setting[Value]:
    """A value of ours."""
    return Setting(value=value, origin=Origin.DEFAULT, why=why)
