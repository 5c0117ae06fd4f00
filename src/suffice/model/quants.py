"""A comparison of models on the user's items, as it is kept: who was compared, what was asked, and what each of them said.

Everything that is concluded (accuracies, differences, what passes) is computed from these rows, also when a kept comparison is read
again: :mod:`suffice.decide.quants`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suffice.model.items import ScoreKind


class SubjectKind(StrEnum):
    """Where a model that is compared comes from."""

    FILE = "file"
    MADE = "made"  # quantized here, from the reference
    SERVER = "server"
    LOG = "log"  # scored answers that another tool wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One of the models that are compared.

    Attributes:
        name: short, and no other subject's.
        kind: where it comes from.
        place: its path or address, without what may be secret in it.
        identity: what tells it from others: the hash that run records have of its file, or address and name of a server's model.
        quantization: the type of most of its weights, such as Q4_K_M; None: not known.
        file_bytes: of all its parts; None: no file.
        made_from: the identity of the file that it was quantized from.
        warnings: what a reader of its figures has to know.
    """

    name: str
    kind: SubjectKind
    place: str
    identity: str
    quantization: str | None = None
    file_bytes: int | None = None
    made_from: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """An item as far as conclusions need it.

    ``kind`` is None where another tool scored the answers, ``choices`` (their number) where there are none, or nobody said.
    """

    item_id: str
    item_hash: str
    cluster: str
    kind: ScoreKind | None
    is_labelled: bool
    choices: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one model gave to one task. ``score`` is from 0 to 1, None where it is unknown, with the ``reason``.

    ``text`` is the answer, or the choice that was taken; None: there is none. ``is_cut`` says that it ended at ``max_tokens``.
    """

    score: float | None
    text: str | None = None
    reason: str | None = None
    tokens: int | None = None
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """One model with its outcomes, one for each task of the comparison, in their order. ``notes`` say how it was asked."""

    subject: Subject
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFigures:
    """What two models made of one document's tokens: sums over them, in nats where they are of probabilities."""

    name: str
    tokens: int
    divergence: float
    same_top: int
    reference_loss: float
    candidate_loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """A quantile over tokens with its interval by document; None where there is none, and ``shortage`` says why."""

    value: float
    low: float | None
    high: float | None
    shortage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """How far a candidate's next-token distributions are from the reference's on the user's text.

    ``p99`` and ``largest`` are of the divergence per token. ``settings`` names what decides them: context, threads, engine.
    ``is_self``: the reference against itself with other threads or batch, the noise floor.
    """

    candidate: str
    documents: tuple[DocumentFigures, ...]
    p99: Quantile
    largest: float
    settings: dict[str, object] = field(default_factory=dict)
    is_self: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Where the run record of a model's speed is: a file name beside the comparison's, and what it must be a record of."""

    subject: str
    record: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantsRecord:
    """A comparison as it is kept. The first of ``models`` is the reference.

    ``settings`` are those that decided the answers. ``items_hash`` is of the items file. ``complete`` is false while it runs.
    """

    items_source: str
    items_hash: str | None
    tasks: tuple[Task, ...]
    models: tuple[AskedModel, ...]
    distances: tuple[Distance, ...] = ()
    measured: tuple[Measured, ...] = ()
    settings: dict[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    created_at: str | None = None
    suffice_version: str | None = None
    complete: bool = True

    @property
    def reference(self) -> AskedModel:
        """What the others are compared with."""
        return self.models[0]

    @property
    def candidates(self) -> tuple[AskedModel, ...]:
        """The others."""
        return self.models[1:]
