"""The run record, version 1. ``docs/record.md`` describes it for readers of the JSON.

Plain frozen dataclasses; :mod:`suffice.records.store` reads and writes them. Everything but ``schema_version`` may be
absent in a file made by others: what is absent is None, and a verdict that needs it is "undecided".

History (add a line when the version rises):
    1  first version
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from suffice.stats.estimate import Estimate
from suffice.stats.quiet import Window
from suffice.stats.trend import Trend

SCHEMA_VERSION: Final = 1

# Read by Pydantic when a record is loaded; plain data, so that this module stays free of it.
_NO_NAN: Final = {"allow_inf_nan": False, "extra": "ignore"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorTypeShare:
    """How much of the model is stored in one ggml type."""

    elements: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KvLayers:
    """Layers whose KV cache grows alike: bytes per token of one of them, and the window after which it stops growing."""

    count: int
    bytes_per_token: float
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """Which model was measured.

    ``sha256`` is of the whole file (all parts of a split one, in order); for very large files it is None and
    ``sampled_sha256`` covers size, header and evenly spaced samples instead. A model without a file, known by its shape and
    recipe, has ``shape_sha256``: of the names, dimensions and types of all tensors, and of the metadata; its bytes are computed.
    """

    name: str | None = None
    file_name: str | None = None
    file_bytes: int | None = None
    sha256: str | None = None
    sampled_sha256: str | None = None
    shape_sha256: str | None = None
    shape_source: str | None = None  # where the shape is from, when there was no file
    architecture: str | None = None
    parameters: int | None = None
    active_parameters: int | None = None
    tensor_types: dict[str, TensorTypeShare] = field(default_factory=dict)
    streamed_bytes: float | None = None
    kv_bytes_per_token: float | None = None  # while no sliding window is full
    kv_layers: tuple[KvLayers, ...] = ()
    kv_state_bytes: float = 0.0  # recurrent state of one sequence, whatever its context
    context_length: int | None = None

    @property
    def identity(self) -> str | None:
        """What two records must share to be of the same model: a hash, or None when unknown."""
        return self.sha256 or self.sampled_sha256 or self.shape_sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRecord:
    """Which engine measured. ``lower_bound`` is true when the build leaves ISA of this CPU unused."""

    name: str | None = None
    version: str | None = None
    llama_cpp_version: str | None = None
    system_info: str | None = None
    isa_used: tuple[str, ...] = ()
    isa_unused: tuple[str, ...] = ()
    prebuilt: bool | None = None
    lower_bound: bool = False
    advice: str | None = None  # the command that gives a better build


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionRecord:
    """What else happened during one repetition: the raw reading, and the mark that follows from it.

    ``start_s`` and ``windows`` are on one monotonic clock. ``reading`` holds those fields of a
    :class:`~suffice.decide.disturbance.ContentionReading` that the system tells; empty: nobody watched. ``references_before`` readings of
    the reference kernel were made in this ``part`` of the run before it began, so that the nearest ones are the last of them and the next.
    """

    part: int = 0
    start_s: float | None = None
    reading: dict[str, int | float] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()
    references_before: int = 0
    disturbed: bool | None = None  # computed from the above, and so are the reasons
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietRecord:
    """What a series says of the machine when nobody disturbs (:mod:`suffice.stats.quiet`), beside its speed as it was found.

    ``tokens_per_second`` is None where that cannot be told, and ``why_not`` says why. All is computed from raw times and readings.
    """

    tokens_per_second: Estimate | None = None
    basis: str | None = None  # what it was made from
    why_not: str | None = None
    disturbed_share: float | None = None  # of the time; None: nothing shows what quiet is
    slowdown: float | None = None  # how many times as long all took as it takes when quiet
    bimodal: bool | None = None  # step times gather at more than one place
    drift: Trend | None = None  # of the repetitions' rates
    marked: int = 0  # repetitions that were disturbed
    unmarked: int = 0  # that were not; of the rest it is not known


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRecord:
    """One reading of the reference kernel, as in :class:`~suffice.decide.reference.ReferenceReading`."""

    time_s: float
    cost_s: float
    memory_s: float | None = None
    compute_s: float | None = None
    memory_bytes: int | None = None
    cache_resident: bool | None = None
    waited_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeSeries:
    """Repetitions of decoding at one depth. ``step_s`` holds the raw seconds of each step, a row per repetition.

    ``batch`` sequences decode together in each step; ``tokens_per_second`` is that of one of them. In an extrapolated record a row
    holds one time, that of a step of the whole model; the raw times are in ``extrapolation``.
    """

    depth: int
    threads: int
    batch: int = 1
    tokens_per_second: Estimate | None = None
    step_s: tuple[tuple[float, ...], ...] = ()
    stopped: str | None = None
    repetitions: tuple[RepetitionRecord, ...] = ()  # one for each row; empty: nobody watched them
    quiet: QuietRecord | None = None  # None: not watched, or not finished


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillSeries:
    """Repetitions of one prompt. ``chunk_s`` holds the raw seconds of each chunk, a row per repetition."""

    prompt_tokens: int  # evaluated in each repetition
    threads: int
    chunk_tokens: tuple[int, ...] = ()
    tokens_per_second: Estimate | None = None
    chunk_s: tuple[tuple[float, ...], ...] = ()
    stopped: str | None = None
    repetitions: tuple[RepetitionRecord, ...] = ()  # as above
    quiet: QuietRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPoint:
    """Speed at one thread count, from the short sweep that chose the threads."""

    threads: int
    decode_tokens_per_second: float | None
    prefill_tokens_per_second: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRecord:
    """Seconds from the call until the first token could be evaluated. Cold: the file was not in the page cache."""

    cold_s: float | None = None
    warm_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthRecord:
    """Sustained read bandwidth, a measured lower bound, with its method."""

    read_bytes_per_s: float
    interval_low_bytes_per_s: float | None = None
    interval_high_bytes_per_s: float | None = None
    interval_level: float | None = None
    samples_bytes_per_s: tuple[float, ...] = ()
    kernel: str | None = None
    threads: int | None = None
    buffer_bytes: int | None = None
    llc_bytes: int | None = None
    cache_resident: bool | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingRecord:
    """The ceiling at the measured bandwidth: decode at the run's depth, prefill for its prompt."""

    decode_tokens_per_second: float | None = None
    prefill_tokens_per_second: float | None = None
    bandwidth_bytes_per_s: float | None = None
    bound: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKindRecord:
    """Layers that are alike, and what one of them weighs. "output head" stands here too when slices keep a part of it."""

    label: str
    layers: float  # of this kind in the whole model
    layer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRecord:
    """One slice that was run: its layers of each kind (and share of the head), and its bytes."""

    layers: int
    counts: tuple[float, ...]
    n_vocab: int
    tensor_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtrapolatedSeries:
    """Raw times of the slices in one kind of work, and the line through them (:mod:`suffice.model.extrapolation`).

    ``times_s[slice][repetition]`` are seconds of steps (decode) or of chunks (prefill). The fit is that of the medians over repetitions.
    """

    phase: str  # "decode" or "prefill"
    depth: int
    batch: int
    work: tuple[float, ...]  # of one layer of each kind: bytes read (decode) or multiplications per token (prefill)
    times_s: tuple[tuple[tuple[float, ...], ...], ...]
    fixed_s: float | None = None
    layer_s: tuple[float, ...] = ()
    largest_residual: float | None = None  # how far the worst slice lies off the line, as a share of its time


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsRecord:
    """How many different experts of a layer a decode step read, counted in the engine, beside what even routing would read."""

    batch: int
    n_expert: int
    n_used: int
    distinct_mean: float
    expected: float  # E(1-(1-k/E)^B)
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtrapolationRecord:
    """How the figures of a model that was not here were got: kinds of layers, the slices that were run, and their lines."""

    kinds: tuple[LayerKindRecord, ...]
    slices: tuple[SliceRecord, ...]
    series: tuple[ExtrapolatedSeries, ...] = ()
    experts: tuple[ExpertsRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePass:
    """Repetitions of one pass as a server makes it: a decode step of ``size`` sequences, or a chunk of ``size`` tokens of one prompt.

    ``depth`` tokens are in the cache of each sequence before it. ``seconds`` has one value a repetition, the median of its passes. In
    a record of slices it is the time of the whole model, ``slice_s[slice][repetition]`` are those of the slices, and ``work`` and
    ``largest_residual`` are those of an :class:`ExtrapolatedSeries`.
    """

    size: int
    depth: int
    seconds: tuple[float, ...] = ()
    slice_s: tuple[tuple[float, ...], ...] = ()
    work: tuple[float, ...] = ()
    largest_residual: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord:
    """The service curve: what a step costs when several requests are served, measured in process.

    With several ``instances`` the machine runs so many engines side by side, one on each NUMA node, and serves so many times the slots. The
    curve is that of one of them while all are at work, at each repetition the slowest.
    """

    slots: int  # largest number of sequences that was asked for, of one engine
    instances: int = 1  # engines that ran side by side, each with these slots and with weights of its own
    context_tokens: int | None = None  # room that each sequence had
    decode_threads: int | None = None  # of a step of one sequence
    prefill_threads: int | None = None  # of every pass of more than one token, as in llama.cpp
    decode: tuple[ServicePass, ...] = ()
    prefill: tuple[ServicePass, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementRecord:
    """The raw series and their estimates."""

    decode: tuple[DecodeSeries, ...] = ()  # the first is at the run's depth
    prefill: PrefillSeries | None = None
    ttft_s: Estimate | None = None  # of the run's prompt, measured as prefill plus first decode step
    thread_sweep: tuple[ThreadPoint, ...] = ()
    load: LoadRecord = field(default_factory=LoadRecord)
    peak_rss_bytes: int | None = None
    budget_s: float | None = None
    extrapolation: ExtrapolationRecord | None = None  # None: the model itself was run
    service: ServiceRecord | None = None  # None: not asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentionRecord:
    """Was the machine busy? ``readings`` are the raw ones, ``reasons`` what made the mark."""

    disturbed: bool | None = None
    reasons: tuple[str, ...] = ()
    readings: dict[str, Any] = field(default_factory=dict)
    # Readings of the reference kernel, a row for each part of the run (one that was resumed has several): its work is fixed anew in each.
    references: tuple[tuple[ReferenceRecord, ...], ...] = ()
    marks_rule: int | None = None  # which rule the marks of repetitions follow (decide/quiet.py); None: today's


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One measurement of one model on one machine by one engine.

    The three plain numbers at the top repeat the points of the estimates, for scripts that want no more; a file in which
    they disagree with the raw samples was edited, and is refused.
    """

    __pydantic_config__ = _NO_NAN

    schema_version: int = SCHEMA_VERSION
    suffice_version: str | None = None
    created_at: str | None = None  # UTC, ISO 8601
    complete: bool = True  # False: killed or still running; what is there is right
    source: str = "suffice"  # or "llama-bench"
    decode_tokens_per_second: float | None = None
    prefill_tokens_per_second: float | None = None
    ttft_s: float | None = None
    basis: str = "measured"  # or "extrapolated": from slices, or from a stand-in of random weights
    disturbed: bool | None = None
    machine: str | None = None  # CPU or GPU model name
    device_kind: str = "cpu"  # "cpu" or "gpu": where the layers ran
    model: ModelRecord = field(default_factory=ModelRecord)
    engine: EngineRecord = field(default_factory=EngineRecord)
    settings: dict[str, Any] = field(default_factory=dict)
    measurement: MeasurementRecord = field(default_factory=MeasurementRecord)
    bandwidth_before: BandwidthRecord | None = None
    bandwidth_after: BandwidthRecord | None = None
    cache_bandwidth: BandwidthRecord | None = None  # at the model's size, when it fits in the last-level cache
    ceiling: CeilingRecord = field(default_factory=CeilingRecord)
    contradictions: tuple[str, ...] = ()
    contention: ContentionRecord = field(default_factory=ContentionRecord)
    memory_usable_bytes: int | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
