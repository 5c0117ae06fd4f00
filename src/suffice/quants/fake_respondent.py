"""A model that says what it is told to say, for tests of whatever asks models. It ships with the package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from suffice.loaders.items import item_hash
from suffice.model.answers import Answer, ChoiceLogprob, FinishReason
from suffice.model.quants import Subject, SubjectKind
from suffice.quants.respondent import different

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from suffice.model.items import Item


@dataclass(slots=True, kw_only=True)
class FakeRespondent:
    """Says ``texts`` by the item's id, else nothing but an empty text; weighs ``choices`` by id, else takes the first one.

    ``errors`` are items that cannot be asked, with the reason. ``raises`` is raised by the answer with that number, counted from 0;
    ``asked`` are the ids in the order in which they were asked, of all calls.
    """

    name: str = "fake"
    identity: str = "fake model"
    texts: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, Sequence[float]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    cut: frozenset[str] = frozenset()
    raises: tuple[int, BaseException] | None = None
    settings: Mapping[str, object] = field(default_factory=lambda: {"seed": 0})
    notes: tuple[str, ...] = ()
    asked: list[str] = field(default_factory=list)
    closed: int = 0

    @property
    def subject(self) -> Subject:
        return Subject(name=self.name, kind=SubjectKind.FILE, place=f"{self.name}.gguf", identity=self.identity)

    def ask(self, items: Sequence[Item]) -> Iterator[Answer]:
        for number, item in enumerate(different(items).values()):
            if self.raises is not None and self.raises[0] == number:
                raise self.raises[1]
            self.asked.append(item.id)
            yield self._answer(item)

    def _answer(self, item: Item) -> Answer:
        asked = item_hash(item)
        if item.id in self.errors:
            return Answer(item_id=item.id, item_hash=asked, error=self.errors[item.id])
        if item.asks_choices and item.id not in self.texts:
            weights = self.choices.get(item.id) or [-float(place + 1) for place in range(len(item.choices))]
            found = tuple(ChoiceLogprob(total=weight, tokens=1) for weight in weights)
            return Answer(item_id=item.id, item_hash=asked, choices=found, finish=FinishReason.CHOICES)
        text = self.texts.get(item.id, "")
        finish = FinishReason.LENGTH if item.id in self.cut else FinishReason.STOP
        return Answer(item_id=item.id, item_hash=asked, text=text, finish=finish, tokens=len(text))

    def close(self) -> None:
        self.closed += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
