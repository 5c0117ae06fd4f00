"""Sample logs of lm-evaluation-harness (``--log_samples``): what one model answered and how the harness scored it, document by document.

Forms that are read, by the code that writes them (EleutherAI/lm-evaluation-harness, ``lm_eval/evaluator.py``,
``lm_eval/loggers/evaluation_tracker.py`` and, in 0.4.0, ``lm_eval/__main__.py``):

- up to 0.4.2: one JSON list of all samples, in a file that ends with ``.jsonl`` all the same; ``arguments`` is a list of lists;
- from 0.4.3 on: one object a line; ``arguments`` is ``{"gen_args_0": {"arg_0": ..., "arg_1": ...}}``, ``resps``, ``filtered_resps`` and
  ``target`` are texts, log-probabilities among them; ``doc_hash``, ``prompt_hash`` and ``target_hash`` say what was asked;
- later: ``filter`` and ``metrics`` as well, and one line for each filter of a document.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import RecordError
from suffice.loaders.json_lines import JsonLines, canonical_json, open_regular
from suffice.loaders.strict_json import parse_json, shown
from suffice.model.answers import Scored
from suffice.model.scoring import Score
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MAX_LIST_BYTES: Final = 256 * MIB
_NO_FILTER: Final = "none"
# Of several metrics, the first that is there is taken, unless one is named. Of all of these more is better.
_USUAL_METRICS: Final = ("exact_match", "acc", "em", "pass@1", "prompt_level_strict_acc", "mcc", "f1", "acc_norm")
# Words of names of metrics of which less is better (lm-evaluation-harness's own and the evaluate library's): a log does not say which
# way a metric goes.
_WORDS_OF_ERROR: Final = frozenset(
    "wer cer ter mer wil perplexity ppl loss nll nlls brier mse rmse mae mape smape msle rmsle ece mce error errors err bpb bits "
    "entropy crossentropy distance divergence kl latency toxicity hallucination hallucinations failure failures".split()
)
_OWN_FIELDS: Final = frozenset(
    {"doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"}
    | {"doc_hash", "prompt_hash", "target_hash", "raw_response", "schema"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSamples:
    """The scores of one model in one sample log, by one metric and one filter. ``filter`` is None in logs that name none.

    ``metrics`` and ``filters`` are all that the log has. Scores are the harness's own, 0 to 1; log-probabilities stand in ``choices``
    by the id of the document, where the log has them, in the order of the choices.
    """

    source: str
    metric: str
    metrics: tuple[str, ...]
    filter: str | None
    filters: tuple[str, ...]
    scored: tuple[Scored, ...]
    choices: dict[str, tuple[float, ...]]
    notes: tuple[str, ...] = ()


def read_eval_samples(path: Path, *, metric: str | None = None, filter_name: str | None = None) -> EvalSamples:
    """The scores in a sample log.

    Args:
        path: a ``samples_*.jsonl`` of the harness.
        metric: its name in the log (``acc``, ``acc_norm``, ``exact_match``, ...); None takes the first usual one. More of it is taken to be
            better.
        filter_name: needed where the log has several (``strict-match``, ``flexible-extract``).

    Raises:
        RecordError: unreadable, no such log, a document stands in it twice, metric or filter are not in it or not scores, less of the
            metric is better, or none was named and none is usual.
    """
    rows = list(_rows(path))
    if not rows:
        raise RecordError(f"{path} holds no samples")
    filters = tuple(dict.fromkeys(row.filter for row in rows))
    chosen_filter = _chosen_filter(path, filters, filter_name)
    kept = [row for row in rows if row.filter == chosen_filter]
    metrics = tuple(dict.fromkeys(name for row in kept for name in row.metrics))
    chosen = _chosen_metric(path, metrics, metric)
    _check_unique(path, kept)
    scored = tuple(
        Scored(
            item_id=row.doc_id,
            item_hash=row.asked_hash,
            cluster=f"item {row.doc_id}",
            score=_score(row, chosen),
            text=row.text,
        )
        for row in kept
    )
    if all(one.score.value is None for one in scored):
        raise RecordError(
            f"{path}: the metric {chosen} is no number from 0 to 1 for any sample; there is {_list(metrics)}"
        )
    return EvalSamples(
        source=str(path),
        metric=chosen,
        metrics=metrics,
        filter=None if chosen_filter == _NO_FILTER else chosen_filter,
        filters=filters,
        scored=scored,
        choices={row.doc_id: row.choices for row in kept if row.choices},
        notes=_notes(metrics, chosen, scored),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    where: str
    doc_id: str
    filter: str
    metrics: dict[str, object]
    asked_hash: str
    text: str | None
    choices: tuple[float, ...]


def _rows(path: Path) -> Iterator[_Row]:
    if _is_list(path):
        yield from (_row(sample, f"{path} sample {index}") for index, sample in enumerate(_listed(path)))
        return
    for line in JsonLines(path, error=RecordError):
        where = f"{path} line {line.number}"
        if line.document is None:
            raise RecordError(f"{where}: {line.problem}")
        yield _row(line.document, where)


def _is_list(path: Path) -> bool:
    with open_regular(path, error=RecordError) as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")


def _listed(path: Path) -> list[Any]:
    with open_regular(path, error=RecordError) as file:
        data = file.read(_MAX_LIST_BYTES + 1)
    if len(data) > _MAX_LIST_BYTES:
        raise RecordError(f"{path} is one JSON list of more than {_MAX_LIST_BYTES} bytes; write one sample a line")
    try:
        document = parse_json(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RecordError(f"{path} is not UTF-8 text (byte {error.start})") from error
    except RecordError as error:
        raise RecordError(f"{path} is {error}") from error
    return document if isinstance(document, list) else [document]


def _row(sample: object, where: str) -> _Row:
    if not isinstance(sample, dict) or "doc_id" not in sample or "filtered_resps" not in sample:
        raise RecordError(f"{where} is no sample of lm-evaluation-harness: it has no 'doc_id' or no 'filtered_resps'")
    doc_id = sample["doc_id"]
    if isinstance(doc_id, bool) or not isinstance(doc_id, int | str):
        raise RecordError(f"{where}: 'doc_id' is {shown(doc_id)}, not a number or a text")
    filter_name = sample.get("filter", _NO_FILTER)
    if not isinstance(filter_name, str):
        raise RecordError(f"{where}: 'filter' is {shown(filter_name)}, not a text")
    return _Row(
        where=where,
        doc_id=str(doc_id),
        filter=filter_name,
        metrics=_metrics(sample),
        asked_hash=_asked_hash(sample),
        text=_text(sample["filtered_resps"]),
        choices=_choices(sample["filtered_resps"]),
    )


def _metrics(sample: dict[str, Any]) -> dict[str, object]:
    """The values by the names of the metrics; without ``metrics`` they are what no other field is. ``acc,none`` is ``acc``."""
    named = sample.get("metrics")
    if isinstance(named, list):
        names = [name for name in named if isinstance(name, str) and name in sample]
    else:
        names = [name for name in sample if name not in _OWN_FIELDS]
    return {name.partition(",")[0]: sample[name] for name in names}


def _asked_hash(sample: dict[str, Any]) -> str:
    """What was asked: the harness's hash of the document, or our own of it, of the target without one.

    The prompt is not in it: two models' chat templates write the same document differently.
    """
    known = sample.get("doc_hash")
    if isinstance(known, str) and known:
        return known
    return hashlib.sha256(canonical_json(sample.get("doc", str(sample.get("target")))).encode()).hexdigest()


def _text(responses: object) -> str | None:
    """The answer, of tasks that generate: ``["text"]`` or ``[["text", ...]]``; None for tasks that weigh choices."""
    first = responses[0] if isinstance(responses, list) and responses else responses
    if isinstance(first, list) and len(first) == 1:
        first = first[0]
    if isinstance(first, str):
        return first
    return None


def _choices(responses: object) -> tuple[float, ...]:
    """Log-probabilities of tasks that weigh choices: ``[[-1.5, false], ...]``, since 0.4.3 as texts. Empty when it is something else."""
    if not isinstance(responses, list):
        return ()
    totals = []
    for pair in responses:
        if not isinstance(pair, list) or len(pair) != len(("total", "greedy")):
            return ()
        if str(pair[1]).lower() not in ("true", "false", "0.0", "1.0"):
            return ()
        total = _number(pair[0])
        if total is None:
            return ()
        totals.append(total)
    return tuple(totals)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) or number == math.inf else number


def _score(row: _Row, metric: str) -> Score:
    value = row.metrics.get(metric)
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return Score(value=float(value), found=row.text)
    return Score(value=None, reason=f"{row.where}: {metric} is {shown(value)}, not a number from 0 to 1")


def _chosen_filter(path: Path, filters: tuple[str, ...], wanted: str | None) -> str:
    if wanted is None:
        if len(filters) > 1:
            raise RecordError(f"{path} has several filters ({_list(filters)}); say which one counts with --log-filter")
        return filters[0]
    if wanted not in filters:
        raise RecordError(f"{path} has no filter {shown(wanted)}; there is {_list(filters)}")
    return wanted


def _chosen_metric(path: Path, metrics: tuple[str, ...], wanted: str | None) -> str:
    if not metrics:
        raise RecordError(f"{path} has no metric: nothing in it says what is right")
    if wanted is None:
        wanted = next((name for name in _USUAL_METRICS if name in metrics), None)
    if wanted is None and all(map(_is_error, metrics)):
        raise RecordError(_refusal(path, metrics[0]))
    if wanted is None:
        raise RecordError(
            f"{path} has no metric of which it is known that more is better; name one with --log-metric: there is {_list(metrics)}"
        )
    if wanted not in metrics:
        raise RecordError(f"{path} has no metric {shown(wanted)}; there is {_list(metrics)}")
    if _is_error(wanted):
        raise RecordError(_refusal(path, wanted))
    return wanted


def _is_error(metric: str) -> bool:
    """Whether less of a metric is better, by its name."""
    apart = re.sub("([a-z])([A-Z])", r"\1 \2", metric)
    return not _WORDS_OF_ERROR.isdisjoint(re.split("[^a-z]+", apart.lower()))


def _refusal(path: Path, metric: str) -> str:
    return (
        f"{path}: {shown(metric)} measures errors, of which less is better, and a comparison counts a larger score as the better one; "
        "name a metric of which more is better with --log-metric"
    )


def _check_unique(path: Path, rows: list[_Row]) -> None:
    seen: dict[str, str] = {}
    for row in rows:
        if row.doc_id in seen:
            raise RecordError(
                f"{row.where}: document {row.doc_id} stands there already; {path} may hold two runs or tasks"
            )
        seen[row.doc_id] = row.where


def _notes(metrics: tuple[str, ...], chosen: str, scored: tuple[Scored, ...]) -> tuple[str, ...]:
    notes = []
    others = [name for name in metrics if name != chosen]
    if others:
        notes.append(f"scored by {chosen}; the log has {_list(others)} as well")
    if chosen not in _USUAL_METRICS:
        notes.append(f"more of {chosen} is taken to be better: the log does not say which way it goes")
    unknown = [one.score.reason or "" for one in scored if one.score.value is None]
    if unknown:
        notes.append(f"{len(unknown)} of {len(scored)} samples have no score: {unknown[0]}")
    return tuple(notes)


def _list(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(shown(name) for name in names)
