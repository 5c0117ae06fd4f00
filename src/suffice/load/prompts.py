"""Prompts: made to a length with a seed, each unlike all others from its first word on, or read from the user's file."""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import RecordError, UsageError
from suffice.load.settings import Ask
from suffice.loaders.files import read_small_file
from suffice.loaders.strict_json import parse_json
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from suffice.model.demand import Lengths

_MAX_FILE_BYTES: Final = 256 * MIB
MAX_TOKENS: Final = 2_000_000  # of a prompt or an answer: beyond it no model has a context
_MOST_DEVIATIONS: Final = 3.0
_Z_95: Final = 1.6448536269514722  # standard normal quantile of 0.95
# Short common words: with the space before it, each is one token in the vocabularies of GPT-2, Llama, Qwen, Mistral and Gemma.
_WORDS: Final = tuple(
    "time year people way day man thing woman life child world school state family student group country problem hand part "
    "place case week company system program question work government number night point home water room mother area money "
    "story fact month lot right study book eye job word business issue side kind head house service friend father power hour "
    "game line end member law car city community name president team minute idea body information back parent face others "
    "level office door health person art war history party result change morning reason research girl guy moment air teacher "
    "force education foot boy age policy music market sense nation plan college interest death experience effect use class "
    "control care field development role effort rate heart show leader light voice wife police mind price report decision "
    "son view relationship town road arm difference value building action season society tax director position player record "
    "paper space ground form event official matter center couple site project base star table need court oil half situation "
    "cost industry figure street image phone data picture practice piece land product doctor wall patient worker news test "
    "movie north love support technology step baby computer type attention film tree source hair look window culture chance "
    "brother energy period course summer plant opportunity term letter condition choice rule daughter south husband floor "
    "campaign material population call economy hospital church risk fire future bank west sport board subject officer rest "
    "behavior performance fight top goal second bed order author agency nature color store sound movement page race "
    "concern series language response animal factor decade article east artist scene stock career treatment approach size dog "
    "fund media sign thought list individual quality pressure answer resource meeting success cup amount ability staff "
    "character growth loss degree region television box training trade deal election feeling standard bill message "
    "analysis benefit lawyer section glass skill sister professor operation stage authority design sort knowledge "
    "station strategy truth song example environment leg public executive set rock note manager help network science memory "
    "card seat cell trial expert spring firm radio visit management".split()
)


def made_prompts(
    prompt: int | Lengths, output: int | Lengths | None, seed: int | str, shared_prefix: int = 0
) -> Iterator[Ask]:
    """Endless prompts of about ``prompt`` words, of which the first ``shared_prefix`` are the same in all of them.

    With :class:`~suffice.model.demand.Lengths` each prompt, or answer, has a length of its own from their log-normal distribution.
    A server that has seen the same seed answers from its cache, so that every run needs a seed of its own.
    A word is about a token; how many tokens it was, the server says, and the report compares. Chat templates add their own.
    """
    longest = prompt if isinstance(prompt, int) else longest_length(prompt)
    if not 0 < longest <= MAX_TOKENS:
        raise UsageError(f"--prompt-tokens {longest} is not between 1 and {MAX_TOKENS}")
    longest_output = output if isinstance(output, int) else longest_length(output)
    if longest_output > MAX_TOKENS:
        raise UsageError(f"--output-tokens {longest_output} is more than {MAX_TOKENS}")
    if not 0 <= shared_prefix <= (prompt if isinstance(prompt, int) else prompt.p50):
        raise UsageError(f"--shared-prefix {shared_prefix} is not between 0 and the length of a prompt")
    shared = _words(random.Random(f"{seed} shared"), shared_prefix)  # noqa: S311  # prompts that can be repeated
    for index in itertools.count():
        chance = random.Random(f"{seed} {index} lengths")  # noqa: S311  # as above
        words = prompt if isinstance(prompt, int) else max(shared_prefix, drawn_length(prompt, chance))
        yield made_prompt(index, words, drawn_length(output, chance) if output is not None else None, seed, shared)


def drawn_length(lengths: int | Lengths, chance: random.Random) -> int:
    """A length from the log-normal distribution through P50 and P95, cut off at three standard deviations; a number is itself."""
    if isinstance(lengths, int):
        return lengths
    deviations = max(-_MOST_DEVIATIONS, min(_MOST_DEVIATIONS, chance.gauss(0, 1)))
    factor: float = (lengths.p95 / lengths.p50) ** (deviations / _Z_95)
    return max(1, round(lengths.p50 * factor))


def longest_length(lengths: Lengths | None) -> int:
    """The longest that is drawn; 0 without a distribution."""
    return 0 if lengths is None else math.ceil(lengths.p50 * (lengths.p95 / lengths.p50) ** (_MOST_DEVIATIONS / _Z_95))


def made_prompt(
    index: int, prompt_tokens: int, output_tokens: int | None, seed: int | str, shared: tuple[str, ...] = ()
) -> Ask:
    """The prompt number ``index`` of a seed, alone."""
    own = _words(random.Random(f"{seed} {index}"), prompt_tokens - len(shared))  # noqa: S311  # as above
    text = " ".join((*shared, *own))
    return Ask(index=index, prompt=text, prompt_tokens=prompt_tokens, output_tokens=output_tokens)


def block_words(block: int, count: int, seed: int | str) -> tuple[str, ...]:
    """The first words of a block that several prompts may share: the same for the same number and seed."""
    return _words(random.Random(f"{seed} block {block}"), count)  # noqa: S311  # as above


def _words(chance: random.Random, count: int) -> tuple[str, ...]:
    return tuple(chance.choices(_WORDS, k=count))


def prompts_of(path: Path, output_tokens: int | None) -> Iterator[Ask]:
    """The prompts of a JSONL file in order, from the start again when they run out (a server may then answer from its cache).

    Raises:
        UsageError: the file or one of its lines cannot be used.
    """
    asks = file_asks(path, output_tokens)
    for index in itertools.count():
        ask = asks[index % len(asks)]
        yield Ask(index=index, prompt=ask.prompt, messages=ask.messages, output_tokens=ask.output_tokens)


def file_asks(path: Path, output_tokens: int | None) -> list[Ask]:
    """The prompts of a JSONL file, once.

    Raises:
        UsageError: the file or one of its lines cannot be used.
    """
    return [_ask_of(line, f"{path} line {number}", output_tokens) for number, line in read_jsonl(path)]


def read_jsonl(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """The objects of a JSONL file with their line numbers, at least one.

    Raises:
        UsageError: unreadable, empty, or a line that is no JSON object.
    """
    text = read_small_file(path, limit_bytes=_MAX_FILE_BYTES, error=UsageError)
    lines = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            document = parse_json(line)
        except RecordError as error:
            raise UsageError(f"{path} line {number} is {error}; a JSONL file has one object a line") from None
        if not isinstance(document, dict):
            raise UsageError(f"{path} line {number} is not a JSON object")
        lines.append((number, document))
    if not lines:
        raise UsageError(f"{path} is empty; it needs one JSON object a line")
    return lines


def _ask_of(document: dict[str, Any], where: str, output_tokens: int | None) -> Ask:
    messages = document.get("messages")
    prompt = document.get("prompt", document.get("text"))
    length = document.get("output_tokens", document.get("max_tokens", output_tokens))
    if length is not None and (
        isinstance(length, bool) or not isinstance(length, int) or not 1 <= length <= MAX_TOKENS
    ):
        raise UsageError(f"{where}: the output length {length!r} is not a whole number from 1 to {MAX_TOKENS}")
    if isinstance(messages, list) and messages and all(_is_message(item) for item in messages):
        plain = tuple({"role": item["role"], "content": item["content"]} for item in messages)
        return Ask(index=0, messages=plain, output_tokens=length)
    if isinstance(prompt, str) and prompt:
        return Ask(index=0, prompt=prompt, output_tokens=length)
    raise UsageError(f"{where} has neither a 'prompt' (text) nor 'messages' (with role and content)")


def _is_message(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("role"), str) and isinstance(item.get("content"), str)
