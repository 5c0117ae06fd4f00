"""What a comparison is asked to do, and the outside that it does it with."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from suffice.quants.respondent import AskOptions
from suffice.quants.texts import DEFAULT_MAX_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from suffice.loaders.item_functions import ScoreFunction
    from suffice.loaders.items import ItemSet
    from suffice.measure.engine.quantizer import Quantizer
    from suffice.measure.engine.text_seam import TextEngine
    from suffice.quants.made_store import MadeStore
    from suffice.quants.parties import Party
    from suffice.quants.speeds import Speeds
    from suffice.quants.subjects import LocalModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be compared, and how.

    Attributes:
        parties: the reference first.
        items: the questions.
        functions: score functions by name.
        folder: where everything is kept.
        options: how models are asked.
        texts: files of the user's that distances are measured on; without any, the items.
        text_tokens: of them that are read.
        distances: measure how far next-token distributions are apart.
        imatrix: for what is made.
        ca_file: certificates that a server's is checked against.
        resume: go on with what is in the folder.
    """

    parties: tuple[Party, ...]
    items: ItemSet
    folder: Path
    functions: Mapping[str, ScoreFunction] = field(default_factory=dict)
    options: AskOptions = field(default_factory=AskOptions)
    texts: tuple[Path, ...] = ()
    text_tokens: int = DEFAULT_MAX_TOKENS
    distances: bool = True
    imatrix: Path | None = None
    ca_file: Path | None = None
    resume: bool = False

    @property
    def asking(self) -> AskOptions:
        """How all are asked: where a server takes part, which weighs no choices for us, everybody gets them as a list."""
        has_server = any(party.url is not None for party in self.parties)
        return replace(self.options, choices_as_text=True) if has_server else self.options

    @property
    def settings(self) -> dict[str, object]:
        """What decided the answers, for the record."""
        options = self.asking
        return {
            "slots": options.slots,
            "max_tokens": options.max_tokens,
            "chat_prompts": options.chat_prompts,
            "choices_as_text": options.choices_as_text,
            "threads": options.threads,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The outside. The engine and the quantizer are looked for only where they are needed; ``speed`` None: speed is not measured.

    ``speed`` gets the model files by name, the reference's first, and the file for the record of each.
    """

    engine: Callable[[], TextEngine]
    quantizer: Callable[[], Quantizer]
    store: Callable[[], MadeStore]
    progress: Callable[[str], None]
    clock: Callable[[], float] = time.monotonic
    speed: Callable[[Mapping[str, LocalModel], Mapping[str, Path]], Speeds] | None = None
