"""The candidates of `compare`: from what the user wrote to models, records and rows."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import SufficeError, UnsupportedShapeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.cli.session import Workbench
    from suffice.decide.ranking import Candidate
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.measure.request import RunRequest
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord

LEAST_CANDIDATES: Final = 2
MOST_CANDIDATES: Final = 16
# Words and commas only: an address or a path with a comma in it is one model.
_RECIPES: Final = re.compile(r"(?P<shape>.+):(?P<recipes>[\w\s]*,[\w\s,]*)", re.DOTALL)
_HASH_CHARACTERS: Final = 8
_STEM_BYTES: Final = 100  # a name may have 255, or 143 on an encrypted disk, and a file being written has a longer one


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A candidate before it is measured. One of ``model`` and ``refused`` is None: a model that cannot be built is still a row."""

    name: str
    model: ModelFile | ShapeModel | None = None
    refused: str | None = None


def wanted(models: Sequence[str]) -> tuple[Wanted, ...]:
    """All candidates, before any is measured: a slip in the last name must not cost the time of the first.

    Raises:
        UsageError: too few or too many, one of them twice, an unknown name or recipe.
        ModelFileError: a file that is not there or not usable.
    """
    from suffice.loaders.reference import resolve_model, shown_reference

    names = [name for model in models for name in spelled_out(model)]
    if not LEAST_CANDIDATES <= len(names) <= MOST_CANDIDATES:
        raise UsageError(f"a comparison takes {LEAST_CANDIDATES} to {MOST_CANDIDATES} models, not {len(names)}")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{shown_reference(twice)} is there twice; leave one out")
    found = []
    for name, shown in zip(names, _shown(names), strict=True):
        try:
            found.append(Wanted(name=shown, model=resolve_model(name)))
        except UnsupportedShapeError as error:
            found.append(Wanted(name=shown, refused=str(error)))
    _refuse_equal(found)
    return tuple(found)


def _shown(names: Sequence[str]) -> list[str]:
    """The names without what may be secret in them, each of them another one."""
    from suffice.loaders.reference import shown_reference

    seen: Counter[str] = Counter()
    shown = []
    for name in map(shown_reference, names):
        seen[name] += 1
        shown.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return shown


def spelled_out(model: str) -> list[str]:
    """``shape:q4_k_m,q8_0`` is two candidates: ``["shape:q4_k_m", "shape:q8_0"]``."""
    match = _RECIPES.fullmatch(model)
    if match is None or _is_there(Path(model)):
        return [model]
    return [f"{match['shape']}:{recipe.strip()}" for recipe in match["recipes"].split(",") if recipe.strip()]


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # longer than a path can be
        return False


def _refuse_equal(found: Sequence[Wanted]) -> None:
    """One model under two names is measured twice, and the reader takes noise for a difference."""
    seen: dict[str, str] = {}
    for one in found:
        if one.model is None:
            continue
        key = _key(one.model)
        if key in seen:
            raise UsageError(
                f"{seen[key]} and {one.name} are the same file, or the same shape under the same recipe: they run at the same speed; "
                "leave one out"
            )
        seen[key] = one.name


def _key(model: ModelFile | ShapeModel) -> str:
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import shape_hash

    if isinstance(model, ModelFile):
        status = model.path.stat()
        return f"file {status.st_dev} {status.st_ino}"
    return shape_hash(model.header)


def record_paths(folder: Path, candidates: Sequence[Wanted], *, resume: bool) -> tuple[Path, ...]:
    """Where the record of each goes; the same for the same names, whatever else is compared.

    Raises:
        UsageError: one is there already, and nobody said to go on with it.
    """
    stems = Counter(_stem(one.name).casefold() for one in candidates)
    paths = []
    for one in candidates:
        stem = _stem(one.name)
        if stems[stem.casefold()] > 1:
            stem += "-" + hashlib.sha256(one.name.encode(errors="surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
        path = folder / f"{stem}.json"
        if not resume and path.exists():
            raise UsageError(f"{path} exists; go on with the records there by --resume, or give another --out")
        paths.append(path)
    return tuple(paths)


def _stem(name: str) -> str:
    letters = "".join(c if c.isalnum() or c in "-._" else "_" for c in name)
    return letters.encode()[-_STEM_BYTES:].decode(errors="ignore")  # the end: recipes are there


def earlier_record(path: Path, request: RunRequest, bench: Workbench) -> RunRecord | None:
    """What an earlier comparison left there, or None.

    Raises:
        RecordError: it is no run record.
        UsageError: it is complete, and of another model, engine, machine or setting.
    """
    from suffice.records.store import load_record

    if not path.exists():
        return None
    record = load_record(path)
    if record.complete:
        try:
            bench.check_finished(record, request)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
        if _has_other_lengths(record, request):
            raise UsageError(
                f"{path}: the record to keep was made with another depth or prompt; leave out --resume or use the same"
            )
    return record


def _has_other_lengths(record: RunRecord, request: RunRequest) -> bool:
    """Whether it was made for other lengths; shorter ones are the same where they were shortened to fit the budget."""
    prefill, decode = record.measurement.prefill, record.measurement.decode
    if prefill is not None and prefill.prompt_tokens > request.prompt_tokens:
        return True
    deepest = max((series.depth for series in decode), default=request.depth)
    told = any(f"depth was shortened from {request.depth} " in warning for warning in record.warnings)
    may_be_shorter = (
        told or not request.lengths_stated
    )  # what nobody asked for is shortened without a word, never to nothing
    return deepest != request.depth and not (0 < deepest < request.depth and may_be_shorter)


def measure_one(
    name: str,
    request: RunRequest,
    demand: Demand | None,
    path: Path,
    bench: Workbench,
    progress: Callable[[str], None],
    earlier: RunRecord | None,
) -> tuple[Candidate, RunRecord | None]:
    """One candidate; what it cannot do is in its row and does not stop the others. ``earlier`` is kept, or gone on with."""
    from suffice.decide.evidence import evidence_from
    from suffice.decide.ranking import Candidate, candidate_from

    weights = float(request.model.shape.tensor_bytes)
    record = earlier if earlier is not None and earlier.complete else None
    try:
        if record is None:
            record = bench.run(request, path, progress, earlier=earlier)
        evidence = evidence_from(record)
        context = evidence.run_context_tokens or request.prompt_tokens
        return candidate_from(name, evidence, demand, context_tokens=context, weights_bytes=weights), record
    except SufficeError as error:
        return Candidate(name=name, weights_bytes=weights, error=str(error)), record
