"""What a rule wrote in English, in the page's language where the page has words for all of it; else as it is, marked as English."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

from suffice.decide.verdict import Grade
from suffice.report.page import words_en
from suffice.report.page.language import Language
from suffice.report.page.model import Text, english
from suffice.report.page.phrase_book import ADVICE, NOTES
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.report.page.words import Words

_NUMBER: Final = r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
_LABELS: Final = {text: key for key, text in words_en.TEXTS.items() if key.startswith("label.")}
_KINDS: Final = {
    "n": _NUMBER,
    "value": rf"{_NUMBER} [^\s,;()]+|without end",
    "label": "|".join(re.escape(text) for text in _LABELS),
    "metric": "TTFT|TPOT",
    "slots": r"\d+ slots?",
    "any": ".+?",
}
_VALUE: Final = rf"{_NUMBER} [A-Za-z/]+(?: %)?"
_HEADS: Final = {
    "Enough": "enough",
    "Not enough": "not enough",
    "Not settled": "open",
    "Reaches the requirement, but not the margin of ": "thin",
}
# Of suffice.decide.wording.grade_sentence, with the note behind it.
_GRADED: Final = re.compile(
    rf"(?:Not settled: as measured it is (?P<weak>{'|'.join(Grade)}), "
    rf"|(?P<head>Enough|Not enough|Not settled)(?: with margin (?P<margin>{_NUMBER}))?: "
    rf"|(?P<thin>Reaches the requirement, but not the margin of )(?P<factor>{_NUMBER}): )"
    rf"(?P<label>{_KINDS['label']}) (?P<untried>at least )?(?P<point>{_VALUE})"
    r" \((?:(?P<range>[^()]+), )?(?P<basis>measured elsewhere|[a-z]+)\)"
    rf" against (?P<sense>at least|at most) (?P<required>{_VALUE})"
    rf"(?:, headroom (?P<least>at least )?(?P<headroom>{_NUMBER})(?: \((?P<low>{_NUMBER}) at the low end\))?)?"
    r"(?(weak), but that is only a lower bound)\."
    r"(?: \((?P<note>[^()]+)\.\))?(?= |$)"
)
_RANGES: Final = {
    "range.both": re.compile(rf"(?P<low>{_VALUE}) to (?P<high>{_VALUE})"),
    "range.no_high": re.compile(rf"at least (?P<low>{_VALUE}), no upper end known"),
    "range.no_low": re.compile(rf"at most (?P<high>{_VALUE}), no lower end known"),
    "range.untried_low": re.compile(rf"at least (?P<low>{_VALUE}) at the low end, more was not tried"),
    "range.untried": re.compile("more was not tried"),
}
# Of suffice.decide.verdict.
_BUSY_SO: Final = {"the speeds are lower bounds": "bounds", "a quiet machine may give another answer": "open"}
_BUSY: Final = re.compile(rf"Measured on a busy machine \((?P<why>.+?)\): (?P<so>{'|'.join(_BUSY_SO)})\.(?= |$)")
_PLACEHOLDER: Final = re.compile(r"\{([a-z]+)(\d?)\}")
_REST: Final = "{rest}"
_GREEDY: Final = "(?P<rest>.+)"
_SENTENCES: Final = re.compile(r" |$")
_PARTS: Final = re.compile(r"[;,] |$")
_LONGEST_CHARACTERS: Final = 2_000
"""Of a text that is looked up: what the rules write is far shorter, and a file may hold anything."""


def told(text: str, words: Words) -> Text:
    """A text of a rule as the page says it."""
    line = one_line(text)
    found = translated(line, words)
    return english(line) if found is None else Text(text=found)


def translated(line: str, words: Words) -> str | None:
    """A line of sentences, or of parts between commas and semicolons, in a language other than English; None where a part is not known."""
    if words.language is Language.EN or len(line) > _LONGEST_CHARACTERS:
        return None
    return _joined(line, "advice", words) or _joined(line, "notes", words)


def told_reason(text: str, words: Words) -> str | None:
    """A reason of an option, as :func:`suffice.decide.wording.grade_sentence` and the plan write it; None where a part is not known."""
    line, parts = one_line(text).strip(), []
    if words.language is Language.EN or len(line) > _LONGEST_CHARACTERS:
        return None
    while line:
        graded, busy = _GRADED.match(line), _BUSY.match(line)
        if graded is not None:
            said, rest = _graded(graded, words), line[graded.end() :]
        elif busy is not None:
            said, rest = _busy(busy, words), line[busy.end() :]
        else:
            sentence, _, rest = line.partition(". ")
            said = translated(f"{sentence.removesuffix('.')}.", words)
        if said is None:
            return None
        parts.append(said)
        line = rest.strip()
    return words.sentences(parts)


def _busy(found: re.Match[str], words: Words) -> str | None:
    """That the machine was busy, why, and what follows."""
    why = _joined(found["why"], "notes", words)
    return None if why is None else words(f"why.busy.{_BUSY_SO[found['so']]}", why=why)


def _graded(found: re.Match[str], words: Words) -> str | None:
    """How a constraint stands, in the words of :mod:`suffice.report.page.why`."""
    what, margin = words(_LABELS[found["label"]]), found["margin"]
    sense = words(f"sense.{found['sense']}", value=words.localized(found["required"]))
    available = _available(found, words)
    if available is None:
        return None
    headroom = ""
    if found["headroom"]:
        over = words("why.headroom.least", headroom=found["headroom"]) if found["least"] else found["headroom"]
        low = found["low"]
        headroom = (
            words("why.headroom", headroom=over) if low is None else words("why.headroom.low", headroom=over, low=low)
        )
    said = words(
        "why.weakened" if found["weak"] else f"why.{_HEADS[found['head'] or found['thin']]}",
        grade=words.grade(Grade(found["weak"] or Grade.OPEN)),
        margin="" if margin is None else words("why.margin", factor=margin),
        factor=found["factor"] or "",
        told=words("why.known", what=what, available=available),
        required=sense,
        headroom=headroom,
    )
    if found["note"] is None:
        return said
    note = _joined(found["note"], "notes", words)
    return None if note is None else words.sentences((said, words("brackets", outside="", inside=note)))


def _available(found: re.Match[str], words: Words) -> str | None:
    """What is there with its range and basis."""
    point, range_, basis = words.localized(found["point"]), found["range"], words.basis(found["basis"])
    if found["untried"]:
        point = words("quantity.least", point=point)
    if range_ is None:
        return words("quantity.sure", point=point, basis=basis)
    for key, pattern in _RANGES.items():
        ends = pattern.fullmatch(range_)
        if ends is not None:
            told_range = words(key, **{name: words.localized(end) for name, end in ends.groupdict().items()})
            return words("quantity.range", point=point, range=told_range, basis=basis)
    return None


def _joined(line: str, kind: str, words: Words) -> str | None:
    """Each part by the first phrase that it is whole, one after the other."""
    separator = _SENTENCES if kind == "advice" else _PARTS
    told_, place = "", 0
    while place < len(line):
        for pattern, chinese in _book(kind):
            found = pattern.match(line, place)
            end = None if found is None else separator.match(line, found.end())
            if found is not None and end is not None:
                told_ += _filled(chinese, found, words) + {"; ": "；", ", ": "，"}.get(end[0], "")
                place = end.end()
                break
        else:
            return None
    return told_ or None


@cache
def _book(kind: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns with what is said for them; the longest English first, so that no phrase hides one that begins like it."""
    pairs: Sequence[tuple[str, str]] = ADVICE if kind == "advice" else NOTES
    ends = r"(?= |$)" if kind == "advice" else r"(?=[;,] |$)"
    ordered = sorted(pairs, key=lambda pair: len(pair[0]), reverse=True)
    return tuple(
        (re.compile(_pattern(plain.removesuffix(_REST)) + (_GREEDY if plain.endswith(_REST) else "") + ends), chinese)
        for plain, chinese in ordered
    )


def _pattern(template: str) -> str:
    parts, place = [], 0
    for found in _PLACEHOLDER.finditer(template):
        parts += [re.escape(template[place : found.start()]), f"(?P<{found[1]}{found[2]}>{_KINDS[found[1]]})"]
        place = found.end()
    return "".join([*parts, re.escape(template[place:])])


def _filled(template: str, found: re.Match[str], words: Words) -> str:
    return _PLACEHOLDER.sub(lambda one: _said(one[1], found[f"{one[1]}{one[2]}"], words), template)


def _said(kind: str, text: str, words: Words) -> str:
    """A value of a phrase; digits stay as they are."""
    if kind == "value":
        return words.localized(text)
    if kind == "label":
        return words(_LABELS[text])
    if kind == "slots":
        return (
            words("slots.one") if text.startswith("1 ") else words("slots.more", slots=text.split(" ", maxsplit=1)[0])
        )
    return text
