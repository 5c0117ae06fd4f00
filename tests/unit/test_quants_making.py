"""Candidates made of a reference: what is asked of the quantizer, what the result is checked for, and what is said of it."""

from __future__ import annotations

import shutil
from collections import namedtuple
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.gguf_writer import ToyLlama, Typed, write_gguf
from suffice.errors import EngineCrashError, EngineError, OutputError, UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.model_file import describe_model, open_model_file
from suffice.measure import limits
from suffice.measure.limits import MemoryLimits
from suffice.model.quants import SubjectKind
from suffice.quants import remake
from suffice.quants.fake_quantizer import ALL_TYPES, FAKE_FACTS, FakeQuantizer
from suffice.quants.made_store import MadeStore
from suffice.quants.recipe_plan import bits_per_weight, main_type, plan_recipe
from suffice.quants.remake import Made, make_candidate, recipes_of
from suffice.units import GIB, MIB

if TYPE_CHECKING:
    from pathlib import Path

TOY = ToyLlama(n_embd=256, n_ff=512, n_head=4, n_head_kv=2)  # rows of 256 and 512 take every block
NARROW = ToyLlama(n_embd=64, n_ff=256, n_head=4, n_head_kv=2)  # only ffn_down has rows of 256
VOCABULARY = {
    "general.file_type": 1,
    "general.quantization_version": 2,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": [f"word{number}" for number in range(300)],
    "tokenizer.chat_template": "{{ messages[0].content }}",
}


def write(path: Path, toy: ToyLlama, file_type: int = 1) -> Path:
    """A model with a vocabulary."""
    metadata = {**toy.metadata(), **VOCABULARY, "general.file_type": file_type}
    return write_gguf(path, metadata, toy.tensors())


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    """A model in F16."""
    return write(tmp_path / "Toy F16.gguf", TOY)


@pytest.fixture
def store(tmp_path: Path) -> MadeStore:
    """An empty cache."""
    return MadeStore(tmp_path / "cache")


def make(
    path: Path, recipe: str, store: MadeStore, quantizer: FakeQuantizer | None = None, told: list[str] | None = None
) -> Made:
    """The candidate, with the fake's words in ``told``."""
    heard: list[str] = [] if told is None else told
    return make_candidate(open_model_file(path), recipe, quantizer or FakeQuantizer(), store, progress=heard.append)


def test_the_candidate_is_what_was_asked_for(reference: Path, store: MadeStore) -> None:
    """Name, hashes, size and types of the subject are those of the file; nothing is warned of a plain F16 reference."""
    quantizer = FakeQuantizer()

    made = make(reference, "Q4_K_M", store, quantizer)

    record = describe_model(open_model_file(made.path), type_k="f16", type_v="f16")
    subject = made.subject
    assert (subject.name, subject.kind, subject.quantization) == ("q4_k_m", SubjectKind.MADE, "Q4_K_M")
    assert (subject.place, subject.file_bytes) == (str(made.path), made.path.stat().st_size)
    assert subject.identity == record.sha256
    assert subject.made_from == describe_model(open_model_file(reference), type_k="f16", type_v="f16").sha256
    assert subject.warnings == ()
    assert quantizer.jobs[0].file_type == 15  # LLAMA_FTYPE_MOSTLY_Q4_K_M
    header = read_gguf_header(made.path)
    assert {tensor.type_name for tensor in header.tensors} == {"f32", "q4_K", "q6_K"}
    assert made.bits_per_weight == pytest.approx(bits_per_weight(header))
    assert made.path.name == "Toy_F16-q4_k_m.gguf"


def test_what_was_made_before_is_not_made_again(reference: Path, store: MadeStore) -> None:
    """The second time the same file comes from the cache, though another process asks and the reference has another name."""
    quantizer = FakeQuantizer()
    first = make(reference, "q8_0", store, quantizer)
    renamed = reference.rename(reference.with_name("renamed.gguf"))

    second = make(renamed, "q8_0", MadeStore(store.root), quantizer)

    assert (first.is_new, second.is_new) == (True, False)
    assert second.path == first.path
    assert replace(second, is_new=True) == first
    assert len(quantizer.jobs) == 1


def test_another_reference_recipe_or_engine_is_another_candidate(reference: Path, store: MadeStore) -> None:
    """Whatever decides the bytes has a place of its own in the cache."""
    other = write(reference.with_name("other.gguf"), replace(TOY, n_vocab=300))
    newer = FakeQuantizer(identity=replace(FakeQuantizer().identity, llama_cpp_version="ggml 99.0"))

    paths = {
        make(reference, "q8_0", store).path,
        make(reference, "q6_k", store).path,
        make(other, "q8_0", store).path,
        make(reference, "q8_0", store, newer).path,
    }

    assert len(paths) == 4


@pytest.mark.parametrize("damage", ["cut", "changed", "no note", "other file"])
def test_a_damaged_candidate_is_made_again(reference: Path, store: MadeStore, damage: str) -> None:
    """By its size, its hash or its note; the user is told, and gets a whole one."""
    quantizer = FakeQuantizer()
    first = make(reference, "q8_0", store, quantizer)
    before = first.path.read_bytes()
    if damage == "cut":
        first.path.write_bytes(before[:-100])
    elif damage == "changed":
        first.path.write_bytes(before[:-100] + b"\1" * 100)
    elif damage == "no note":
        (first.path.parent / "made.json").unlink()
    else:
        shutil.copy(reference, first.path)
    told: list[str] = []

    again = make(reference, "q8_0", store, quantizer, told)

    assert again.is_new
    assert again.path.read_bytes() == before
    assert "is damaged and is made again" in told[0]


@pytest.mark.parametrize("error", [EngineCrashError, KeyboardInterrupt])
def test_half_a_file_never_counts(
    reference: Path, store: MadeStore, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash of the engine, or Ctrl-C, the cache is as empty as before, and the next try works."""
    quantizer = FakeQuantizer(crashes=True)
    if error is KeyboardInterrupt:

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(FakeQuantizer, "quantize", interrupt)
    with pytest.raises(error):
        make(reference, "q8_0", store, quantizer)
    monkeypatch.undo()

    assert store.entries() == ()
    assert store.total_bytes() == 0
    assert make(reference, "q8_0", store).is_new


def test_progress_is_told_in_tensors(reference: Path, store: MadeStore) -> None:
    """As llama.cpp counts them."""
    told: list[str] = []

    make(reference, "q4_k_m", store, told=told)

    assert told == ["quantizing to q4_k_m"] + [f"quantizing to q4_k_m: {done} of 21 tensors" for done in (1, 21)]


def test_a_quantized_reference_is_warned_of(tmp_path: Path, store: MadeStore) -> None:
    """The direction of the bias and what to give instead; of Q8_0 only that it is small."""
    rough = write(tmp_path / "rough.gguf", replace(TOY, type_name="q4_1"), file_type=3)
    fine = write(tmp_path / "fine.gguf", replace(TOY, type_name="q8_0"), file_type=7)

    (biased,) = make(rough, "q2_k", store).subject.warnings
    (slightly,) = make(fine, "q2_k", store).subject.warnings

    assert biased.startswith("made from a file that is already Q4_1: the comparison is biased.")
    assert "look smaller" in biased
    assert biased.endswith("Give the model's F16, BF16 or Q8_0 file as the reference")
    assert "biased a little" in slightly


def test_tensors_that_are_copied_are_counted(tmp_path: Path, store: MadeStore) -> None:
    """Q4_K_S of a file that is all Q4_K: V and the first eighth of ffn_down are Q5_K by rule, the head Q6_K; the rest is the reference's."""
    rough = write(tmp_path / "rough.gguf", replace(TOY, type_name="q4_K"), file_type=15)

    warnings = make(rough, "q4_k_s", store).subject.warnings

    # 16 matrices less the head and V of both layers; an eighth of two layers is none.
    assert any(warning.startswith("13 of 16 quantized tensors were of the type") for warning in warnings)


def test_no_fewer_bits_gain_nothing(tmp_path: Path, store: MadeStore) -> None:
    """Q8_0 of Q4_1 is made, and said to be useless; so is F16 of it."""
    rough = write(tmp_path / "rough.gguf", replace(TOY, type_name="q4_1"), file_type=3)

    for recipe in ("q8_0", "f16"):
        warnings = make(rough, recipe, store).subject.warnings
        assert any(warning.startswith(f"{recipe} takes no fewer bits") for warning in warnings)


@pytest.mark.parametrize(("recipe", "type_name", "file_type"), [("q4_1", "q4_1", 3), ("f16", "f16", 1)])
def test_the_recipe_of_the_reference_itself_is_refused(
    tmp_path: Path, store: MadeStore, recipe: str, type_name: str, file_type: int
) -> None:
    """A copy is no candidate."""
    path = write(tmp_path / "same.gguf", replace(TOY, type_name=type_name), file_type=file_type)
    if recipe == "q4_1":  # by the recipe the head has more bits, but the file says that it is q4_1
        assert main_type(read_gguf_header(path)) == "q4_1"

    with pytest.raises(UsageError, match=f"is {recipe} already"):
        make(path, recipe, store)
    assert not store.root.exists()


def test_fallbacks_are_counted_and_named(tmp_path: Path, store: MadeStore) -> None:
    """Rows of 64 take no blocks of 256: 12 of the 14 matrices of the layers, embedding and head, worked out by hand."""
    path = write(tmp_path / "narrow.gguf", NARROW)

    (warning,) = make(path, "q4_k_s", store).subject.warnings

    # By layer 7 matrices, of which ffn_down fits. attn_v of both layers would be q5_K and becomes q5_1; the head becomes q8_0.
    assert warning.startswith(
        "14 of 16 quantized tensors have rows that the blocks of q4_k_s do not fit, and became q5_0 (11) or q5_1 (2) or q8_0 (1) instead: "
    )


def test_unknown_recipes_name_the_known_ones(reference: Path, store: MadeStore) -> None:
    """What cannot be is refused before anything is written."""
    with pytest.raises(UsageError, match=r"did you mean .*q4_k_m.*known are f32, f16"):
        make(reference, "q4_k_xl", store)
    with pytest.raises(UsageError, match="needs an importance matrix"):
        make(reference, "iq2_xxs", store)
    assert not store.root.exists()


def test_an_old_engine_says_what_it_can_make(reference: Path, store: MadeStore) -> None:
    """A recipe whose types this ggml does not have lists the others."""
    old = FakeQuantizer(facts=replace(FAKE_FACTS, type_names=ALL_TYPES - {"iq4_nl"}))

    with pytest.raises(
        UsageError, match=r"iq4_nl takes iq4_nl, which .* does not know; it can make f32, bf16, q8_0"
    ) as caught:
        make(reference, "iq4_nl", store, old)

    assert "iq4_xs" in str(caught.value)


def test_a_list_of_recipes() -> None:
    """Spaces and spelling do not matter; the same recipe twice, or none, does."""
    assert recipes_of("q8_0, Q4_K_M,") == ("q8_0", "q4_k_m")
    for text in ("q4_k_m,Q4_K-M", " , "):
        with pytest.raises(UsageError, match="different recipes"):
            recipes_of(text)


@pytest.mark.parametrize("key", ["tokenizer.ggml.tokens", "tokenizer.chat_template"])
def test_another_vocabulary_or_template_is_refused(reference: Path, store: MadeStore, key: str) -> None:
    """Whatever the quantizer did to them, such a candidate would be asked something else."""
    with pytest.raises(EngineError, match=key):
        make(reference, "q8_0", store, FakeQuantizer(drops_key=key))
    assert store.entries() == ()


def test_other_types_than_planned_are_a_note(reference: Path, store: MadeStore) -> None:
    """A newer llama.cpp may choose otherwise; the candidate counts, and the reader is told each time."""
    odd = FakeQuantizer(other_type={"q6_K": "q8_0", "q4_K": "q5_K"})

    for made in (make(reference, "q4_k_m", store, odd), make(reference, "q4_k_m", store, odd)):
        (note,) = made.subject.warnings
        assert "differs from the one that suffice knows in 16 tensors: output.weight q8_0 for q6_K" in note
        assert note.endswith("and 13 more")


def test_a_split_reference_is_one_model(tmp_path: Path, store: MadeStore) -> None:
    """The candidate is a single file, and its name has no number of a part."""
    tensors = TOY.tensors()
    halves = (tensors[:10], tensors[10:])
    for number, half in enumerate(halves):
        head = {**TOY.metadata(), **VOCABULARY} if number == 0 else {}
        split = {
            "split.no": Typed("uint16", number),
            "split.count": Typed("uint16", 2),
            "split.tensors.count": Typed("int32", len(tensors)),
        }
        write_gguf(tmp_path / f"toy-{number + 1:05d}-of-00002.gguf", {**head, **split}, half)

    made = make(tmp_path / "toy-00001-of-00002.gguf", "q8_0", store)

    assert made.path.name == "toy-q8_0.gguf"
    assert len(read_gguf_header(made.path).tensors) == len(tensors)


def test_room_on_the_disk_is_looked_at_first(
    reference: Path, store: MadeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth more than the size by the recipe, and something to spare; what is short is named, and nothing is left."""
    header = plan_recipe(read_gguf_header(reference), "q8_0", has_imatrix=False).header
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - as shutil's
    free = round(header.file_bytes * 1.1) + 64 * MIB - 1
    quantizer = FakeQuantizer()

    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(GIB, 0, free))
    with pytest.raises(OutputError, match=r"needs .* free; free some space, or set SUFFICE_CACHE_DIR"):
        make(reference, "q8_0", store, quantizer)
    assert quantizer.jobs == []
    assert store.total_bytes() == 0
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(GIB, 0, free + 1))
    assert make(reference, "q8_0", store, quantizer).is_new


@pytest.mark.parametrize(("bounded", "fits"), [(True, True), (False, False)])
def test_memory_is_looked_at_first(
    tmp_path: Path, store: MadeStore, monkeypatch: pytest.MonkeyPatch, *, bounded: bool, fits: bool
) -> None:
    """A head of 1.1 billion numbers needs 7.9 GiB at once where the engine takes tensors whole, and 704 MiB where it takes rows."""
    path = tmp_path / "wide.gguf"
    metadata = {**TOY.metadata(), **VOCABULARY}
    tensors = [tensor for tensor in TOY.tensors() if tensor.name != "output.weight"]
    head = replace(next(t for t in TOY.tensors() if t.name == "output.weight"), dims=(256, 4 * MIB))
    write_gguf(path, metadata, [*tensors, head])
    monkeypatch.setattr(remake, "file_identity", lambda _model: "0" * 64)  # else a hole of 2 GiB would be read
    usable = MemoryLimits(total_bytes=8 * GIB, available_bytes=GIB)
    monkeypatch.setattr(remake, "read_memory_limits", lambda: usable)
    quantizer = FakeQuantizer(facts=replace(FAKE_FACTS, bounds_memory=bounded), crashes=True)

    with pytest.raises(EngineError, match="SIGABRT" if fits else r"needs about 7\.\d+ GiB of memory, and 1\.00 GiB"):
        make(path, "q4_k_m", store, quantizer)
    assert len(quantizer.jobs) == int(fits)


def test_threads_are_those_that_this_process_may_run(reference: Path, store: MadeStore) -> None:
    """Unless told otherwise; llama.cpp itself would take all that the machine has."""
    quantizer = FakeQuantizer()
    model = open_model_file(reference)

    make_candidate(model, "q8_0", quantizer, store)
    make_candidate(model, "q6_k", quantizer, store, n_threads=3)

    assert [job.n_threads for job in quantizer.jobs] == [limits.read_cpu_limits().usable_cpus, 3]
