"""Predictions of CPUs: physics, forests, known machines and what is said about them."""

from __future__ import annotations

import numpy as np
import pytest

from suffice.model.basis import Basis
from suffice.predict.cpu import predict_cpu
from suffice.predict.cpu_calibration import from_parts, to_arrays, to_document
from suffice.predict.cpu_data import shipped_cpu_model, shipped_measurements
from suffice.predict.cpu_features import CORES
from suffice.predict.cpu_physics import BandwidthModel, PassModel, PassWork, pass_seconds
from suffice.predict.elsewhere import BETWEEN_MACHINES, machine_key, task_key
from suffice.predict.forest import Forest
from suffice.predict.machine import MachineSpec, Phase, WorkloadSpec
from suffice.predict.model_files import KNOWN_FILES

LLAMA = KNOWN_FILES["llama-7b"]
AMX = frozenset("avx avx2 fma f16c avx512f avx512bw avx512_vnni avx512_bf16 avx_vnni amx_tile amx_int8".split())


def decode(**more: object) -> WorkloadSpec:
    """128 tokens of Llama-7B."""
    values: dict[str, object] = {
        "phase": Phase.DECODE,
        "n_tokens": 128,
        "streamed_bytes": LLAMA.streamed_bytes,
        "parameters": LLAMA.parameters,
        "active_parameters": LLAMA.active_parameters,
        "cache_bytes_per_token": LLAMA.cache_bytes_per_token,
    }
    return WorkloadSpec(**(values | more))  # type: ignore[arg-type]


def machine(**more: object) -> MachineSpec:
    """A c7i.4xlarge as its operator describes it."""
    values: dict[str, object] = {
        "name": "c7i.4xlarge",
        "cpu_model": "Intel(R) Xeon(R) Platinum 8488C",
        "vcpus": 16,
        "threads_per_core": 2,
        "cores_per_socket": 8,
        "sockets": 1,
        "numa_nodes": 1,
        "isa": AMX,
        "read_bytes_per_s": 100e9,
        "vendor": "aws",
        "instance": "c7i.4xlarge",
    }
    return MachineSpec(**(values | more))  # type: ignore[arg-type]


def test_a_pass_takes_the_time_of_bytes_and_operations() -> None:
    """By hand: 10 GB at 0.5 of 40 GB/s is 0.5 s, 100 tokens x 2 G parameters at 4 x 50 G/s is 1 s; p = 1 adds them and 0.1 s."""
    n = len(CORES)
    model = PassModel(
        efficiency=np.full(n, 0.5),
        rate=np.full(n, 50e9),
        scaling=1.0,
        overlap=1.0,
        fixed_s=0.1,
        attention=0.0,
        trust=1.0,
    )
    one = np.ones(1)
    work = PassWork(tokens=100 * one, passes=one, bytes_per_pass=10e9 * one, parameters=2e9 * one, depth=0 * one)

    seconds = pass_seconds(model, work, np.zeros(1, dtype=np.intp), 4 * one, 40e9 * one)

    assert seconds[0] == pytest.approx(1.6)


def test_bandwidth_is_of_the_cores_until_the_socket_is_full() -> None:
    """Few cores draw what one can times their number; many draw the socket's share and no more."""
    model = BandwidthModel(core_bytes_per_s=np.full(len(CORES), 10e9), socket_share=0.5, sharpness=4.0)
    ice_lake = np.array([CORES.index("ice-lake")] * 3)

    read = model.read_bytes_per_s(ice_lake, np.array([1.0, 4.0, 1000.0]))

    assert read[:2] == pytest.approx([10e9, 40e9], rel=0.02)
    assert read[2] == pytest.approx(0.5 * 8 * 3200e6 * 8, rel=0.01)


def test_a_forest_adds_the_leaves_that_its_questions_lead_to() -> None:
    """Two questions a tree, first answer is the high bit; unknown is never larger."""
    forest = Forest(
        features=np.array([[0, 1], [1, 1]], dtype=np.int16),
        thresholds=np.array([[0.5, 2.0], [1.0, 3.0]], dtype=np.float32),
        values=np.array([[1, 2, 4, 8], [10, 0, 20, 30]], dtype=np.float32),
        base=100.0,
    )

    few = np.array([[0.0, 0.0], [1.0, 2.5], [np.nan, 4.0], [1.0, np.nan]])
    many = np.tile(few, (50, 1))  # takes another way through the same trees

    assert forest(few).tolist() == [111.0, 128.0, 132.0, 114.0]
    assert forest(many).tolist() == [111.0, 128.0, 132.0, 114.0] * 50


@pytest.mark.parametrize("rows", [65, 700, 40_000])
def test_many_trees_at_once_add_up_as_one_after_the_other(rows: int) -> None:
    """The way for many rows gives to the last bit what a loop over the trees gives, however many of them are taken at once."""
    draw = np.random.default_rng(rows)
    forest = Forest(
        features=draw.integers(0, 6, (120, 5)).astype(np.int16),
        thresholds=draw.normal(size=(120, 5)).astype(np.float32),
        values=draw.normal(size=(120, 32)).astype(np.float32),
        base=0.1,
    )
    columns = draw.normal(size=(rows, 6))
    columns[draw.random(columns.shape) < 0.1] = np.nan

    expected = np.full(rows, forest.base)
    for features, thresholds, values in zip(forest.features, forest.thresholds, forest.values, strict=True):
        answers = columns.astype(np.float32)[:, features] > thresholds
        expected += values[answers @ np.array([16, 8, 4, 2, 1])]

    assert forest(columns).tolist() == expected.tolist()


def test_the_calibration_survives_its_files() -> None:
    """What is written and read again predicts the same to the digits that are kept."""
    model = shipped_cpu_model()

    again = from_parts(to_document(model), to_arrays(model))
    first, second = predict_cpu(machine(), decode(), model), predict_cpu(machine(), decode(), again)

    assert first == second


def test_a_usual_machine_is_predicted_near_what_its_relatives_do() -> None:
    """Llama-7B Q4_K_M on 8 cores of Sapphire Rapids: c7i-flex, r7i and m7i of that size were measured at 14.6 to 15.0."""
    found = predict_cpu(machine(), decode())

    assert found is not None
    assert found.basis is Basis.PREDICTED
    assert found.level == 0.8
    assert found.tokens_per_second == pytest.approx(14.8, rel=0.05)
    assert found.low < 14.6
    assert found.high > 15.02
    assert any("34 machines with this CPU" in line for line in found.rests_on)
    assert found.wide_because == ()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"cpu_model": "AMD EPYC 9V74 80-Core Processor"}, "no machine with this CPU was measured"),
        ({"cpu_model": None}, "the CPU model is not known"),
        ({"read_bytes_per_s": None}, "bandwidth was not measured"),
        ({"numa_nodes": 4}, "4 NUMA nodes"),
        ({"described_cpu_model": "AMD EPYC 7763 64-Core Processor"}, "read on another CPU"),
    ],
)
def test_what_is_unlike_the_data_is_said_and_widens(changed: dict[str, object], reason: str) -> None:
    """Less knowledge, wider range, and the reason in words."""
    usual, odd = predict_cpu(machine(), decode()), predict_cpu(machine(**changed), decode())

    assert usual is not None
    assert odd is not None
    assert any(reason in line for line in odd.wide_because)
    assert odd.high / odd.low > usual.high / usual.low


def test_nothing_known_is_nothing_predicted() -> None:
    """Neither cores nor bandwidth: no number."""
    assert predict_cpu(MachineSpec(cpu_model="Neoverse-V2"), decode()) is None


def test_bandwidth_alone_is_enough_for_a_number() -> None:
    """Cores are then taken from the bandwidth, and the text says that they are not known."""
    found = predict_cpu(MachineSpec(read_bytes_per_s=60e9), decode())

    assert found is not None
    assert any("number of cores" in line for line in found.wide_because)


def test_a_bandwidth_that_forbids_what_is_predicted_is_doubted() -> None:
    """12 GB/s on 8 cores of Sapphire Rapids cannot be: the point is not clamped to 3 tokens/s, and a note says what to doubt."""
    found = predict_cpu(machine(read_bytes_per_s=12e9), decode())

    assert found is not None
    assert any("allows 3 tokens/s at most" in line and "doubt the bandwidth" in line for line in found.wide_because)
    assert not any("at most" in line for line in predict_cpu(machine(), decode()).wide_because)  # type: ignore[union-attr]


def test_only_one_stream_is_predicted() -> None:
    """A batch is refused, not answered as one stream."""
    with pytest.raises(ValueError, match="only one stream"):
        predict_cpu(machine(), decode(batch=2))


def test_a_measured_machine_is_found_with_its_date() -> None:
    """The median of the repetitions in a range that another machine of that type may lie in."""
    task = task_key("SmolLM-135M.Q4_K_M.gguf", Phase.PREFILL, 128)

    found = shipped_measurements().find(machine_key("alicloud", "ecs.c4.3xlarge"), task, threads=6)

    assert found is not None
    assert found.tokens_per_second == pytest.approx(744.937, rel=1e-5)
    assert (found.date, found.build) == ("2026-06-17", 4753)
    assert found.high / found.low >= np.exp(2 * BETWEEN_MACHINES) * 0.999


@pytest.mark.parametrize("other", [{"threads": 12}, {"ran_on": "AMD EPYC 7763 64-Core Processor"}])
def test_another_cpu_or_other_threads_are_another_machine(other: dict[str, object]) -> None:
    """The table answers for what was measured, and for nothing like it."""
    task = task_key("SmolLM-135M.Q4_K_M.gguf", Phase.PREFILL, 128)

    assert shipped_measurements().find(machine_key("alicloud", "ecs.c4.3xlarge"), task, **other) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong", [{"vcpus": 0}, {"read_bytes_per_s": -1.0}, {"read_bytes_per_s": float("nan")}, {"numa_nodes": 0}]
)
def test_impossible_machines_are_refused(wrong: dict[str, object]) -> None:
    """Unknown is None; zero, negative and NaN are mistakes."""
    with pytest.raises(ValueError, match="must be positive"):
        machine(**wrong)


@pytest.mark.parametrize("wrong", [{"n_tokens": 0}, {"streamed_bytes": -1.0}, {"threads": 0}, {"depth": -1}])
def test_impossible_workloads_are_refused(wrong: dict[str, object]) -> None:
    """No tokens, no bytes, no threads: nothing to predict."""
    with pytest.raises(ValueError, match="must"):
        decode(**wrong)


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({"quant": "q8_0"}, "4-bit K-quants"),
        ({"active_parameters": LLAMA.parameters / 10}, "mixture of experts"),
    ],
)
def test_work_unlike_what_was_measured_has_a_wider_range(more: dict[str, object], note: str) -> None:
    """Nobody measured other quantizations or experts on these machines: the point is physics, the range says how little that is."""
    usual, other = predict_cpu(machine(), decode()), predict_cpu(machine(), decode(**more))

    assert usual is not None
    assert other is not None
    assert np.log(other.high / other.low) > 1.4 * np.log(usual.high / usual.low)
    assert any(note in reason for reason in other.wide_because)
    assert not any(note in reason for reason in usual.wide_because)
