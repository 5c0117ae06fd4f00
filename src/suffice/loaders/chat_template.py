"""The chat template that a model brings: Jinja text in the metadata of its GGUF file, rendered as transformers renders it.

A template is a program of whoever made the model file. It runs in Jinja's sandbox, which keeps it from Python's internals, and may neither
make texts of any size nor see the time: the day that templates such as Llama 3's write into the prompt is given, so that a run
that goes on tomorrow asks the same.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import ModelFileError, UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.model.gguf_header import LongText
from suffice.model.items import Message, Role
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from jinja2 import Template

_KEY: Final = "tokenizer.chat_template"
_MAX_TEXT: Final = 64 * MIB  # characters of a rendered prompt
_MAX_POWER: Final = 64
_SHOWN: Final = 200
_MARK: Final = "suffice"  # an answer that stands for any, to see what a template puts before one
# What a program in the sandbox can raise, beside Jinja's own errors.
_PROGRAM_ERRORS: Final = (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RecursionError)


def read_chat_template(path: Path) -> str | None:
    """The template's text in a GGUF file; None where it has none.

    Raises:
        ModelFileError: the file cannot be read, or what stands there is no text.
    """
    header = read_gguf_header(path)
    value = header.metadata.get(_KEY)
    if value is None or value == "":
        return None
    if isinstance(value, LongText):
        raise ModelFileError(f"{header.source}: the chat template has {value.n_bytes} bytes, far more than any model's")
    if not isinstance(value, str):
        raise ModelFileError(f"{header.source}: {_KEY} is no text; the file is damaged")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """A template with what it is given beside the messages. ``name`` is the model's, for messages of ours.

    ``bos_text`` and ``eos_text`` are the names of the vocabulary's own tokens, ``now`` the time that the template believes it is.
    """

    name: str
    source: str
    bos_text: str
    eos_text: str
    now: datetime

    def render(self, messages: Sequence[Message], *, for_answer: bool = True) -> str:
        """The prompt that the messages make; ``for_answer`` ends it where the model's answer begins.

        Raises:
            ModelFileError: the template is no valid one.
            UsageError: it refuses these messages, with its own words, or fails on them.
        """
        import jinja2  # noqa: PLC0415 - heavy, and only models with a template need it

        template = _compiled(self.source, self.name)
        given: dict[str, Any] = {
            "messages": [{"role": message.role.value, "content": message.content} for message in messages],
            "add_generation_prompt": for_answer,
            "bos_token": self.bos_text,
            "eos_token": self.eos_text,
            "tools": None,
            "documents": None,
            "strftime_now": self.now.strftime,
        }
        pieces, length = [], 0
        try:
            for piece in template.generate(given):
                length += len(piece)
                if length > _MAX_TEXT:
                    raise UsageError(f"the chat template of {self.name} makes a prompt without end")
                pieces.append(piece)
        except (jinja2.TemplateError, *_PROGRAM_ERRORS) as error:
            raise UsageError(
                f"the chat template of {self.name} does not take these messages: {str(error)[:_SHOWN]}; "
                "change their roles or order, or ask the model without its template"
            ) from error
        return "".join(pieces)

    def before_answer(self, messages: Sequence[Message]) -> str:
        """What the template puts between the prompt of these messages and the text of an answer: a space for some models, mostly nothing.

        Found by rendering an answer behind the messages; nothing where the two renderings do not begin alike.
        """
        prompt = self.render(messages)
        try:
            answered = self.render((*messages, Message(role=Role.ASSISTANT, content=_MARK)), for_answer=False)
        except UsageError:
            return ""
        between, found, _ = answered.removeprefix(prompt).partition(_MARK)
        return between if answered.startswith(prompt) and found and between.isspace() else ""


@functools.lru_cache(maxsize=16)
def _compiled(source: str, name: str) -> Template:
    from jinja2 import TemplateError  # noqa: PLC0415 - see render

    try:
        template: Template = _environment().from_string(source)
    except (TemplateError, RecursionError) as error:
        raise ModelFileError(
            f"the chat template of {name} is not valid: {str(error)[:_SHOWN]}; ask the model without its template"
        ) from error
    return template


@functools.cache
def _environment() -> Any:  # noqa: ANN401 - a class that is made below
    from jinja2 import TemplateError, nodes  # noqa: PLC0415 - see render
    from jinja2.exceptions import SecurityError  # noqa: PLC0415 - see render
    from jinja2.ext import Extension, loopcontrols  # noqa: PLC0415 - see render
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415 - see render

    class Generation(Extension):
        """``{% generation %}`` marks what a model wrote, for training; here its text only stands."""

        tags = {"generation"}  # noqa: RUF012 - Jinja's own way

        def parse(self, parser: Any) -> Any:  # noqa: ANN401 - Jinja's parser and node
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.Scope(body).set_lineno(line)

    class Sandbox(ImmutableSandboxedEnvironment):
        """Multiplies and raises to powers only what stays small."""

        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401 - any values
            sizes = [len(side) for side in (left, right) if hasattr(side, "__len__")]
            counts = [side for side in (left, right) if isinstance(side, int)]
            if operator == "*" and sizes and counts and sizes[0] * counts[0] > _MAX_TEXT:
                raise SecurityError("it multiplies a text beyond all bounds")
            if operator == "**" and isinstance(right, int | float) and abs(right) > _MAX_POWER:
                raise SecurityError("it raises to a power beyond all bounds")
            return super().call_binop(context, operator, left, right)

    def refuse(message: object) -> None:
        raise TemplateError(str(message))

    environment = Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = refuse
    return environment


def _to_json(
    value: object,
    *,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Transformers' ``tojson``, which escapes neither HTML nor letters beyond ASCII."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
