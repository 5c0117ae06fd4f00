"""The fields of the form: one table, from which the page is drawn, a request is read, and the demand's TOML is written."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.model.recipe import RECIPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

MODEL: Final = "model"
QUANTIZATION: Final = "quantization"
LANGUAGE: Final = "lang"
LONGEST_VALUE: Final = 200  # characters of a field
MOST_FIELDS: Final = 64  # of a request


class Group(StrEnum):
    """Which part of the form a field is in."""

    WORK = "work"
    LIMITS = "limits"
    POLICY = "policy"
    MODEL = "model"
    MACHINE = "machine"
    PRICE = "price"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field.

    Attributes:
        name: in the request; its label is the word ``field.<name>``.
        group: see :class:`Group`.
        choices: what can be chosen; empty: anything can be written.
        number: whether a browser shows the keys for digits.
    """

    name: str
    group: Group
    choices: tuple[str, ...] = ()
    number: bool = True

    @property
    def told_as(self) -> tuple[str, ...]:
        """What messages may call it: its own name, or the demand's key that it is a part of."""
        return (self.name, *_TOLD_AS.get(self.name, ()))

    def label_of(self, choice: str) -> str:
        """Of which word a choice is the label."""
        if self.name.endswith("_percentile"):
            return f"percentile.{choice}"
        return f"{self.name}.{choice}" if self.name == QUANTIZATION else choice


_TOLD_AS: Final = MappingProxyType(
    {
        "prompt_p50": ("prompt_tokens",),
        "prompt_p95": ("prompt_tokens",),
        "output_p50": ("output_tokens",),
        "output_p95": ("output_tokens",),
        "rate": ("requests_per_second", "requests_per_hour", "requests_per_day"),
        "memory": ("memory_gib", "memory_gb"),
    }
)
PERIODS: Final = ("requests_per_second", "requests_per_hour", "requests_per_day")
PERCENTILES: Final = ("", "50", "90", "95", "99")
MEMORY_UNITS: Final = ("memory_gib", "memory_gb")


def _fields(group: Group, *names: str, number: bool = True) -> tuple[Field, ...]:
    return tuple(Field(name=name, group=group, number=number) for name in names)


FIELDS: Final = (
    Field(name="kind", group=Group.WORK, choices=("interactive", "batch", "scheduled"), number=False),
    *_fields(Group.WORK, "prompt_p50", "prompt_p95", "output_p50", "output_p95", "rate"),
    Field(name="rate_per", group=Group.WORK, choices=PERIODS, number=False),
    *_fields(Group.WORK, "volume_per_day", "interactive_share", "concurrent_users", "window_hours"),
    *_fields(Group.LIMITS, "tokens_per_second_per_user", "ttft_s"),
    Field(name="ttft_percentile", group=Group.LIMITS, choices=PERCENTILES, number=False),
    *_fields(Group.LIMITS, "tpot_s"),
    Field(name="tpot_percentile", group=Group.LIMITS, choices=PERCENTILES, number=False),
    *_fields(Group.LIMITS, "margin"),
    Field(name=MODEL, group=Group.MODEL, number=False),
    Field(name=QUANTIZATION, group=Group.MODEL, choices=("", *RECIPE_NAMES), number=False),
    *_fields(Group.POLICY, "context_tokens", "memory"),
    Field(name="memory_unit", group=Group.POLICY, choices=MEMORY_UNITS, number=False),
    *_fields(Group.POLICY, "quality_floor", "quality_max_loss_points", "budget_per_month"),
    *_fields(Group.POLICY, "currency", number=False),
    *_fields(Group.MACHINE, "machine_price"),
    *_fields(Group.MACHINE, "machine_currency", number=False),
    *_fields(Group.MACHINE, "machine_months", "machine_watts", "machine_idle_watts", "price_per_kwh"),
    *_fields(Group.PRICE, "price_instance", number=False),
    *_fields(Group.PRICE, "price_per_hour"),
    *_fields(Group.PRICE, "price_currency", "price_region", number=False),
)
BY_NAME: Final[Mapping[str, Field]] = MappingProxyType({field.name: field for field in FIELDS})
DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "kind": "interactive",
        "prompt_p50": "400",
        "prompt_p95": "1500",
        "output_p50": "120",
        "output_p95": "300",
        "rate_per": "requests_per_day",
        "tokens_per_second_per_user": "8",
        "ttft_s": "3.0",
        "margin": "1.5",
        "memory_unit": "memory_gib",
    }
)
"""What the form holds where nobody gave a demand: the example of docs/demand.md."""


def fields_of(group: Group) -> tuple[Field, ...]:
    """The fields of one part of the form, in their order."""
    return tuple(field for field in FIELDS if field.group is group)
