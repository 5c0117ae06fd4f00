"""What a text session and its worker say to each other, as JSON values; the lines themselves are those of :mod:`suffice.measure.engine.protocol`."""

from __future__ import annotations

import dataclasses
from typing import Any

from suffice.measure.engine import protocol
from suffice.measure.engine.text_plan import Limits, Part
from suffice.measure.engine.text_seam import Prompt, TextAnswer, TextFacts, VocabularyFacts
from suffice.model.answers import FinishReason


def facts_from_json(values: dict[str, Any]) -> TextFacts:
    """Facts from ``dataclasses.asdict`` of some that went through JSON."""
    vocabulary = {**values["vocabulary"], "end_tokens": tuple(values["vocabulary"]["end_tokens"])}
    return TextFacts(
        **{
            **values,
            "session": protocol.facts_from_json(values["session"]),
            "vocabulary": VocabularyFacts(**vocabulary),
        }
    )


def limits_from_json(values: dict[str, Any]) -> Limits:
    """Limits from ``dataclasses.asdict`` of some that went through JSON."""
    return Limits(**values)


def prompt_to_json(index: int, prompt: Prompt) -> list[Any]:
    """A prompt and its number."""
    return [index, prompt.tokens, prompt.max_tokens, prompt.stops]


def prompt_from_json(values: list[Any]) -> tuple[int, Prompt]:
    """The reverse of :func:`prompt_to_json`."""
    index, tokens, max_tokens, stops = values
    return index, Prompt(tokens=tuple(tokens), max_tokens=max_tokens, stops=tuple(stops))


def answer_from_json(values: dict[str, Any]) -> TextAnswer:
    """An answer from ``dataclasses.asdict`` of one that went through JSON."""
    return TextAnswer(
        index=values["index"],
        tokens=tuple(values["tokens"]),
        text=values["text"],
        finish=FinishReason(values["finish"]),
    )


def part_to_json(part: Part) -> dict[str, Any]:
    """A part of a question."""
    return dataclasses.asdict(part)


def part_from_json(values: dict[str, Any]) -> Part:
    """The reverse of :func:`part_to_json`."""
    return Part(
        question=values["question"],
        first_choice=values["first_choice"],
        prefix=tuple(values["prefix"]),
        choices=tuple(tuple(choice) for choice in values["choices"]),
        ends_question=values["ends_question"],
    )
