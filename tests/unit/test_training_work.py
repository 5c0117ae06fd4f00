"""Operations and bytes of a training, against papers and published runs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from suffice.loaders.reference import resolve_model
from suffice.loaders.shape_model import ShapeModel
from suffice.model.kv_cache import KvLayout
from suffice.model.training import LoraTargets, Method, Optimizer, Precision, TrainingDemand, TrainingKind
from suffice.model.training_memory import (
    NF4_BITS,
    activation_bytes,
    model_state_bytes,
    trained_bytes_per_parameter,
    training_memory,
)
from suffice.model.training_work import TrainingShape, training_flop, training_shape
from suffice.units import GIB, GIGA, SECONDS_PER_HOUR, TERA


@cache
def shape(name: str) -> TrainingShape:
    """A model of the catalogue."""
    model = resolve_model(f"{name}:bf16")
    assert isinstance(model, ShapeModel)
    return training_shape(model.header, model.shape)


def finetune(
    method: Method = Method.FULL,
    *,
    rank: int | None = None,
    targets: LoraTargets = LoraTargets.ALL,
    sequence_tokens: int = 512,
    precision: Precision = Precision.BF16,
) -> TrainingDemand:
    """A million tokens of fine-tuning."""
    return TrainingDemand(
        kind=TrainingKind.FINETUNE,
        tokens=1e6,
        sequence_tokens=sequence_tokens,
        method=method,
        lora_rank=rank,
        lora_targets=targets,
        precision=precision,
    )


@pytest.mark.parametrize(
    ("name", "trillion_tokens", "sequence_tokens", "gpu_hours", "peak_tflops", "low", "high"),
    [
        ("llama-2-7b", 2.0, 4096, 184_320, 312, 0.40, 0.50),
        ("llama-2-13b", 2.0, 4096, 368_640, 312, 0.40, 0.50),
        ("llama-2-70b", 2.0, 4096, 1_720_320, 312, 0.40, 0.50),
        ("llama-3.1-8b", 15.0, 8192, 1_460_000, 989, 0.15, 0.40),
        ("llama-3.1-70b", 15.0, 8192, 7_000_000, 989, 0.25, 0.40),
        # Table 4 of arXiv:2407.21783 states 0.38 to 0.43 of the steps; the hours of the card hold what went wrong as well.
        ("llama-3.1-405b", 15.6, 8192, 30_840_000, 989, 0.33, 0.43),
    ],
)
def test_published_hours_follow_from_a_plausible_utilisation(
    name: str,
    trillion_tokens: float,
    sequence_tokens: int,
    gpu_hours: float,
    peak_tflops: float,
    low: float,
    high: float,
) -> None:
    """GPU hours of the model cards of Llama 2 and 3.1 over our operations give utilisations such as their authors state."""
    flop = training_flop(shape(name), finetune(sequence_tokens=sequence_tokens))

    assert flop is not None
    total = flop.model * trillion_tokens * TERA
    assert low < total / (gpu_hours * SECONDS_PER_HOUR * peak_tflops * TERA) < high


def test_operations_are_those_of_palm_by_hand() -> None:
    """Llama 2 7B: 6 x 6.607 billion in matrices, and 12 x 32 layers x 4096 x 4096 tokens of attention."""
    flop = training_flop(shape("llama-2-7b"), finetune(sequence_tokens=4096))
    matrices = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008) + 4096 * 32000

    assert flop is not None
    assert flop.model == 6 * matrices + 12 * 32 * 4096 * 4096
    # The layers once more, and not the head.
    assert flop.recomputed == 2 * (matrices - 4096 * 32000) + 4 * 32 * 4096 * 4096


def test_experts_count_by_those_that_a_token_uses() -> None:
    """Qwen3 30B A3B computes as a model of 3 billion, and holds one of 30."""
    moe = shape("qwen3-30b-a3b")
    flop = training_flop(moe, finetune())

    assert flop is not None
    assert 6 * 2.5e9 < flop.model < 6 * 3.8e9
    assert moe.parameters > 30e9


def test_adapters_spare_a_third_of_the_operations() -> None:
    """A frozen model has no gradients of its weights: 4 N instead of 6 N, and a little for the adapters."""
    full = training_flop(shape("llama-2-70b"), finetune())
    adapters = training_flop(shape("llama-2-70b"), finetune(Method.LORA, rank=8))

    assert full is not None
    assert adapters is not None
    assert 2 / 3 < adapters.model / full.model < 0.70


@pytest.mark.parametrize(
    ("name", "rank", "targets", "parameters"),
    [
        ("llama-2-7b", 8, LoraTargets.QUERY_VALUE, 4_194_304),  # what Alpaca-LoRA prints
        ("llama-3.1-8b", 16, LoraTargets.ALL, 41_943_040),  # what PEFT prints for all linear layers
        ("llama-2-7b", 64, LoraTargets.ALL, 159_907_840),  # what QLoRA's Guanaco 7B has
    ],
)
def test_adapters_have_the_parameters_that_libraries_print(
    name: str, rank: int, targets: LoraTargets, parameters: int
) -> None:
    """Rank times inputs and outputs of each matrix that has an adapter."""
    assert shape(name).adapter_parameters(finetune(Method.LORA, rank=rank, targets=targets)) == parameters


def test_four_bits_are_4_127_with_their_constants() -> None:
    """QLoRA, section 3: double quantization takes the constants from 0.5 to 0.127 bits a parameter."""
    assert pytest.approx(4.127, abs=5e-4) == NF4_BITS


@pytest.mark.parametrize(
    ("precision", "optimizer", "n_bytes"),
    [
        (Precision.BF16, Optimizer.ADAMW, 16),  # ZeRO, section 3.1: 2 + 2 + 12
        (Precision.FP16, Optimizer.ADAMW, 16),
        (Precision.FP32, Optimizer.ADAMW, 16),
        (Precision.BF16_PURE, Optimizer.ADAMW, 8),
        (Precision.BF16, Optimizer.SGD, 8),
        (Precision.FP32, Optimizer.SGD, 8),
        (Precision.BF16, Optimizer.ADAMW_8BIT, 10.03125),
    ],
)
def test_model_states_are_those_of_zero(precision: Precision, optimizer: Optimizer, n_bytes: float) -> None:
    """Weights, gradients, the copy in fp32 and the states of the optimizer, per parameter."""
    assert trained_bytes_per_parameter(precision, optimizer) == n_bytes


def test_a_model_of_7_5_billion_takes_120_gb_as_zero_says() -> None:
    """ZeRO, figure 1: 7.5 billion parameters, mixed precision, Adam: 120 GB on one device, 1.9 GB on each of 64."""
    llama = shape("llama-2-7b")
    scale = 7.5e9 / llama.parameters

    states = model_state_bytes(llama, finetune())

    assert states.low * scale == pytest.approx(120 * GIGA)
    assert states.over(64).high * scale == pytest.approx(1.9 * GIGA, rel=0.02)


def test_activations_of_a_layer_of_gpt_are_34_sbh_without_the_masks_of_dropout() -> None:
    """Korthikanti et al., section 4.1: 34 h bytes a token and layer, of which 2 h are masks; Phi-2 is such a layer with one norm less."""
    phi = shape("phi-2")  # attention and feed-forward part share one norm
    h = phi.shape.n_embd
    one_layer = activation_bytes(phi, finetune(sequence_tokens=1), checkpointing=False).low / phi.shape.n_layer

    assert one_layer == (34 - 2 - 2) * h


def test_checkpointing_keeps_the_inputs_of_the_layers_and_one_layer() -> None:
    """Korthikanti et al., table 2: 2 s b h for each layer; and what one of them needs while it is computed again."""
    llama, demand = shape("llama-2-7b"), finetune(sequence_tokens=2048)

    kept = activation_bytes(llama, demand, checkpointing=True).low
    all_of_them = activation_bytes(llama, demand, checkpointing=False).low

    assert kept == 2 * 2048 * (32 * 4096 + llama.layers[0].kept)
    assert all_of_them > 10 * kept


@pytest.mark.parametrize(
    ("name", "method", "precision", "published_gb"),
    [
        # Estimates of huggingface/blog llama31.md (July 2024). Its 300 GB for all weights of the 70B are left out: at 8 bytes a
        # parameter, as in its other rows, they would be 565.
        ("llama-3.1-8b", Method.FULL, Precision.BF16_PURE, 60),
        ("llama-3.1-8b", Method.LORA, Precision.BF16, 16),
        ("llama-3.1-8b", Method.QLORA, Precision.BF16, 6),
        ("llama-3.1-70b", Method.LORA, Precision.BF16, 160),
        ("llama-3.1-70b", Method.QLORA, Precision.BF16, 48),
        ("llama-3.1-405b", Method.FULL, Precision.BF16_PURE, 3250),
        ("llama-3.1-405b", Method.LORA, Precision.BF16, 950),
        ("llama-3.1-405b", Method.QLORA, Precision.BF16, 250),
    ],
)
def test_memory_is_near_published_tables(name: str, method: Method, precision: Precision, published_gb: float) -> None:
    """Short sequences, a rank of 16: within a fifth of what others print for the same choice."""
    demand = finetune(method, rank=16 if method.has_adapters else None, precision=precision)
    memory = training_memory(shape(name), demand, checkpointing=True).total

    assert 0.8 * published_gb * GIGA < memory.high
    assert memory.low < 1.2 * published_gb * GIGA


def test_qlora_of_a_70b_fits_on_a_gpu_of_48_gb_as_its_paper_says() -> None:
    """QLoRA's headline: 65 billion parameters on one GPU of 48 GB; at rank 64 it does with adapters in 16 bits, and hardly."""
    model = shape("llama-2-70b")
    small = training_memory(model, finetune(Method.QLORA, rank=16), checkpointing=True).total
    papers = training_memory(model, finetune(Method.QLORA, rank=64), checkpointing=True).total
    plain = training_memory(model, finetune(Method.LORA, rank=16), checkpointing=True).total

    assert small.high < 48 * GIGA
    assert papers.low * 65.3 / 69.0 < 48 * GIGA
    assert plain.low > 80 * GIB


def test_lora_of_175_billion_in_16_bits_is_the_350_gb_of_its_paper() -> None:
    """LoRA, section 4.2: from 1.2 TB to 350 GB for GPT-3: frozen weights in 16 bits, and next to nothing for rank 4 on q and v."""
    model = shape("llama-3.1-405b")
    demand = finetune(Method.LORA, rank=4, targets=LoraTargets.QUERY_VALUE)

    assert model_state_bytes(model, demand).high * 175e9 / model.parameters == pytest.approx(350 * GIGA, rel=0.005)


def test_several_devices_share_states_and_not_activations() -> None:
    """ZeRO 3: an eighth of the states each, two whole layers for a moment, and sequences of one's own."""
    llama, demand = shape("llama-2-7b"), finetune()
    one, eight = (training_memory(llama, demand, checkpointing=True, devices=n) for n in (1, 8))

    assert eight.states.low == one.states.low / 8
    assert eight.activations == one.activations
    assert (one.gathered.low, eight.gathered.low) == (0, 2 * 2 * llama.layers[0].elements)


def test_what_lies_whole_on_each_device() -> None:
    """Two layers of 218,112,000 at least; at most embedding and head (1,050,939,456) and the gradients of a layer too; 2 bytes each."""
    whole = training_memory(shape("llama-3.1-8b"), finetune(), checkpointing=True, devices=8).gathered
    thin = training_memory(shape("llama-3.1-8b"), finetune(Method.LORA, rank=8), checkpointing=True, devices=8).gathered

    assert (whole.low, whole.high) == (2 * 2 * 218_112_000, 2 * (3 * 218_112_000 + 1_050_939_456))
    assert (thin.low, thin.high) == (whole.low, whole.high - 2 * 218_112_000)


def test_a_gate_in_the_same_matrix_is_kept_as_well() -> None:
    """Phi 3: 9216 of q, k, v, two norms of 3072, 3072 into and out of the output product, 16384 of gate and up, 2 x 8192 behind them, 3072 out."""
    kept = {layer.kept for layer in shape("phi-3.5-mini").layers}

    assert kept == {9216 + 2 * 3072 + 2 * 3072 + 16384 + 2 * 8192 + 3072}


def test_what_is_not_known_is_none() -> None:
    """A model whose attention suffice does not know has no operations, and no guess."""
    known = shape("llama-2-7b")
    model = replace(known, shape=replace(known.shape, kv=KvLayout(unknown_reason="it has an indexer")))

    assert training_flop(known, finetune()) is not None
    assert training_flop(model, finetune()) is None


def test_a_training_without_work_is_refused() -> None:
    """No tokens, no sequence, no rank."""
    with pytest.raises(ValueError, match="needs tokens"):
        TrainingDemand(kind=TrainingKind.PRETRAIN, tokens=0, sequence_tokens=5)
    with pytest.raises(ValueError, match="rank of its adapters"):
        finetune(Method.QLORA)
