"""A demand of training in TOML: every field, and one clear sentence for everything that is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.command_line import command_line
from suffice.errors import DemandError
from suffice.loaders.demand import load_any_demand, load_demand, parse_any_demand, parse_demand
from suffice.loaders.training import load_training
from suffice.model.demand import Demand
from suffice.model.training import LoraTargets, Method, Optimizer, Precision, TrainingDemand, TrainingKind

FULL = """
[demand]
kind = "finetune"
model = "llama-3.1-8b:q4_k_m"
method = "qlora"
examples = 10_000
tokens_per_example = 600
epochs = 3
sequence_tokens = 2048
batch_tokens = 65536
sequences_at_once = 2
lora_rank = 16
lora_targets = "attention"
optimizer = "adamw_8bit"
precision = "fp16"
gradient_checkpointing = true
deadline_hours = 24
margin = 2
budget = 300
budget_per_month = 400
runs_per_month = 2
currency = "USD"
"""


def _complaint(body: str, kind: str = "finetune") -> str:
    with pytest.raises(DemandError) as failure:
        parse_any_demand(f'[demand]\nkind = "{kind}"\n{body}', source="training.toml")
    message = str(failure.value)
    assert message.startswith("training.toml")
    assert message.isprintable()
    return message


def test_every_field_of_a_training_is_read_into_si_units() -> None:
    """All fields arrive: tokens are examples times tokens times epochs, and hours are seconds."""
    assert parse_any_demand(FULL) == TrainingDemand(
        kind=TrainingKind.FINETUNE,
        tokens=18e6,
        sequence_tokens=2048,
        method=Method.QLORA,
        batch_tokens=65536,
        sequences_at_once=2,
        lora_rank=16,
        lora_targets=LoraTargets.ATTENTION,
        optimizer=Optimizer.ADAMW_8BIT,
        precision=Precision.FP16,
        gradient_checkpointing=True,
        window_s=86400,
        margin=2,
        budget=300,
        budget_per_month=400,
        runs_per_month=2,
        currency="USD",
        model="llama-3.1-8b:q4_k_m",
        tokens_per_example=600,
    )


def test_the_smaller_of_two_budgets_holds() -> None:
    """400 a month for two trainings is 200 for one, less than the 300 that one may cost."""
    demand = parse_any_demand(FULL)

    assert isinstance(demand, TrainingDemand)
    assert demand.budget_of_one == 200


def test_a_batch_bounds_the_devices() -> None:
    """65,536 tokens a step are 16 devices with two sequences of 2,048 each."""
    demand = parse_any_demand(FULL)

    assert isinstance(demand, TrainingDemand)
    assert demand.most_devices == 16


def test_a_pretraining_trains_all_weights() -> None:
    """Its method need not be said; what it is trained on must."""
    demand = parse_any_demand('[demand]\nkind = "pretrain"\ntokens = 2e12\nsequence_tokens = 4096\n')

    assert isinstance(demand, TrainingDemand)
    assert (demand.kind, demand.method, demand.tokens) == (TrainingKind.PRETRAIN, Method.FULL, 2e12)
    assert "State 'tokens'" in _complaint("sequence_tokens = 4096", "pretrain")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "'method' is missing"),
        ('method = "dora"', "'full', 'lora', 'qlora'"),
        ('method = "lora"\ntokens = 5\nsequence_tokens = 5', "needs 'lora_rank'"),
        ('method = "full"\nlora_rank = 8', "are of the methods"),
        ('method = "full"\ntokens = 5', "'sequence_tokens' is missing"),
        ('method = "full"\nsequence_tokens = 5', "how much is trained on"),
        ('method = "full"\nexamples = 5\nsequence_tokens = 5', "how much is trained on"),
        ('method = "full"\ntokens = 5\nexamples = 5\nsequence_tokens = 5', "both stated"),
        ('method = "full"\ntokens = 5\nsequence_tokens = 500\nbatch_tokens = 100', "holds no sequence"),
        ('method = "full"\ntokens = 500\nsequence_tokens = 501', "hold no sequence"),
        (
            'method = "full"\ntokens = 1e6\nsequence_tokens = 2048\nsequences_at_once = 8\nbatch_tokens = 4096',
            "8 sequences of 2048 tokens at once are 16384, more than a batch of 4096",
        ),
        ('method = "full"\ntokens = 1e17\nepochs = 2\nsequence_tokens = 500', "2e+17 tokens in all epochs"),
        ('method = "full"\nexamples = 1\ntokens_per_example = 1\nepochs = 0.5\nsequence_tokens = 500', "0.5 tokens"),
        ('method = "full"\ntokens = 1e6\nsequence_tokens = 500\nruns_per_month = 1e-300', "runs_per_month"),
        ('method = "full"\ntokens = 5\nsequence_tokens = 5\nbudget = 5', "needs a 'currency'"),
        ('method = "full"\ntokens = 5\nsequence_tokens = 5\noptimizer = "lion"', "'adamw', 'adamw_8bit', 'sgd'"),
        ('method = "full"\ntokens = 5\nsequence_tokens = 5\nprecision = "fp8"', "precision = 'fp8'"),
        ('method = "full"\ntokens = nan\nsequence_tokens = 5', "finite"),
        ('method = "full"\ntokens = 1e30\nsequence_tokens = 5', "tokens"),
        ('method = "full"\ntokns = 5', "did you mean 'tokens'"),
        ("window_hours = 5\ndeadline_hours = 5", "two names of one field"),
        ("ttft_s = 5", "unknown field 'ttft_s'"),
    ],
)
def test_wrong_trainings_name_the_field(body: str, words: str) -> None:
    """Each wrong, contradictory or incomplete demand gets one sentence with the field and what to do."""
    assert words in _complaint(body)


def test_a_pretraining_has_no_adapters() -> None:
    """Adapters stand beside weights that exist."""
    assert "weights that exist" in _complaint(
        'method = "lora"\nlora_rank = 8\ntokens = 5\nsequence_tokens = 5', "pretrain"
    )


def test_commands_about_answers_refuse_a_training(tmp_path: Path) -> None:
    """One sentence that names the command which judges it; only the reader of both takes it."""
    path = tmp_path / "training.toml"
    path.write_text(FULL, encoding="utf-8")

    with pytest.raises(DemandError, match="only `suffice plan` judges") as failure:
        load_demand(path)

    assert str(failure.value).startswith("training.toml")
    assert load_any_demand(path) == load_training(path)


def test_the_example_in_the_docs_is_accepted() -> None:
    """What readers paste from docs/training.md is a training, and every field of it is in the table."""
    text = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    rows = " ".join(row for row in text.splitlines() if row.startswith("| `"))

    assert isinstance(parse_any_demand(block), TrainingDemand)
    assert all(
        f"`{line.split(' = ')[0]}`" in rows for line in FULL.splitlines() if " = " in line and "model" not in line
    )


def test_the_reader_of_both_reads_answers_as_before() -> None:
    """A demand of answers is the same through either reader."""
    text = '[demand]\nkind = "interactive"\ntokens_per_second_per_user = 8\n'

    assert isinstance(parse_any_demand(text), Demand)
    assert parse_any_demand(text) == parse_demand(text)


@pytest.mark.parametrize("words", [["--provider", "aws"], ["--top", "2"], ["--kind", "gpu"], ["--all"]])
def test_options_of_serving_are_refused_for_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """They changed nothing, and nobody said so: a plan of one provider named another's machine."""
    tmp_path.joinpath("train.toml").write_text(FULL, encoding="utf-8")

    refused = command_line(monkeypatch, capsys, tmp_path)("plan", "train.toml", *words)

    assert refused.code == 2
    assert words[0] in refused.err
    assert "this demand is of a training" in refused.err
