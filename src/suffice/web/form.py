"""From a request to what it asks: bounded fields, the demand's TOML, and the way back from a demand's file to the form."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from suffice.errors import UsageError
from suffice.loaders.demand import parse_demand
from suffice.web.fields import (
    BY_NAME,
    DEFAULTS,
    FIELDS,
    LANGUAGE,
    LONGEST_VALUE,
    MEMORY_UNITS,
    MODEL,
    MOST_FIELDS,
    PERIODS,
    QUANTIZATION,
)
from suffice.web.toml_text import Value, table_text, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE: Final = "the form"
"""How messages about the demand call it."""
# Field of the form -> key of the demand, where one is the other.
_PLAIN: Final = (
    "volume_per_day", "interactive_share", "concurrent_users", "tokens_per_second_per_user", "ttft_s", "ttft_percentile", "tpot_s",
    "tpot_percentile", "window_hours", "context_tokens", "margin", "quality_floor", "quality_max_loss_points",
    "budget_per_month", "currency",
)  # fmt: skip
_LENGTHS: Final = ("prompt", "output")
_ALIASES: Final = MappingProxyType({"window_h": "window_hours", "context": "context_tokens"})
_ANSWER_KEYS: Final = frozenset({LANGUAGE, "csrf", "do", "seen", "wait"})  # of the page itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The fields as somebody left them: names to texts without outer blanks; an empty text is: not stated."""

    values: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        """The text of a field, empty where it was not there."""
        return self.values.get(name, "")

    @property
    def key(self) -> tuple[tuple[str, str], ...]:
        """All that it says, in one order."""
        return tuple((field.name, self[field.name]) for field in FIELDS)

    @property
    def query(self) -> str:
        """As the query of an address; empty fields are in it, since leaving one out would mean its default."""
        return urlencode([(field.name, self[field.name]) for field in FIELDS])


def read_pairs(encoded: str) -> dict[str, str]:
    """The fields of a query or of a form's body.

    Raises:
        UsageError: too many or too long ones, one of them twice, or one that this page does not have. Nothing of it is repeated in the message.
    """
    try:
        pairs = parse_qsl(encoded, keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise UsageError(f"more than {MOST_FIELDS} fields were sent; open the page again") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in BY_NAME and name not in _ANSWER_KEYS:
            raise UsageError("a field was sent that this page does not have; open the page again")
        if name in found:
            raise UsageError("a field was sent twice; open the page again")
        if len(value) > LONGEST_VALUE:
            raise UsageError(f"a field has more than {LONGEST_VALUE} characters; shorten it")
        found[name] = value.strip()
    return found


def form_of(pairs: Mapping[str, str], start: Form) -> Form:
    """The form that was sent; the one of the start where nothing was."""
    sent = {name: value for name, value in pairs.items() if name in BY_NAME}
    return start if not sent else Form(values=MappingProxyType(sent))


def demand_toml(form: Form, kept: Mapping[str, Value], model: str | None) -> str:
    """The demand as TOML.

    Args:
        form: what is asked.
        kept: keys of the file of the start that the form has no field for.
        model: reference of the model; None: it is left out.
    """
    values: dict[str, Value] = {"kind": form["kind"]}
    if model is not None:
        values["model"] = model
    for name in _LENGTHS:
        stated = {key: value_of(form[f"{name}_{key}"]) for key in ("p50", "p95") if form[f"{name}_{key}"]}
        if stated:
            values[f"{name}_tokens"] = stated["p50"] if list(stated) == ["p50"] else dict(stated)
    for field, chosen, allowed in (("rate", "rate_per", PERIODS), ("memory", "memory_unit", MEMORY_UNITS)):
        if form[field]:
            values[form[chosen] if form[chosen] in allowed else allowed[0]] = value_of(form[field])
    for name in _PLAIN:
        if form[name]:
            values[name] = form[name] if name == "currency" else value_of(form[name])
    return table_text("demand", values | dict(kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A demand's file as a form.

    Attributes:
        form: its fields; model and quantization are not among them.
        kept: keys that the form has no field for.
        model: reference of the demand's model, None when it states none.
    """

    form: Form
    kept: Mapping[str, Value]
    model: str | None


def opened(text: str, *, source: str) -> Opened:
    """The form of a demand's file.

    Raises:
        DemandError: see :func:`suffice.loaders.demand.parse_demand`.
    """
    demand = parse_demand(text, source=source)
    table = {_ALIASES.get(key, key): value for key, value in tomllib.loads(text)["demand"].items()}
    table.pop(MODEL, None)
    values = dict(dict.fromkeys((field.name for field in FIELDS), ""))
    values |= {name: DEFAULTS[name] for name in ("rate_per", "memory_unit", "margin")}
    values |= _lengths(table) | _units(table) | _limits(table)
    values["kind"] = demand.kind.value
    table.pop("kind")
    values |= {name: _typed(table.pop(name)) for name in _PLAIN if name in table}
    return Opened(form=Form(values=MappingProxyType(values)), kept=MappingProxyType(table), model=demand.model)


def _lengths(table: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _LENGTHS:
        stated = table.pop(f"{name}_tokens", {})
        lengths = stated if isinstance(stated, dict) else {"p50": stated}
        found |= {f"{name}_{key}": _typed(value) for key, value in lengths.items()}
    return found


def _units(table: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = {}
    for field, chosen, allowed in (("rate", "rate_per", PERIODS), ("memory", "memory_unit", MEMORY_UNITS)):
        key = next((key for key in allowed if key in table), None)
        if key is not None:
            found |= {field: _typed(table.pop(key)), chosen: key}
    return found


def _limits(table: dict[str, Any]) -> dict[str, str]:
    """``{ p95 = 2.0 }`` is a limit with its percentile."""
    found: dict[str, str] = {}
    for name in ("ttft", "tpot"):
        if isinstance(table.get(f"{name}_s"), dict):
            ((percentile, seconds),) = table.pop(f"{name}_s").items()
            found |= {f"{name}_s": _typed(seconds), f"{name}_percentile": percentile.removeprefix("p")}
    return found


def _typed(value: object) -> str:
    """A number as somebody would type it."""
    return value if isinstance(value, str) else f"{value!r}"


def default_form() -> Form:
    """The form where nobody gave a demand."""
    return Form(values=MappingProxyType({field.name: DEFAULTS.get(field.name, "") for field in FIELDS}))


def with_choice(form: Form, *, model: str, quantization: str) -> Form:
    """The form with a model chosen."""
    return Form(values=MappingProxyType(dict(form.values) | {MODEL: model, QUANTIZATION: quantization}))
