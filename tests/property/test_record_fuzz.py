"""Record readers against anything: a record that can be judged and printed, or RecordError, and nothing else."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.records import document_of, run_record
from helpers.slice_runs import Bench, short_design, toy_header, toy_model
from suffice.decide import words
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.decide.guard import guard_floor
from suffice.errors import DemandError, RecordError
from suffice.loaders.any_record import load_any_record
from suffice.measure.request import RunRequest
from suffice.model.demand import Demand, DemandKind, Lengths, Limit, single_stream_need
from suffice.report.decision import decision_document, decision_text
from suffice.report.json_values import json_text
from suffice.report.junit import junit_xml
from suffice.report.memo import memo_markdown
from suffice.report.run import run_text

if TYPE_CHECKING:
    from suffice.records.schema import RunRecord

QUICK = settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats()
    | st.sampled_from([0, 1, -1, 1e-320, 1e308, 2**63, "", "gpu", "\x1b[31m", "\u202e"])
    | st.text(max_size=8)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
SECOND_NS = 10**9
BENCH_ROWS = [
    {"n_prompt": 512, "n_gen": 0, "n_threads": 2, "samples_ns": [SECOND_NS, 2 * SECOND_NS]},
    {"n_prompt": 0, "n_gen": 128, "n_threads": 2, "model_size": 5, "samples_ns": [SECOND_NS] * 8},
]
EVERYTHING = Demand(
    kind=DemandKind.INTERACTIVE,
    prompt_tokens=Lengths(p50=300, p95=2000),
    output_tokens=Lengths(p50=100, p95=400),
    requests_per_second=0.01,
    tokens_per_second_per_user=8,
    ttft=Limit(value_s=2, percentile=90),
    context_tokens=4096,
)
DEMANDS = (single_stream_need(8), EVERYTHING)


def _paths(node: Any, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:  # noqa: ANN401  # any JSON
    found = [so_far] if so_far else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        found += _paths(value, (*so_far, key))
    return found


def _replaced(node: Any, path: tuple[Any, ...], value: object) -> object:  # noqa: ANN401  # any JSON
    if not path:
        return value
    copy = dict(node) if isinstance(node, dict) else list(node)
    copy[path[0]] = _replaced(copy[path[0]], path[1:], value)
    return copy


def _use(record: RunRecord) -> None:
    """Everything that the commands do with a record must work on each one that was accepted."""
    guard = guard_floor(record, 8.0)
    assert guard.outcome.value in ("pass", "fail", "inconclusive")
    junit_xml(guard, name="run.json")
    run_text(record)
    for demand in DEMANDS:
        try:
            decision = decide(demand, [evidence_from(record), evidence_from(record, "again")])
        except DemandError:
            continue  # the record's model has too small a context
        assert decision.verdict.verdict in (words.CPU, words.CPU_THIN, words.GPU, words.UNDECIDED)
        json.loads(json_text(decision_document(decision)))
        decision_text(decision)
        memo_markdown(demand, decision, record)


def _read(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        record = load_any_record(path)
    except RecordError as error:
        assert str(error)  # noqa: PT017  # either is right; what is raised has a sentence
        return
    _use(record)


def _json_bytes(document: object) -> bytes:
    return json.dumps(document).encode()


@QUICK
@given(st.binary(max_size=200))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    """Bytes that are no record raise RecordError."""
    _read(tmp_path / "run.json", content)


@QUICK
@given(JSON)
def test_any_json(tmp_path: Path, document: object) -> None:
    """Any JSON document, NaN and infinity included, is refused or is a record."""
    _read(tmp_path / "run.json", _json_bytes(document))


@QUICK
@given(st.dictionaries(st.sampled_from(sorted(document_of(run_record()))), JSON, max_size=5))
def test_any_values_in_known_fields(tmp_path: Path, fields: dict[str, object]) -> None:
    """Known fields with anything in them."""
    _read(tmp_path / "run.json", _json_bytes({**fields, "schema_version": 1}))


@settings(parent=QUICK, max_examples=300)
@given(st.data())
def test_mutated_records(tmp_path: Path, data: st.DataObject) -> None:
    """A valid record with one or two values replaced, wherever they stand: refused, or it can be judged and printed."""
    document: Any = document_of(run_record())
    for _ in range(data.draw(st.integers(1, 2))):
        document = _replaced(document, data.draw(st.sampled_from(_paths(document))), data.draw(JSON))
        if not isinstance(document, dict):
            break
    _read(tmp_path / "run.json", _json_bytes(document))


@cache
def _sliced_document() -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        asked = RunRequest(model=toy_model(), prompt_tokens=64, threads=2, flash_attention="on", batch=2)
        bench = Bench(root=Path(folder))
        return document_of(bench.run(asked, short_design(toy_header())))


@settings(parent=QUICK, max_examples=200)
@given(st.data())
def test_mutated_records_of_slices(tmp_path: Path, data: st.DataObject) -> None:
    """A record that was extrapolated, with one or two values below its slices or anywhere replaced: refused, or it can be used."""
    document: Any = _sliced_document()
    for _ in range(data.draw(st.integers(1, 2))):
        paths = _paths(document)
        below = [path for path in paths if "extrapolation" in path]
        document = _replaced(
            document, data.draw(st.sampled_from(data.draw(st.sampled_from([below or paths, paths])))), data.draw(JSON)
        )
        if not isinstance(document, dict):
            break
    _read(tmp_path / "run.json", _json_bytes(document))


@QUICK
@given(st.data())
def test_mutated_llama_bench_files(tmp_path: Path, data: st.DataObject) -> None:
    """llama-bench's rows with one or two values replaced: refused, or a record that can be judged and printed."""
    rows: Any = BENCH_ROWS
    for _ in range(data.draw(st.integers(1, 2))):
        rows = _replaced(rows, data.draw(st.sampled_from(_paths(rows))), data.draw(JSON))
    _read(tmp_path / "bench.json", _json_bytes(rows))


@QUICK
@given(st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_damaged_files(tmp_path: Path, position: int, byte: int, cut: bool) -> None:  # noqa: FBT001  # drawn
    """One byte changed, or the file cut off there: refused, or still a record."""
    content = bytearray(_json_bytes(document_of(run_record())))
    position %= len(content)
    content[position] = byte
    _read(tmp_path / "run.json", bytes(content[:position] if cut else content))
