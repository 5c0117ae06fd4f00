"""Runs on slices with fakes: a toy model whose planted costs per layer are known, whatever slices are made of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from helpers.gguf_writer import ToyLlama
from helpers.slices import slice_header, tensor
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.shape_model import ShapeModel, shape_model
from suffice.measure.engine.fake import FakeBehaviour, FakeEngine, FakeSpeed
from suffice.measure.fake_machine import FakeMachine
from suffice.measure.machine import MachineFacts
from suffice.measure.run import Surroundings
from suffice.measure.slice_run import SliceRun
from suffice.model.slice_plan import plan_slices
from suffice.slices.cache import SliceCache
from suffice.slices.fake_blocks import FakeBlocks
from suffice.slices.store import CachedSlices
from suffice.units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.measure.observer import Observer
    from suffice.measure.request import RunRequest
    from suffice.model.gguf_header import GgufHeader
    from suffice.model.slices import SliceDesign
    from suffice.records.schema import RunRecord

FACTS = MachineFacts(
    cpu_model="Fake CPU",
    isa=("avx2",),
    llc_bytes=None,
    usable_cpus=2,
    thread_candidates=(1, 2),
    memory_usable_bytes=8 * GIB,
)
N_LAYER = 12
KINDS = ("q8_0", "q4_0")  # of the layers' matrices, in turns


def toy_header(n_layer: int = N_LAYER, *, kinds: tuple[str, ...] = KINDS[:1], **sizes: Any) -> GgufHeader:  # noqa: ANN401  # fields of ToyLlama
    """A model of some hundred kilobytes whose layers' matrices have these types in turns."""
    header = slice_header(ToyLlama(n_layer=n_layer, **{"type_name": "q8_0", **sizes}))
    tensors = []
    for item in header.tensors:
        if item.name.startswith("blk.") and len(item.dims) > 1:
            tensors.append(tensor(item.name, item.dims, kinds[int(item.name.split(".")[1]) % len(kinds)]))
        else:
            tensors.append(item)
    return replace(header, tensors=tuple(tensors), file_bytes=sum(item.n_bytes for item in tensors))


def toy_model(header: GgufHeader | None = None) -> ShapeModel:
    """The toy as a model that nobody has downloaded."""
    return shape_model(toy_header() if header is None else header, reference="toy:q8_0", source="made up")


@cache
def layers_in(path: Path) -> dict[str, int]:
    """How many layers of each type of matrices a slice's file has."""
    header = read_gguf_header(path)
    found: dict[str, int] = {}
    for item in header.tensors:
        if item.name.endswith("attn_q.weight"):
            found[item.type_name] = found.get(item.type_name, 0) + 1
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Seconds that are planted. ``bend`` adds what no line can have: it grows with the square of the number of layers."""

    fixed_s: float = 0.02
    layer_s: dict[str, float] = field(default_factory=lambda: {"q8_0": 0.008, "q4_0": 0.005})
    depth_s: float = 1e-6  # of a layer and a token in the cache
    prefill_s: float = 1e-4  # of a layer and a token; the last layer saves half of that
    bend: float = 0.0

    def step_s(self, layers: dict[str, int], depth: int, batch: int) -> float:
        """A decode step: what several sequences share is read once, what each reads of its cache is its own."""
        n_layer = sum(layers.values())
        weights_s = sum(count * self.layer_s[name] for name, count in layers.items())
        return self.fixed_s + weights_s + batch * depth * n_layer * self.depth_s + self.bend * n_layer**2

    def chunk_s(self, layers: dict[str, int], tokens: int) -> float:
        """A chunk of a prompt."""
        n_layer = sum(layers.values())
        return tokens * (self.prefill_s * (n_layer - 0.5) + self.bend / 10 * n_layer**2)


@dataclass(kw_only=True)
class Bench:
    """A cache in a temporary folder, a fake engine with a planted truth, and a fake machine."""

    root: Path
    truth: Truth = field(default_factory=Truth)
    facts: MachineFacts = FACTS
    save: Callable[[RunRecord], None] = lambda _record: None
    evictor: Callable[[], None] | None = None
    observer: Callable[[], Observer] | None = None
    behaviour: FakeBehaviour = field(default_factory=FakeBehaviour)
    jitter: float = 0.0
    log: list[tuple[Any, ...]] = field(default_factory=list)  # of what the engine was asked

    @cached_property
    def engine(self) -> FakeEngine:
        """One engine, so that what it opened can be counted."""

        def step(path: Path, depth: int, batch: int) -> float:
            self.log.append(("step", path, depth, batch))
            return self.truth.step_s(layers_in(path), depth, batch)

        def chunk(path: Path, depth: int, tokens: int) -> float:
            self.log.append(("chunk", path, depth, tokens))
            return self.truth.chunk_s(layers_in(path), tokens)

        speed = FakeSpeed(jitter=self.jitter)
        return FakeEngine(speed=speed, behaviour=self.behaviour, step_cost=step, prefill_cost=chunk)

    def around(self, **changes: Any) -> Surroundings:  # noqa: ANN401  # fields of the surroundings
        """The outside of a run."""
        machine = FakeMachine(facts=self.facts, evictor=self.evictor, observer=self.observer)
        around = Surroundings(
            engine=self.engine,
            machine=machine,
            clock=self.engine.clock,
            progress=lambda _step: None,
            save=self.save,
            slices=CachedSlices(SliceCache(self.root, limit_bytes=256 * MIB), FakeBlocks()),
        )
        return replace(around, **changes)

    def run(self, request: RunRequest, design: SliceDesign, earlier: RunRecord | None = None) -> RunRecord:
        """A run on slices of one's choice."""
        assert isinstance(request.model, ShapeModel)
        return SliceRun(request, self.around(), earlier, request.model, design).execute()


def short_design(header: GgufHeader) -> SliceDesign:
    """Slices that end far before the model does."""
    design = plan_slices(header, round(1.5 * header.tensor_bytes))
    assert max(len(plan.layers) for plan in design.plans) < N_LAYER
    return design
