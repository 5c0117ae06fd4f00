"""What was seen during the repetitions of a run so far, beside their times: for whoever gathers them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from suffice.decide.quiet import MARKS_RULE, is_watched, marked
from suffice.records.schema import RepetitionRecord

if TYPE_CHECKING:
    from suffice.measure.observer import Observer
    from suffice.measure.series import DecodeAt
    from suffice.records.schema import ContentionRecord, ReferenceRecord


@dataclass(slots=True, kw_only=True)
class WatchedState(ABC):
    """Decode series are known by their depth and batch, prefill by None.

    Attributes:
        seen: what else happened during each repetition of a series.
        references: readings of the reference kernel, by part of the run.
    """

    seen: dict[DecodeAt | None, list[RepetitionRecord]] = field(default_factory=dict)
    references: list[list[ReferenceRecord]] = field(default_factory=list)

    @abstractmethod
    def repetitions_made(self, series: DecodeAt | None) -> int:
        """How many repetitions of a series there are."""

    def watch_with(self, observer: Observer | None) -> None:
        """Readings from now on are a row of their own: earlier ones were of other work."""
        if observer is not None and all(part is not observer.readings for part in self.references):
            self.references.append(observer.readings)

    def note(self, series: DecodeAt | None, seen: RepetitionRecord) -> None:
        """Keep what was seen during the last repetition of a series; those before that nobody watched have empty readings."""
        kept = self.seen.setdefault(series, [])
        kept += [RepetitionRecord()] * (self.repetitions_made(series) - 1 - len(kept))
        kept.append(seen)

    def repetitions(self, series: DecodeAt | None) -> tuple[RepetitionRecord, ...]:
        """The repetitions of a series with their marks; empty where nobody watched."""
        seen = self.seen.get(series, [])
        return marked(seen, self.references) if is_watched(seen) else ()

    def kept_in(self, contention: ContentionRecord) -> ContentionRecord:
        """The readings so far in the part of a record that is for them."""
        references = tuple(tuple(part) for part in self.references)
        return replace(contention, references=references, marks_rule=MARKS_RULE if self.seen else None)
