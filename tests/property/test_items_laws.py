"""Items, scores and answers against anything: suffice's own errors or a result, the same each time, and scores from 0 to 1."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.errors import SufficeError
from suffice.loaders.answers import AnswerStore, answers_header, read_answers
from suffice.loaders.eval_samples import read_eval_samples
from suffice.loaders.item_fields import KNOWN_FIELDS, item_from
from suffice.loaders.items import OnError, item_hash, load_items
from suffice.loaders.scores import Scorer
from suffice.model.answers import Answer, ChoiceLogprob, FinishReason
from suffice.model.items import ChoiceLength, ScoreKind
from suffice.model.scoring import Score, choice_score

QUICK = settings(max_examples=120, deadline=None, derandomize=True)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats()
    | st.sampled_from(["", "a", "A", "exact", "regex", "json", "number", "m:f", "(", "\ud800", "first", "byte", 0, 1])
    | st.text(max_size=8)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["kind", "pattern", "role", "content", "fields", "a"]), inner, max_size=4)
    ),
    max_leaves=8,
)
TEXTS = st.text(alphabet=st.sampled_from("AaBb(){}[]\"':,.%0123456789-+e 是答案０９％\n\\"), max_size=40) | st.text(
    max_size=20
)
GOOD: list[dict[str, Any]] = [
    {"id": "1", "prompt": "?", "answer": "A b"},
    {"id": "2", "prompt": "?", "answer": "a", "score": "contains"},
    {"id": "3", "prompt": "?", "answer": 12.5, "score": {"kind": "number", "tolerance": 0.5}},
    {"id": "4", "prompt": "?", "answer": {"a": [1, {"b": None}], "c": {"d": "x"}}, "score": "json"},
    {"id": "5", "prompt": "?", "choices": ["A", "b c", "是"], "answer": 1},
]
CHANGES = st.dictionaries(st.sampled_from([*sorted(KNOWN_FIELDS), "strange"]), JSON, max_size=3)
ROWS = st.builds(lambda row, changes: row | changes, st.sampled_from(GOOD), CHANGES)
ITEMS = [item_from(row, 1) for row in GOOD]


def items_or_error(data: bytes, on_error: OnError) -> int:
    """How many items a file of these bytes has; 0 when it is refused."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "items.jsonl"
        path.write_bytes(data)
        try:
            found = load_items(path, on_error=on_error)
        except SufficeError:
            return 0
    assert all(len(item_hash(item)) == 64 for item in found.items)
    assert len({item.id for item in found.items}) == len(found.items)
    return len(found.items)


@QUICK
@given(st.lists(ROWS, max_size=4))
def test_any_fields_are_items_or_one_error(rows: list[dict[str, Any]]) -> None:
    """Whatever the fields hold, no other error comes out, and skip keeps what stop would have kept."""
    data = "\n".join(json.dumps(row) for row in rows).encode()

    kept = items_or_error(data, OnError.STOP)

    assert items_or_error(data, OnError.SKIP) >= kept


@QUICK
@given(st.integers(0, 10**6), st.binary(max_size=6), st.integers(0, 6))
def test_mutated_lines_are_items_or_one_error(place: int, put: bytes, cut: int) -> None:
    """Bytes changed anywhere in a good file; every line is an item or listed as skipped."""
    good = "\n".join(json.dumps(row, ensure_ascii=False) for row in GOOD).encode()
    start = place % len(good)
    data = good[:start] + put + good[start + cut :]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "items.jsonl"
        path.write_bytes(data)
        try:
            found = load_items(path, on_error=OnError.SKIP)
        except SufficeError:
            return

    numbers = {item.line for item in found.items} | {problem.line for problem in found.skipped}
    assert numbers == {number for number, line in enumerate(data.split(b"\n"), 1) if line.strip()}


@QUICK
@given(TEXTS)
def test_scores_are_from_0_to_1_and_the_same_each_time(text: str) -> None:
    """Each kind of score of any text."""
    with Scorer() as scorer:
        first = [scorer.score_text(item, text) for item in ITEMS]
        second = [scorer.score_text(item, text) for item in ITEMS]

    assert first == second
    assert all(score.value is not None and 0 <= score.value <= 1 for score in first)
    assert all(
        score.value in (0, 1) for item, score in zip(ITEMS, first, strict=True) if item.rule.kind is not ScoreKind.JSON
    )


@QUICK
@given(JSON)
def test_the_expected_object_is_its_own_best_answer(value: object) -> None:
    """Any object scores 1 against itself, when it is written as JSON between other words."""
    expected = {"field": value}
    try:
        written = json.dumps(expected, allow_nan=False)
        item = item_from({"id": "x", "prompt": "?", "answer": expected, "score": "json"}, 1)
    except (ValueError, SufficeError):
        return
    with Scorer() as scorer:
        assert scorer.score_text(item, f"So: {written} Done.").value == 1


@QUICK
@given(
    st.lists(st.floats(-100, 0) | st.just(-math.inf), min_size=2, max_size=5),
    st.permutations(range(5)),
    st.sampled_from(list(ChoiceLength)),
)
def test_the_order_of_choices_does_not_matter(totals: list[float], order: list[int], length: ChoiceLength) -> None:
    """Choices with their log-probabilities in another order give the same score."""
    choices = [f"{index}" * (index + 1) for index in range(len(totals))]
    logprobs = [ChoiceLogprob(total=total, tokens=index + 1) for index, total in enumerate(totals)]
    turned = [index for index in order if index < len(totals)]

    def score(indices: list[int]) -> Score:
        return choice_score([logprobs[i] for i in indices], [choices[i] for i in indices], [indices.index(0)], length)

    assert score(turned).value == score(list(range(len(totals)))).value


@QUICK
@given(
    st.lists(
        st.builds(
            Answer,
            item_id=st.text(min_size=1, max_size=5),
            item_hash=st.text(alphabet="0123456789abcdef", min_size=1, max_size=8),
            text=st.none() | st.text(max_size=20),
            finish=st.none() | st.sampled_from(list(FinishReason)),
            tokens=st.none() | st.integers(0, 10**6),
            prompt_tokens=st.none() | st.integers(0, 10**6),
            choices=st.lists(
                st.builds(
                    ChoiceLogprob,
                    total=st.floats(max_value=0, min_value=-1e9) | st.just(-math.inf),
                    tokens=st.none() | st.integers(0, 99),
                ),
                max_size=4,
            ).map(tuple),
            time_s=st.none() | st.floats(0, 1e5),
            error=st.none() | st.text(max_size=10),
        ),
        max_size=5,
    ),
    st.integers(0, 200),
)
def test_answers_round_trip_and_survive_a_cut(answers: list[Answer], cut: int) -> None:
    """All answers come back as they were; after a cut anywhere behind the first line, all but those that were cut."""
    header = answers_header(model_hash="m", model="m", settings={})
    with TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        with AnswerStore(path, header) as store:
            first_bytes = path.stat().st_size
            for answer in answers:
                store.append(answer)
        assert read_answers(path).answers == tuple(answers)
        data = path.read_bytes()
        data = data[: max(first_bytes, len(data) - cut)]
        path.write_bytes(data)
        whole = data.count(b"\n") - 1
        with AnswerStore(path, header) as store:
            store.append(Answer(item_id="new", item_hash="new"))
        found = read_answers(path).answers

    assert found[:-1] == tuple(answers[:whole])
    assert found[-1].item_id == "new"


@QUICK
@given(
    st.lists(
        st.fixed_dictionaries(
            {"doc_id": JSON, "filtered_resps": JSON},
            optional={"acc": JSON, "filter": JSON, "metrics": JSON, "doc": JSON},
        ),
        min_size=1,
        max_size=3,
    )
)
def test_any_sample_log_is_scores_or_one_error(rows: list[dict[str, Any]]) -> None:
    """Whatever the fields of a log hold, scores from 0 to 1 come out, or suffice's own error."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "samples.jsonl"
        path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
        try:
            found = read_eval_samples(path)
        except SufficeError:
            return
    assert all(one.score.value is None or 0 <= one.score.value <= 1 for one in found.scored)
