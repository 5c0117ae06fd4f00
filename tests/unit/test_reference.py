"""What a user may write for a model, and what is said when it is nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.gguf_writer import ToyLlama
from suffice.errors import ModelFileError, SufficeError, UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.model_file import ModelFile
from suffice.loaders.reference import resolve_model, shown_reference
from suffice.loaders.shape_model import ShapeModel, shape_hash

if TYPE_CHECKING:
    from suffice.model.gguf_header import GgufHeader

CONFIGS = Path(__file__).parents[1] / "data" / "hf_configs"
LLAMA_CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 1024,
    "max_position_embeddings": 2048,
}


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """A small file whose rows are long enough for every recipe."""
    return ToyLlama(n_layer=4, n_embd=256, n_ff=512).write(tmp_path / "toy.gguf")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A folder with the config of a small Llama."""
    folder = tmp_path / "hub-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    return folder


def shape_of(reference: str, folder: Path | None = None) -> ShapeModel:
    """The model behind a reference that is no file."""
    model = resolve_model(reference, folder=folder)
    assert isinstance(model, ShapeModel)
    assert model.parts == ()
    return model


def test_a_file_is_a_file(gguf: Path) -> None:
    """The path of a GGUF file gives the file with its parts."""
    model = resolve_model(str(gguf))

    assert isinstance(model, ModelFile)
    assert model.parts == (gguf,)


def test_a_file_can_be_taken_as_a_shape(gguf: Path) -> None:
    """With --slices only the header counts; the shape is the same."""
    model = resolve_model(str(gguf), in_slices=True)

    assert isinstance(model, ShapeModel)
    assert model.shape.streamed_bytes() == resolve_model(str(gguf)).shape.streamed_bytes()
    assert "header of toy.gguf" in model.source


def test_relative_paths_start_from_the_folder(gguf: Path) -> None:
    """As in a demand file, which names its model beside itself."""
    assert isinstance(resolve_model("toy.gguf", folder=gguf.parent), ModelFile)
    assert shape_of("toy.gguf:q8_0", gguf.parent).shape.n_layer == 4


@pytest.mark.parametrize("reference", ["llama-3.1-8b:q4_k_m", "Llama_3.1_8B:Q4_K_M", "llama-3.1-8b:Q4_K_M"])
def test_a_shape_of_the_catalogue(reference: str) -> None:
    """A name and a recipe, in any case: 32 layers, no file, the name as it was written."""
    model = shape_of(reference)

    assert model.shape.n_layer == 32
    assert model.reference == reference
    assert model.source.startswith("catalogue: ")


@pytest.mark.parametrize("name", ["hub-model:q8_0", "hub-model/config.json:q8_0", "hub-model/:q8_0"])
def test_a_config(config: Path, name: str) -> None:
    """A config.json, or the folder that holds one."""
    model = shape_of(name, config.parent)

    assert model.shape.n_layer == 4
    assert model.shape.architecture == "llama"
    assert "q8_0" in model.shape.bytes_by_type


def test_a_header_under_another_recipe(gguf: Path) -> None:
    """An F16 file as it would be in Q8_0: about half of its bytes."""
    model = shape_of(f"{gguf}:q8_0")

    assert model.shape.tensor_bytes < 0.6 * resolve_model(str(gguf)).shape.tensor_bytes
    assert "quantized as" in model.source


def test_what_is_there_comes_first(gguf: Path) -> None:
    """A file whose name looks like a shape and a recipe is that file."""
    odd = gguf.with_name("llama-3.1-8b:q4_k_m")
    shutil.copy(gguf, odd)

    assert isinstance(resolve_model(str(odd)), ModelFile)
    assert isinstance(resolve_model(odd.name, folder=odd.parent), ModelFile)


def test_colons_in_names(gguf: Path) -> None:
    """Only the last colon separates a recipe."""
    odd = gguf.with_name("v1:final.gguf")
    shutil.copy(gguf, odd)

    assert isinstance(resolve_model(str(odd)), ModelFile)
    assert shape_of(f"{odd}:q8_0").shape.n_layer == 4


@pytest.mark.parametrize("reference", ["llama-3.1-8b", "LLAMA-3.1-8B"])
def test_a_shape_without_a_recipe(reference: str) -> None:
    """The message has the whole reference to write."""
    with pytest.raises(UsageError, match=r"llama-3\.1-8b:q4_k_m"):
        resolve_model(reference)


@pytest.mark.parametrize("name", ["hub-model", "hub-model/config.json"])
def test_a_config_without_a_recipe(config: Path, name: str) -> None:
    """Weights have no types before somebody says which."""
    with pytest.raises(UsageError, match="quantization"):
        resolve_model(name, folder=config.parent)


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        ("llama-3.1-8c:q4_k_m", "did you mean"),
        ("llama-3.1-8b:q4_k_x", "q4_k_x"),
        ("C:foo", "catalogue"),
        ("sample:no-such-sample", "no sample"),
    ],
)
def test_mistyped_names(reference: str, complaint: str) -> None:
    """What is near, or what is wrong, is named."""
    with pytest.raises(SufficeError, match=complaint):
        resolve_model(reference)


@pytest.mark.parametrize(
    "reference",
    [
        "no-such-file.gguf",
        "no/such/file.gguf",
        "no-such-file.gguf:q4_k_m",
        r"C:\models\llama.gguf",
        r"C:\models\llama.gguf:q4_0",
        "no/such/folder/config.json:q4_0",
    ],
)
def test_missing_files(reference: str, tmp_path: Path) -> None:
    """A path that leads nowhere is called that, Windows' drive letters included."""
    with pytest.raises(ModelFileError):
        resolve_model(reference, folder=tmp_path)


@pytest.mark.parametrize(
    "reference",
    [
        "http:/me:hunter2@localhost/m.gguf",
        "http://me:hunt/er2@localhost/m.gguf",
        "http://me:hunter2@localhost:port/m.gguf",
        "http://me:hunter2@[localhost/m.gguf",
        " http://me:hunter2@localhost:1/m.gguf",
        "ftp://me:hunter2@localhost/m.gguf",
        "ssh+git://me:hunter2@localhost/m.gguf:q4_0",
        "https://me:hunter2@localhost/model?token=hunter2",
        "https://me:hunter2@localhost/model.gguf?token=hunter2:q4_x",
    ],
)
def test_no_message_repeats_a_secret(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However an address is mistyped: neither the refusal nor the name for people has its password."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "*")
    with pytest.raises(SufficeError) as caught:
        resolve_model(reference)

    assert "hunt" not in str(caught.value)
    assert "hunt" not in shown_reference(reference)


def test_the_recipe_of_an_address_stands_behind_its_query(monkeypatch: pytest.MonkeyPatch, gguf: Path) -> None:
    """A signed address keeps its signature, and what is no recipe's name belongs to the query."""
    asked: list[str] = []

    def read(url: str) -> GgufHeader:
        asked.append(url)
        return read_gguf_header(gguf)

    monkeypatch.setattr("suffice.loaders.remote.read_remote_gguf_header", read)
    url = "https://host/toy.gguf?until=12:00"

    assert shape_of(f"{url}:Q4_0").reference == "https://host/toy.gguf:q4_0"
    assert shape_of(url).reference == "https://host/toy.gguf"
    assert asked == [url, url]
    assert shown_reference(f"{url}:q4_0") == "https://host/toy.gguf:q4_0"
    assert shown_reference("llama-2-7b:q4_0") == "llama-2-7b:q4_0"


HOSTILE = [
    "",
    ".",
    ":",
    "::",
    ":q4_0",
    "a:",
    "a:b:c",
    "..",
    "../..",
    "\0",
    "a\0.gguf",
    "a\0.gguf:q4_0",
    "a\0:q4_0",
    "\udcff.gguf",
    "\udcff:q4_0",
    "x" * 5000,
    "x" * 5000 + ".gguf:q4_0",
    "x/" * 3000 + ":q4_0",
    "llama-3.1-8b:q4_k_m\n",
    "\nllama-3.1-8b\n:q4_k_m",
    "llama-3.1-8b: q4_k_m",
    "llama-3.1-8b:" + "q" * 300,
    "sample:",
    "sample:../../etc/passwd",
    "/dev/null",
    "/dev/null:q4_0",
    "/:q4_0",
    "~:q4_0",
    "file:///etc/passwd",
    "hf://Qwen/Qwen3-8B",
    "-rf",
    "--help:q4_0",
    "𝕝𝕝𝕒𝕞𝕒:q4_0",
    "%s%n:q4_0",
    "https://localhost/model",
    "http:/localhost:1234",
]


@pytest.mark.parametrize("reference", HOSTILE, ids=lambda text: ascii(text)[:30])
def test_hostile_strings(reference: str, tmp_path: Path) -> None:
    """Whatever is written: a model, or an error of ours in one sentence."""
    try:
        model = resolve_model(reference, folder=tmp_path)
    except SufficeError as error:
        assert str(error)  # noqa: PT017  # either is right; what is raised has a sentence
    else:
        assert model.shape.n_layer > 0


def test_the_identity_is_what_decides_the_speed(gguf: Path) -> None:
    """Another recipe is another model; the same shape under another name is the same one."""
    first, second, other = (shape_of(text) for text in (f"{gguf}:q8_0", f"{gguf}:Q8_0", f"{gguf}:q4_0"))

    assert shape_hash(first.header) == shape_hash(second.header) != shape_hash(other.header)
    assert shape_hash(shape_of("llama-3-8b:q4_0").header) != shape_hash(shape_of("llama-3.1-70b:q4_0").header)
