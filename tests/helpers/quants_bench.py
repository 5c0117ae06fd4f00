"""A comparison that needs no engine: toy files, questions, and an engine and a quantizer that do what they are told to."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from helpers.gguf_writer import ToyLlama, write_gguf
from helpers.records import run_record
from suffice.loaders.items import load_items
from suffice.measure.engine.fake_text import FakeModel, FakeTextEngine
from suffice.quants.fake_quantizer import FakeQuantizer
from suffice.quants.made_store import MadeStore
from suffice.quants.parties import parties
from suffice.quants.respondent import AskOptions
from suffice.quants.speeds import Speeds
from suffice.quants.workflow import Around, Job
from suffice.records.schema import ModelRecord
from suffice.records.store import save_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from suffice.quants.subjects import LocalModel

ITEMS = 6


@dataclass(slots=True, kw_only=True)
class Bench:
    """A folder with two toy models and items, and an engine that says what it is told to."""

    folder: Path
    engine: FakeTextEngine
    quantizer: FakeQuantizer = field(default_factory=FakeQuantizer)
    measured: list[list[str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def job(self, *candidates: str, recipes: Sequence[str] = (), **changes: object) -> Job:
        """The reference against these files and recipes."""
        names = [str(self.folder / name) for name in candidates]
        job = Job(
            parties=parties(str(self.folder / "ref.gguf"), names, recipes),
            items=load_items(self.folder / "items.jsonl"),
            folder=self.folder / "out",
            options=AskOptions(max_tokens=8, slots=2),
        )
        return replace(job, **changes)  # type: ignore[arg-type]  # fields, by name

    def around(self, *, speed: bool = False) -> Around:
        """The fakes; ``speed`` notes who would be measured."""
        return Around(
            engine=lambda: self.engine,
            quantizer=lambda: self.quantizer,
            store=lambda: MadeStore(self.folder / "cache"),
            progress=self.told.append,
            speed=self.speed if speed else None,
        )

    def speed(self, models: Mapping[str, LocalModel], paths: Mapping[str, Path]) -> Speeds:
        """All of them, without measuring: records that say nothing but whose they are."""
        self.measured.append(list(models))
        for name, model in models.items():
            save_record(run_record(decode=1.0, model=ModelRecord(sha256=model.subject.identity)), paths[name])
        return Speeds(names=tuple(models))


def toy_file(path: Path, name: str) -> None:
    """A model file that differs from those of other names."""
    toy = ToyLlama()
    write_gguf(path, {**toy.metadata(), "general.file_type": 1, "general.name": name}, toy.tensors())


def new_bench(tmp_path: Path) -> Bench:
    """Two toy models, of which one answers one of six questions wrongly."""
    for name in ("ref", "low"):
        toy_file(tmp_path / f"{name}.gguf", name)
    rows = [{"id": n, "prompt": f"Question {n}:", "answer": "yes", "score": "contains"} for n in range(ITEMS)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    right = {f"Question {n}:": "yes" for n in range(ITEMS)}
    engine = FakeTextEngine(
        models={
            "ref.gguf": FakeModel(answers=right),
            "low.gguf": FakeModel(answers={**right, "Question 0:": "no"}, noise=0.5),
        }
    )
    return Bench(folder=tmp_path, engine=engine)
