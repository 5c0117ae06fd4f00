"""Traces of arrivals: the Mooncake form, the Azure form, and a plain one."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import UsageError
from suffice.load.prompts import MAX_TOKENS, block_words, made_prompt, read_jsonl
from suffice.load.settings import MAX_REQUESTS, Ask
from suffice.loaders.files import read_small_file
from suffice.report.tables import one_line, shortened
from suffice.units import MIB, MILLISECONDS_PER_SECOND, SECONDS_PER_DAY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_TRACE_BYTES: Final = 256 * MIB
BLOCK_TOKENS: Final = 512  # of a prompt to one of the hash_ids in Mooncake's published traces
_AZURE: Final = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_LONGEST_S: Final = 366 * SECONDS_PER_DAY
_SHOWN_CHARACTERS: Final = 40
_FRACTION_DIGITS: Final = 6  # what datetime reads; Azure writes seven


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One arrival of a trace; ``at_s`` counts from the trace's first.

    ``blocks`` are Mooncake's ``hash_ids``: the prompt in pieces of 512 tokens, the same in all prompts that have the same number.
    """

    at_s: float
    prompt_tokens: int | None
    output_tokens: int | None
    prompt: str | None = None
    blocks: tuple[int, ...] = ()


def load_trace(path: Path) -> tuple[Arrival, ...]:
    """The arrivals of a file in order of time, the first at 0.

    JSON lines: ``timestamp`` (ms), ``input_length``, ``output_length`` (Mooncake), or ``arrival_s`` with ``prompt`` or
    ``prompt_tokens`` and ``output_tokens``. CSV: ``TIMESTAMP,ContextTokens,GeneratedTokens`` (Azure).

    Raises:
        UsageError: the file or one of its lines cannot be used.
    """
    text = read_small_file(path, limit_bytes=_MAX_TRACE_BYTES, error=UsageError)
    first = text.lstrip().split("\n", 1)[0]
    if all(name in first for name in _AZURE) and not first.startswith("{"):
        arrivals = _azure(text, path)
    else:
        arrivals = [_from_object(document, f"{path} line {number}") for number, document in read_jsonl(path)]
    if not arrivals:
        raise UsageError(f"{path} holds no arrivals")
    if len(arrivals) > MAX_REQUESTS:
        raise UsageError(f"{path} holds {len(arrivals)} arrivals, more than the {MAX_REQUESTS} that one run may send")
    arrivals.sort(key=lambda arrival: arrival.at_s)
    start_s = arrivals[0].at_s
    if arrivals[-1].at_s - start_s > _LONGEST_S:
        raise UsageError(
            f"{path}: its arrivals span more than a year; 'timestamp' is in milliseconds, 'arrival_s' in seconds"
        )
    return tuple(replace(arrival, at_s=arrival.at_s - start_s) for arrival in arrivals)


def trace_asks(arrivals: tuple[Arrival, ...], seed: int | str) -> Iterator[Ask]:
    """The requests of a trace: its own prompts, made ones of its blocks, or made ones of its lengths that share no prefix."""
    for index, arrival in enumerate(arrivals):
        if arrival.prompt is not None:
            yield Ask(index=index, prompt=arrival.prompt, output_tokens=arrival.output_tokens)
        else:
            length = arrival.prompt_tokens or 1
            yield made_prompt(index, length, arrival.output_tokens, seed, _shared_words(arrival.blocks, length, seed))


def _shared_words(blocks: tuple[int, ...], length: int, seed: int | str) -> tuple[str, ...]:
    """The words of a prompt's blocks, a word for a token, as far as the prompt reaches."""
    words: list[str] = []
    for block in blocks:
        words += block_words(block, min(BLOCK_TOKENS, length - len(words)), seed)
        if len(words) >= length:
            break
    return tuple(words)


def _azure(text: str, path: Path) -> list[Arrival]:
    arrivals = []
    reader = csv.DictReader(io.StringIO(text.lstrip()))
    for row in reader:
        where = f"{path} line {reader.line_num}"
        arrivals.append(
            Arrival(
                at_s=_moment_s(row.get("TIMESTAMP"), where),
                prompt_tokens=_length(row.get("ContextTokens"), "ContextTokens", where),
                output_tokens=_length(row.get("GeneratedTokens"), "GeneratedTokens", where),
            )
        )
    return arrivals


def _moment_s(text: str | None, where: str) -> float:
    whole, _, fraction = (text or "").strip().partition(".")
    try:
        moment = datetime.fromisoformat(f"{whole}.{fraction[:_FRACTION_DIGITS]:0<6}" if fraction else whole)
    except ValueError as error:
        raise UsageError(f"{where}: {(text or '')[:40]!r} is not a time") from error
    return moment.timestamp() if moment.tzinfo else (moment - datetime(1970, 1, 1)).total_seconds()  # noqa: DTZ001  # differences only


def _from_object(document: dict[str, Any], where: str) -> Arrival:
    if "timestamp" in document:
        return Arrival(
            at_s=_number(document["timestamp"], "timestamp", where) / MILLISECONDS_PER_SECOND,
            prompt_tokens=_length(document.get("input_length"), "input_length", where),
            output_tokens=_length(document.get("output_length"), "output_length", where),
            blocks=_blocks(document.get("hash_ids"), where),
        )
    if "arrival_s" not in document:
        raise UsageError(f"{where} has neither 'timestamp' (Mooncake, ms) nor 'arrival_s'")
    prompt = document.get("prompt")
    if prompt is not None and not (isinstance(prompt, str) and prompt):
        raise UsageError(f"{where}: 'prompt' is not a text")
    output = document.get("output_tokens")
    return Arrival(
        at_s=_number(document["arrival_s"], "arrival_s", where),
        prompt_tokens=None if prompt else _length(document.get("prompt_tokens"), "prompt_tokens", where),
        output_tokens=None if output is None else _length(output, "output_tokens", where),
        prompt=prompt,
    )


def _blocks(value: object, where: str) -> tuple[int, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or any(isinstance(item, bool) or not isinstance(item, int) for item in value):
        raise UsageError(f"{where}: hash_ids is not a list of whole numbers")
    return tuple(value)


def _number(value: object, name: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.maxsize:
        raise UsageError(f"{where}: {name} {value!r} is not a number from 0 on")
    return float(value)


def _length(value: object, name: str, where: str) -> int:
    try:
        length = int(value) if isinstance(value, str) else value
    except ValueError:
        length = None
    if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length <= MAX_TOKENS:
        shown = shortened(str(value), _SHOWN_CHARACTERS)
        raise UsageError(
            f"{where}: {name} {one_line(shown)} is not a whole number from 0 to {MAX_TOKENS}, the longest of any context"
        )
    return max(1, length)  # no request has an empty prompt, and none generates nothing
