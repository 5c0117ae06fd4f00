"""Texts and numbers of a page in its language. A number is formatted once, by the same rules as on the command line, and only its unit is said otherwise."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.decide import words as verdicts
from suffice.decide.quality import KEPT_UNIT
from suffice.decide.wording import format_value, headroom_text
from suffice.report.page import words_en, words_zh
from suffice.report.page.model import Language, Text
from suffice.units import GIGA, TERA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from suffice.decide.constraint import Constraint
    from suffice.decide.verdict import Grade

_NUMBER_AND_UNIT: Final = re.compile(r"(?P<number>[-+]?[\d.,]+(?:e[-+]?\d+)?) (?P<unit>\S.*)")
_MEANINGS: Final = {
    verdicts.CPU: "meaning.cpu",
    verdicts.CPU_THIN: "meaning.thin",
    verdicts.GPU: "meaning.gpu",
    verdicts.UNDECIDED: "meaning.undecided",
}
_WHOLES: Final = {"unknown": "unknown", "without end": "endless"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of one language.

    Example:
        >>> words_for(Language.EN)("sense.at least", value="8 tokens/s")
        'at least 8 tokens/s'
    """

    language: Language
    texts: Mapping[str, str]
    units: Mapping[str, str]

    def __call__(self, key: str, **values: str) -> str:
        """A text with its placeholders filled; only the text itself is a template, whatever the values hold."""
        return self.texts[key].format(**values)

    def localized(self, text: str) -> str:
        """What :func:`~suffice.decide.wording.format_value` wrote, with the unit in this language; no digit changes."""
        if text in _WHOLES:
            return self(_WHOLES[text])
        found = _NUMBER_AND_UNIT.fullmatch(text)
        if found is None or found["unit"] not in self.units:
            return text
        return f"{found['number']} {self.units[found['unit']]}"

    def number(self, value: float | None, unit: str) -> str:
        """A number with its unit, or "unknown"."""
        return self.localized(format_value(value, unit))

    def cell(self, value: float | None, unit: str) -> Text:
        """The same for a table, with the number behind it."""
        return Text(text=self.number(value, unit), value=value, unit=unit)

    def text(self, key: str, **values: str) -> Text:
        """A text of the page's language."""
        return Text(text=self(key, **values))

    def joined(self, parts: Iterable[str]) -> str:
        """A list of names in one sentence."""
        return self("list.and").join(parts)

    def rows(self, parts: Iterable[str]) -> str:
        """Statements about several things in one sentence."""
        return self("list.rows").join(parts)

    def sentences(self, parts: Iterable[str]) -> str:
        """Sentences one after the other."""
        return self("list.sentence").join(part for part in parts if part)

    def grade(self, grade: Grade | str) -> str:
        """How something stands; a word that is no grade stays as it is."""
        key = f"grade.{grade}"
        return self(key) if key in self.texts else str(grade)

    def basis(self, basis: str | None) -> str:
        """Where a number comes from."""
        key = f"basis.{basis}"
        return self("unknown") if basis is None else self(key) if key in self.texts else str(basis)

    def label(self, name: str) -> str:
        """Of a constraint."""
        key = f"label.{name}"
        return self(key) if key in self.texts else name

    def constraint(self, constraint: Constraint) -> str:
        """Its label, which tells what each of several users has from what a single stream has."""
        if constraint.several and constraint.name == "decode_tokens_per_second":
            return self("label.decode_each")
        return self.label(constraint.name)

    def meaning(self, verdict: str) -> str:
        """One of the four words in other words."""
        return self(_MEANINGS[verdict])

    def headroom(self, value: float | None) -> str:
        """Headroom, rounded down; see :func:`~suffice.decide.wording.headroom_text`."""
        text = headroom_text(value)
        over = text.removeprefix("over ")
        return self.localized(text) if over == text else self("headroom.over", value=over)

    def count(self, value: float, unit: str) -> str:
        """A large whole number with its unit: "1,234,567 tokens"."""
        return self.localized(f"{value:,.0f} {unit}")

    def flop_rate(self, value: float) -> str:
        """Operations per second: "124.0 GFLOP/s", "1.23 TFLOP/s"."""
        return f"{value / TERA:,.2f} TFLOP/s" if value >= TERA else f"{value / GIGA:,.1f} GFLOP/s"

    def loss(self, value: float) -> str:
        """Points that may be lost, without a sign: "1 point"."""
        return self.number(1 + value, KEPT_UNIT).removeprefix("+")

    def share(self, value: float | None, digits: int = 1) -> str:
        """A share of 1 as a percentage, or "unknown"."""
        return self("unknown") if value is None else f"{value:.{digits}%}".replace("%", " %")

    def truth(self, *, value: bool | None) -> str:
        """Yes, no or unknown."""
        return self("unknown" if value is None else "yes" if value else "no")


_LANGUAGES: Final = {
    Language.EN: Words(language=Language.EN, texts=words_en.TEXTS, units=words_en.UNITS),
    Language.ZH: Words(language=Language.ZH, texts=words_zh.TEXTS, units=words_zh.UNITS),
}


def words_for(language: Language) -> Words:
    """The words of a language."""
    return _LANGUAGES[language]
