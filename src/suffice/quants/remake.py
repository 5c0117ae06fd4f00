"""Makes a candidate of a comparison: the reference, quantized by llama.cpp's own quantizer to a recipe such as q4_k_m."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError, ModelFileError, OutputError, UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.model_file import open_model_file
from suffice.measure.engine.quantizer import MAX_BUFFER_BYTES, QuantizeJob
from suffice.measure.limits import read_cpu_limits, read_memory_limits
from suffice.model.quants import Subject, SubjectKind
from suffice.model.recipe import RECIPE_NAMES, canonical_recipe
from suffice.quants.identity import file_identity
from suffice.quants.imatrix import read_imatrix
from suffice.quants.made_check import check_made
from suffice.quants.made_store import SPARE_DISK_BYTES, MadeNote
from suffice.quants.recipe_plan import bits_per_weight, largest_working_bytes, plan_recipe, plan_warnings
from suffice.units import MIB, format_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.loaders.model_file import ModelFile
    from suffice.measure.engine.quantizer import Quantizer, QuantizerFacts
    from suffice.quants.imatrix import Imatrix
    from suffice.quants.made_store import MadeStore
    from suffice.quants.recipe_plan import RecipePlan

# Part of every key in the cache: raise it whenever the same recipe would be given to the quantizer in another way.
_MAKING_VERSION: Final = 1
_DISK_MARGIN: Final = 1.1  # over the size by the recipe's types, which another release may choose a little larger
_OWN_MEMORY_BYTES: Final = 192 * MIB  # the engine's process, vocabulary and metadata in its several forms
_NOT_IN_NAMES: Final = re.compile(r"[^\w.+-]+")
_SPLIT: Final = re.compile(r"-\d{5}-of-\d{5}$")
_MAX_NAME_CHARACTERS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A candidate that was made here, now or before.

    Attributes:
        path: its GGUF file, in the cache.
        subject: what it is called in a comparison, with the warnings that its figures need.
        is_new: it was made now; False: it was in the cache.
        bits_per_weight: of the file that was made, all tensors together.
    """

    path: Path
    subject: Subject
    is_new: bool
    bits_per_weight: float


def recipes_of(text: str) -> tuple[str, ...]:
    """The recipes of a list such as ``q8_0,Q4_K_M``, as suffice writes them.

    Raises:
        UsageError: one is unknown (the message lists what there is), named twice, or there is none.
    """
    names = [canonical_recipe(part) for part in text.split(",") if part.strip()]
    if not names or len(set(names)) < len(names):
        raise UsageError(f"--make {text!r}: name different recipes, with commas between them, such as q8_0,q4_k_m")
    return tuple(names)


def make_candidate(
    reference: ModelFile,
    recipe: str,
    quantizer: Quantizer,
    store: MadeStore,
    *,
    imatrix: Path | None = None,
    identity: str | None = None,
    n_threads: int | None = None,
    progress: Callable[[str], None] = lambda _text: None,
) -> Made:
    """The reference quantized to ``recipe``, from the cache where it was made before.

    Args:
        reference: the model to make it from.
        recipe: a name of :data:`~suffice.model.recipe.RECIPE_NAMES`, in any of the ways people write it.
        quantizer: see :func:`~suffice.measure.engine.quantizer.find_quantizer`.
        store: the cache.
        imatrix: an importance matrix, in either form that llama-imatrix writes; None: none.
        identity: the reference's, where it is known already; None: its file is read for it.
        n_threads: threads to use; None: as many as this process may run at once.
        progress: gets a line now and then.

    Raises:
        UsageError: the recipe or the matrix cannot be used for this model, or with this llama.cpp.
        ModelFileError: the reference cannot be read.
        EngineError: the quantizer failed, or memory is short.
        OutputError: the cache cannot be written, or the disk has no room.
    """
    header = read_gguf_header(reference.path)
    plan = plan_recipe(header, recipe, has_imatrix=imatrix is not None)
    facts = quantizer.facts
    _raise_unless_able(plan, facts, quantizer, has_imatrix=imatrix is not None)
    matrix = None if imatrix is None else read_imatrix(imatrix, header)
    order = _Order(
        reference=reference,
        identity=file_identity(reference) if identity is None else identity,
        plan=plan,
        matrix=matrix,
        n_threads=n_threads,
    )

    def make(folder: Path) -> MadeNote:
        _raise_if_memory_is_short(plan, facts, matrix)
        return _make(folder, order, quantizer, progress)

    needed_bytes = round(plan.header.file_bytes * _DISK_MARGIN) + (0 if matrix is None else matrix.n_bytes)
    path, note, is_new = store.obtain(order.key(quantizer), needed_bytes, make, progress)
    return _made(path, note, order, is_new=is_new)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What is to be made."""

    reference: ModelFile
    identity: str
    plan: RecipePlan
    matrix: Imatrix | None
    n_threads: int | None

    def key(self, quantizer: Quantizer) -> str:
        """A hash of all that decides the bytes of the candidate: threads do not."""
        parts = [
            *(_MAKING_VERSION, self.identity, self.plan.recipe, None if self.matrix is None else self.matrix.sha256),
            _engine_words(quantizer),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def file_name(self) -> str:
        """The reference's name and the recipe, fit for a file."""
        stem = _SPLIT.sub("", self.reference.path.stem)
        return f"{_NOT_IN_NAMES.sub('_', stem)[:_MAX_NAME_CHARACTERS]}-{self.plan.recipe}.gguf"


def _make(folder: Path, order: _Order, quantizer: Quantizer, progress: Callable[[str], None]) -> MadeNote:
    target = folder / order.file_name
    recipe = order.plan.recipe
    progress(f"quantizing to {recipe}")
    job = QuantizeJob(
        source=order.reference.path,
        target=target,
        file_type=order.plan.file_type,
        n_threads=order.n_threads or read_cpu_limits().usable_cpus,
        imatrix=None if order.matrix is None else folder / "imatrix",
        imatrix_sizes=() if order.matrix is None else order.matrix.sizes(),
    )
    if order.matrix is not None and job.imatrix is not None:
        order.matrix.write(job.imatrix)
    try:
        quantizer.quantize(job, lambda done, count: progress(f"quantizing to {recipe}: {done} of {count} tensors"))
    except EngineError as error:
        _raise_if_disk_is_full(folder, error)
        raise
    if job.imatrix is not None:
        job.imatrix.unlink()
    check_made(target, order.plan, order.reference.path)
    _flush(target)
    return MadeNote(
        file=target.name,
        n_bytes=target.stat().st_size,
        identity=file_identity(open_model_file(target)),
        recipe=recipe,
        reference=order.reference.path.name,
        reference_identity=order.identity,
        imatrix=None if order.matrix is None else order.matrix.sha256,
        engine=_engine_words(quantizer),
    )


def _made(path: Path, note: MadeNote, order: _Order, *, is_new: bool) -> Made:
    plan = order.plan
    warnings = [*plan_warnings(plan), *check_made(path, plan, order.reference.path)]
    if order.matrix is not None and order.matrix.n_missing:
        warnings.append(
            f"the importance matrix knows nothing of {order.matrix.n_missing} of {plan.n_quantized} tensors that were quantized; those were "
            "made without it"
        )
    subject = Subject(
        name=note.recipe,
        kind=SubjectKind.MADE,
        place=str(path),
        identity=note.identity,
        quantization=note.recipe.upper(),
        file_bytes=note.n_bytes,
        made_from=order.identity,
        warnings=tuple(warnings),
    )
    return Made(path=path, subject=subject, is_new=is_new, bits_per_weight=bits_per_weight(read_gguf_header(path)))


def _engine_words(quantizer: Quantizer) -> str:
    identity = quantizer.identity
    parts = (identity.name, identity.version, identity.llama_cpp_version)
    return ", ".join(part for part in parts if part)


def _raise_unless_able(plan: RecipePlan, facts: QuantizerFacts, quantizer: Quantizer, *, has_imatrix: bool) -> None:
    unknown = sorted(plan.type_names - facts.type_names)
    if unknown:
        able = [name for name in RECIPE_NAMES if _is_able(plan, name, facts)]
        raise UsageError(
            f"{plan.recipe} takes {', '.join(unknown)}, which {_engine_words(quantizer)} does not know; it can make {', '.join(able)}"
        )
    if has_imatrix and not facts.takes_imatrix:
        raise UsageError(
            f"{_engine_words(quantizer)} takes no importance matrix from other programs, only newer builds of llama.cpp do: update it, "
            "or leave out --imatrix"
        )


def _is_able(plan: RecipePlan, recipe: str, facts: QuantizerFacts) -> bool:
    try:
        return plan_recipe(plan.reference, recipe, has_imatrix=True).type_names <= facts.type_names
    except (UsageError, ModelFileError):
        return False


def _raise_if_memory_is_short(plan: RecipePlan, facts: QuantizerFacts, matrix: Imatrix | None) -> None:
    working = largest_working_bytes(plan)
    if facts.bounds_memory:
        working = min(working, MAX_BUFFER_BYTES)
    copies = 0 if matrix is None else 3 * matrix.n_bytes  # here, in the engine's process, and in llama.cpp's own form
    needed = working + copies + _OWN_MEMORY_BYTES
    usable = read_memory_limits().usable_bytes
    if needed > usable:
        raise EngineError(
            f"quantizing to {plan.recipe} needs about {format_memory(needed)} of memory, and {format_memory(usable)} can be had now; "
            "end other programs, or make the candidate on another machine and give its file"
        )


def _raise_if_disk_is_full(folder: Path, error: EngineError) -> None:
    free = shutil.disk_usage(folder).free
    if free < SPARE_DISK_BYTES:
        raise OutputError(f"the disk of {folder.parent} became full ({format_memory(free)} free): {error}") from error


def _flush(path: Path) -> None:
    """Have the file on disk before its note says that it is whole."""
    mode = os.O_RDWR if sys.platform == "win32" else os.O_RDONLY
    descriptor = os.open(path, mode)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
