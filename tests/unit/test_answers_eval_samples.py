"""Sample logs of lm-evaluation-harness, in the forms that its versions write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from suffice.errors import RecordError
from suffice.loaders.eval_samples import read_eval_samples
from suffice.model.answers import ChoiceLogprob, pair_scores
from suffice.model.items import ChoiceLength
from suffice.model.scoring import choice_score

if TYPE_CHECKING:
    from pathlib import Path

CHOICES = ["a warm coat", "ice"]


def old_choice(doc_id: int, sums: tuple[float, float], target: int) -> dict[str, Any]:
    """A multiple-choice sample as 0.4.0 writes it: numbers, lists, no hashes."""
    best = int(sums[1] > sums[0])
    normed = int(sums[1] / len(CHOICES[1]) > sums[0] / len(CHOICES[0]))
    return {
        "doc_id": doc_id,
        "doc": {"question": f"What keeps you warm? {doc_id}", "choices": CHOICES, "answer": target},
        "target": target,
        "arguments": [["Question:", f" {choice}"] for choice in CHOICES],
        "resps": [[[total, False]] for total in sums],
        "filtered_resps": [[total, False] for total in sums],
        "acc": float(best == target),
        "acc_norm": float(normed == target),
    }


def new_choice(doc_id: int, sums: tuple[float, float], target: int) -> dict[str, Any]:
    """The same as 0.4.3 and later write it: texts, named arguments, hashes, filter and metrics."""
    old = old_choice(doc_id, sums, target)
    return old | {
        "target": str(target),
        "arguments": {
            f"gen_args_{i}": {"arg_0": "Question:", "arg_1": f" {choice}"} for i, choice in enumerate(CHOICES)
        },
        "resps": [[[str(total), "False"]] for total in sums],
        "filtered_resps": [[str(total), "False"] for total in sums],
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": f"{doc_id:064x}",
        "prompt_hash": "p",
        "target_hash": "t",
    }


def generated(doc_id: int, text: str, score: object, **more: Any) -> dict[str, Any]:  # noqa: ANN401  # JSON fields
    """A sample of a task that generates, as gsm8k's."""
    return {
        "doc_id": doc_id,
        "doc": {"question": f"How many? {doc_id}", "answer": "#### 4"},
        "target": "#### 4",
        "arguments": {"gen_args_0": {"arg_0": "Question", "arg_1": {"until": ["Question:"], "do_sample": False}}},
        "resps": [[f"So it is {text}."]],
        "filtered_resps": [text],
        "filter": "strict-match",
        "metrics": ["exact_match"],
        "doc_hash": f"{doc_id:064x}",
        "exact_match": score,
    } | more


def lines(path: Path, *rows: object) -> Path:
    """A log with one sample a line."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


SUMS = (((-9.0, -4.0), 0), ((-3.0, -6.0), 0), ((-30.0, -4.0), 1))


@pytest.mark.parametrize("form", ["list", "old lines", "new lines"])
@pytest.mark.parametrize(("metric", "values"), [(None, (0, 1, 1)), ("acc", (0, 1, 1)), ("acc_norm", (1, 1, 1))])
def test_multiple_choice_in_all_forms(
    tmp_path: Path, form: str, metric: str | None, values: tuple[float, float, float]
) -> None:
    """One JSON list (0.4.0), lines with numbers and lines with texts give the same scores and log-probabilities."""
    path = tmp_path / "samples_task.jsonl"
    make = new_choice if form == "new lines" else old_choice
    rows = [make(doc_id, sums, target) for doc_id, (sums, target) in enumerate(SUMS)]
    if form == "list":
        path.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    else:
        lines(path, *rows)

    found = read_eval_samples(path, metric=metric)

    assert tuple(one.score.value for one in found.scored) == values
    assert [one.item_id for one in found.scored] == ["0", "1", "2"]
    assert found.choices == {str(i): sums for i, (sums, _) in enumerate(SUMS)}
    assert found.metrics == ("acc", "acc_norm")


def test_our_own_rules_give_the_harness_scores(tmp_path: Path) -> None:
    """The metric acc is the sum and acc_norm the sum per character: our scores of its log-probabilities are its own."""
    rows = [new_choice(doc_id, sums, target) for doc_id, (sums, target) in enumerate(SUMS)]
    path = lines(tmp_path / "s.jsonl", *rows)

    for metric, length in (("acc", ChoiceLength.NONE), ("acc_norm", ChoiceLength.CHARACTER)):
        found = read_eval_samples(path, metric=metric)
        for one, (_, target) in zip(found.scored, SUMS, strict=True):
            weighed = [ChoiceLogprob(total=total) for total in found.choices[one.item_id]]
            assert choice_score(weighed, CHOICES, [target], length).value == one.score.value


def test_a_task_that_generates(tmp_path: Path) -> None:
    """The filtered answer is the text; a list of one, as some filters write, is the same."""
    rows = [generated(0, "4", 1.0), generated(1, "5", 0.0), generated(2, "4", True, filtered_resps=[["4"]])]

    found = read_eval_samples(lines(tmp_path / "s.jsonl", *rows))

    assert [(one.text, one.score.value) for one in found.scored] == [("4", 1), ("5", 0), ("4", 1)]
    assert (found.metric, found.filter, found.choices, found.notes) == ("exact_match", "strict-match", {}, ())


def test_several_filters_need_a_choice(tmp_path: Path) -> None:
    """Each document stands there once for each filter; which of them counts is the user's to say."""
    rows = [
        generated(0, "4", 1.0),
        generated(0, "5", 0.0, filter="flexible-extract"),
        generated(1, "4", 1.0, filter="flexible-extract"),
        generated(1, "4", 1.0),
    ]
    path = lines(tmp_path / "s.jsonl", *rows)

    with pytest.raises(RecordError, match=r"several filters \('strict-match', 'flexible-extract'\)"):
        read_eval_samples(path)
    found = read_eval_samples(path, filter_name="flexible-extract")
    assert [one.score.value for one in found.scored] == [0, 1]
    assert found.filters == ("strict-match", "flexible-extract")


def test_two_logs_are_compared_pair_by_pair(tmp_path: Path) -> None:
    """Documents meet by their id, whatever their order; a document that differs is refused."""
    first = lines(tmp_path / "a.jsonl", *[generated(i, "4", 1.0) for i in range(3)])
    second = lines(tmp_path / "b.jsonl", *[generated(i, "4", float(i > 0)) for i in (2, 1, 0, 7)])
    other = lines(tmp_path / "c.jsonl", generated(0, "4", 1.0, doc_hash="other"))
    reference = read_eval_samples(first).scored

    pairing = pair_scores(reference, read_eval_samples(second).scored)

    assert (pairing.reference, pairing.candidate, pairing.unpaired) == ((1, 1, 1), (0, 1, 1), ("7",))
    with pytest.raises(RecordError, match="not the same question"):
        pair_scores(reference, read_eval_samples(other).scored)


def test_logs_without_hashes_are_paired_by_their_documents(tmp_path: Path) -> None:
    """Logs of 0.4.0 have no doc_hash: ours is of the document, in whatever order its fields stand."""
    row = old_choice(0, (-1.0, -2.0), 0)
    turned = row | {"doc": dict(reversed(row["doc"].items()))}
    other = row | {"doc": row["doc"] | {"question": "Other?"}}
    hashes = [read_eval_samples(lines(tmp_path / "s.jsonl", one)).scored[0].item_hash for one in (row, turned, other)]

    assert hashes[0] == hashes[1] != hashes[2]


def test_metrics_that_are_no_scores(tmp_path: Path) -> None:
    """Some tasks log what their metric is computed from: those samples have no score, which is said."""
    rows = [generated(0, "x", 1.0), generated(1, "x", ["DATE: x", [""]])]
    path = lines(tmp_path / "s.jsonl", *rows)

    found = read_eval_samples(path)

    assert [one.score.value for one in found.scored] == [1, None]
    assert "1 of 2 samples have no score" in found.notes[0]
    assert "line 2: exact_match is ['DATE: x', ['']]" in found.notes[0]
    with pytest.raises(RecordError, match="no number from 0 to 1 for any sample"):
        read_eval_samples(lines(tmp_path / "t.jsonl", rows[1]))


def test_other_metrics_are_noted(tmp_path: Path) -> None:
    """Which metric was taken and which are there besides is said; a name with its filter (acc,none) is the metric."""
    row = old_choice(0, (-1.0, -2.0), 0)
    named = {f"{name},none" if name.startswith("acc") else name: value for name, value in row.items()}

    found = read_eval_samples(lines(tmp_path / "s.jsonl", named))

    assert found.metric == "acc"
    assert found.notes == ("scored by acc; the log has 'acc_norm' as well",)


@pytest.mark.parametrize(
    ("rows", "wanted", "said"),
    [
        ([], {}, "holds no samples"),
        ([{"id": 1}], {}, "line 1 is no sample of lm-evaluation-harness"),
        ([generated(0, "4", 1.0)] * 2, {}, "line 2: document 0 stands there already"),
        ([generated(0, "4", 1.0)], {"metric": "acc"}, "has no metric 'acc'; there is 'exact_match'"),
        ([generated(0, "4", 1.0)], {"filter_name": "x"}, "has no filter 'x'; there is 'strict-match'"),
        ([generated(0, "4", 1.0, metrics=[])], {}, "has no metric: nothing in it says what is right"),
        ([generated(0, "4", 1.0) | {"doc_id": [1]}], {}, "'doc_id' is [1]"),
        ([generated(0, "4", 1.0, filter=3)], {}, "'filter' is 3"),
        ([[1]], {}, "sample 0 is no sample"),
    ],
)
def test_what_is_no_log(tmp_path: Path, rows: list[object], wanted: dict[str, str], said: str) -> None:
    """Each is refused with the place and the reason."""
    with pytest.raises(RecordError) as caught:
        read_eval_samples(lines(tmp_path / "s.jsonl", *rows), **wanted)

    assert said in str(caught.value)


def of_metric(path: Path, **metrics: float) -> Path:
    """A log of two samples with these metrics and no other."""
    rows = [generated(i, "x", 0.0, metrics=list(metrics)) | metrics for i in range(2)]
    for row in rows:
        del row["exact_match"]
    return lines(path, *rows)


@pytest.mark.parametrize(
    "metric",
    "wer cer ter brier_score perplexity word_perplexity byte_perplexity bits_per_byte loss eval_loss nll mse rmse mae ece "
    "WER crossEntropy word_error_rate edit_distance wer,none mean_absolute_error".split(),
)
def test_metrics_of_errors_are_refused(tmp_path: Path, metric: str) -> None:
    """Less of them is better: the one that errs more would pass. Named or not, the reason is said."""
    path = of_metric(tmp_path / "s.jsonl", **{metric: 0.1})

    for wanted in (None, metric.partition(",")[0]):
        with pytest.raises(RecordError, match="measures errors, of which less is better"):
            read_eval_samples(path, metric=wanted)


def test_a_metric_that_nobody_knows_has_to_be_named(tmp_path: Path) -> None:
    """Which way it goes is the user's to say; a known one beside it, or beside an error, is taken as before."""
    path = of_metric(tmp_path / "s.jsonl", my_score=0.5, wer=0.2)

    with pytest.raises(RecordError, match=r"name one with --log-metric: there is 'my_score', 'wer'"):
        read_eval_samples(path)
    named = read_eval_samples(path, metric="my_score")
    assert named.notes[-1] == "more of my_score is taken to be better: the log does not say which way it goes"
    usual = read_eval_samples(of_metric(tmp_path / "t.jsonl", wer=0.2, acc=1.0, zeal=0.3))
    assert (usual.metric, usual.notes) == ("acc", ("scored by acc; the log has 'wer', 'zeal' as well",))
    assert read_eval_samples(of_metric(tmp_path / "u.jsonl", acc_norm=1.0)).metric == "acc_norm"
    for fair in ("answer", "master", "bleu", "rougeL", "chrf", "lossless", "interval"):
        assert read_eval_samples(of_metric(tmp_path / "v.jsonl", **{fair: 0.5}), metric=fair).metric == fair
