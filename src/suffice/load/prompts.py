"""Prompts: made to a length with a seed, each unlike all others from its first word on, or read from the user's file."""

from __future__ import annotations

import itertools
import json
import random
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import UsageError
from suffice.load.settings import Ask
from suffice.loaders.files import read_small_file
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_FILE_BYTES: Final = 256 * MIB
MAX_PROMPT_TOKENS: Final = 2_000_000
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
    prompt_tokens: int, output_tokens: int | None, seed: int | str, shared_prefix: int = 0
) -> Iterator[Ask]:
    """Endless prompts of about ``prompt_tokens`` words, of which the first ``shared_prefix`` are the same in all of them.

    A server that has seen the same seed answers from its cache, so that every run needs a seed of its own.
    A word is about a token; how many tokens it was, the server says, and the report compares. Chat templates add their own.
    """
    if not 0 < prompt_tokens <= MAX_PROMPT_TOKENS:
        raise UsageError(f"--prompt-tokens {prompt_tokens} is not between 1 and {MAX_PROMPT_TOKENS}")
    if not 0 <= shared_prefix <= prompt_tokens:
        raise UsageError(f"--shared-prefix {shared_prefix} is not between 0 and --prompt-tokens {prompt_tokens}")
    shared = _words(random.Random(f"{seed} shared"), shared_prefix)  # noqa: S311  # prompts that can be repeated
    for index in itertools.count():
        yield made_prompt(index, prompt_tokens, output_tokens, seed, shared)


def made_prompt(
    index: int, prompt_tokens: int, output_tokens: int | None, seed: int | str, shared: tuple[str, ...] = ()
) -> Ask:
    """The prompt number ``index`` of a seed, alone."""
    own = _words(random.Random(f"{seed} {index}"), prompt_tokens - len(shared))  # noqa: S311  # as above
    text = " ".join((*shared, *own))
    return Ask(index=index, prompt=text, prompt_tokens=prompt_tokens, output_tokens=output_tokens)


def _words(chance: random.Random, count: int) -> tuple[str, ...]:
    return tuple(chance.choices(_WORDS, k=count))


def prompts_of(path: Path, output_tokens: int | None) -> Iterator[Ask]:
    """The prompts of a JSONL file in order, from the start again when they run out (a server may then answer from its cache).

    Raises:
        UsageError: the file or one of its lines cannot be used.
    """
    lines = read_jsonl(path)
    asks = [_ask_of(line, f"{path} line {number}", output_tokens) for number, line in lines]
    for index in itertools.count():
        ask = asks[index % len(asks)]
        yield Ask(index=index, prompt=ask.prompt, messages=ask.messages, output_tokens=ask.output_tokens)


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
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{path} line {number} is not JSON; a JSONL file has one object a line") from error
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
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 1):
        raise UsageError(f"{where}: the output length {length!r} is not a whole number from 1 on")
    if isinstance(messages, list) and messages and all(_is_message(item) for item in messages):
        plain = tuple({"role": item["role"], "content": item["content"]} for item in messages)
        return Ask(index=0, messages=plain, output_tokens=length)
    if isinstance(prompt, str) and prompt:
        return Ask(index=0, prompt=prompt, output_tokens=length)
    raise UsageError(f"{where} has neither a 'prompt' (text) nor 'messages' (with role and content)")


def _is_message(item: object) -> bool:
    return isinstance(item, dict) and isinstance(item.get("role"), str) and isinstance(item.get("content"), str)
