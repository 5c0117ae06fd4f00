"""Draws the page. Everything that is not a picture of ours is escaped by Jinja."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from suffice import __version__
from suffice.report.page.html import page_html
from suffice.report.page.model import Language
from suffice.web.early import Rests
from suffice.web.fields import LANGUAGE, MODEL, Group, fields_of
from suffice.web.sections import answer_page
from suffice.web.templates import TEMPLATES
from suffice.web.words import other, texts_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jinja2 import Template

    from suffice.report.page.model import Page
    from suffice.web.answer import Answer
    from suffice.web.choices import Models
    from suffice.web.fields import Field
    from suffice.web.form import Form
    from suffice.web.saving import Saving

_OPEN_GROUPS: Final = (Group.WORK, Group.LIMITS, Group.MODEL)
_FIRST_LANGUAGE: Final = Language.EN
_FIRST_SECTION, _SECTION_END = "<section ", "</section>"
_UNFOLDED, _FOLDED = "<details open>", "<details>"  # charts lead here, and their tables are a click away


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One form and what follows from it.

    Attributes:
        form: as it was sent.
        language: of the page.
        answer: None: it was refused.
        refused: the sentence why.
    """

    form: Form
    language: Language
    answer: Answer | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all pages of one process share.

    Attributes:
        models: that can be chosen.
        machines: of the records, for the foot of the page.
        kept: names of the demand's keys that the form has no field for.
        file: that the demand is saved to; None: it can be downloaded only.
        csrf: what a form of ours carries.
    """

    models: Models
    machines: tuple[str, ...]
    kept: tuple[str, ...]
    file: Path | None
    csrf: str


class Pages:
    """Draws the pages of one process."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting

    @property
    def file_name(self) -> str:
        """As the start named the file of the demand; "" where it named none."""
        return "" if self._setting.file is None else self._setting.file.name

    def page(self, view: View) -> str:
        """The whole page: the form and what follows from it."""
        return _template("page.html").render(
            self._shared(view.language) | self._result(view),
            groups=[self._group(group, view) for group in Group],
            kept=", ".join(self._setting.kept),
            other_query=_query(view.form, other(view.language)),
        )

    def result(self, view: View) -> str:
        """The part that a change of the form replaces."""
        return _template("result.html").render(self._shared(view.language) | self._result(view))

    def saved(self, view: View, told: str, saving: Saving | None) -> str:
        """What became of saving, and the question before a file is replaced."""
        asks = saving is not None and saving.outcome.asks
        return _template("saved.html").render(
            self._shared(view.language),
            told=told,
            asks=asks,
            seen="" if saving is None else saving.seen,
            hidden=_hidden(view),
            back=_query(view.form, view.language),
        )

    def locked(self) -> str:
        """The page that asks for the token."""
        return _template("locked.html").render(self._shared(_FIRST_LANGUAGE))

    def _group(self, group: Group, view: View) -> dict[str, Any]:
        """One part of the form; those that are rarely used are folded until they are."""
        fields = fields_of(group)
        used = any(view.form[field.name] for field in fields if not field.choices)
        return {
            "name": group.value,
            "open": group in _OPEN_GROUPS or used,
            "fields": [self._field(field, view) for field in fields],
        }

    def _field(self, field: Field, view: View) -> dict[str, Any]:
        value = view.form[field.name]
        return {
            "name": field.name,
            "value": value,
            "number": field.number,
            "options": self._options(field, value, texts_of(view.language)),
            "wrong": view.refused is not None and any(f"'{name}'" in view.refused for name in field.told_as),
        }

    def _options(self, field: Field, value: str, texts: Mapping[str, str]) -> list[tuple[str, str]]:
        """Values and labels; a value of a file that is none of the list stays."""
        if field.name == MODEL:
            return [(choice.key, choice.label) for choice in self._setting.models.listed]
        known = list(field.choices)
        if known and value not in known:
            known.append(value)
        labels = {choice: texts.get(f"choice.{field.label_of(choice)}", choice) for choice in known}
        return [(choice, labels[choice]) for choice in known]

    def _result(self, view: View) -> dict[str, Any]:
        answer = view.answer
        return {
            "refused": view.refused,
            "pending": [] if answer is None else _pending(answer, texts_of(view.language)),
            "sections": "" if answer is None else _sections(answer_page(answer, view.language)),
            "hidden": _hidden(view),
        }

    def _shared(self, language: Language) -> dict[str, Any]:
        setting = self._setting
        texts = texts_of(language)

        def word(key: str, **values: str) -> str:
            return texts[key].format(**values)

        return {
            "w": word,
            "language": language.value,
            "html_language": "zh-Hans" if language.value == "zh" else "en",
            "file": None if setting.file is None else setting.file.name,
            "exists": setting.file is not None and setting.file.exists(),
            "csrf": setting.csrf,
            "version": __version__,
            "machine": ", ".join(setting.machines) or texts["no_machine"],
        }


def _sections(page: Page) -> Markup:
    """The sections as the report prints them, without the page around them. No text can hold these marks: all are escaped."""
    if not page.sections:
        return Markup("")
    whole = page_html(page)
    start, end = whole.index(_FIRST_SECTION), whole.rindex(_SECTION_END) + len(_SECTION_END)
    return Markup(whole[start:end].replace(_UNFOLDED, _FOLDED))  # noqa: S704  # the report's printer has escaped every text


def _pending(answer: Answer, texts: Mapping[str, str]) -> list[str]:
    """What is provisional, and what is still being computed; nothing where the answer is whole."""
    if answer.is_whole:
        return []
    counts = {"machines": f"{answer.plan_machines}", "count": f"{answer.catalogue_machines:,}"}
    keys = []
    if answer.no_decision is None and answer.decision is None:
        keys.append("pending.verdict")
    elif answer.rests is not Rests.FINAL:
        keys.append(f"pending.{answer.rests.value}")
    if answer.no_plan is None and answer.plan is None:
        keys.append("pending.plan")
    elif answer.plan_machines is not None:
        keys.append("pending.some")
    return [texts[key].format(**counts) for key in keys or ["pending.load"]]


def _query(form: Form, language: Language) -> str:
    return f"{form.query}&{urlencode({LANGUAGE: language.value})}"


def _hidden(view: View) -> list[tuple[str, str]]:
    """What the form that saves carries: what was judged, and nothing that was typed since."""
    return [*view.form.key, (LANGUAGE, view.language.value)]


@cache
def _environment() -> Environment:
    return Environment(
        loader=DictLoader(dict(TEMPLATES)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _template(name: str) -> Template:
    return _environment().get_template(name)
