"""llama.cpp itself on slices that suffice wrote: it loads, evaluates, tokenizes and serves them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.gguf_writer import ToyLlama
from helpers.slices import Q8Blocks, slice_header, tensor
from suffice.errors import EngineCrashError
from suffice.measure.engine.client import LlamaCppEngine, Timeouts
from suffice.measure.engine.library import available_engines, choose_library
from suffice.measure.engine.seam import EngineSettings
from suffice.slices.cache import SliceCache

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.gguf_header import GgufHeader

pytestmark = pytest.mark.engine

SETTINGS = EngineSettings(n_ctx=128, n_threads=2, n_threads_batch=1, n_batch=32, n_ubatch=32)
TIMEOUTS = Timeouts(load_s=60, open_s=120, request_s=120)

# Loads a model, answers one completion over HTTP, prints the answer. A process of its own: a server never ends quite cleanly.
SERVER = """
import json, sys, urllib.request, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.port, params.warmup = sys.argv[1], 128, 1, 0, False
params.cpuparams.n_threads = 1
server = xllamacpp.Server(params)
def post(path, **body):
    request = urllib.request.Request(server.listening_address + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=30))
answer = post("/completion", prompt=sys.argv[2], n_predict=6, ignore_eos=True)
tokens = post("/tokenize", content=sys.argv[2])["tokens"]
print(json.dumps({"predicted": answer["tokens_predicted"], "text": post("/detokenize", tokens=tokens)["content"]}))
"""


@pytest.fixture(params=["llama-cpp-python", "xllamacpp"])
def engine(request: pytest.FixtureRequest) -> LlamaCppEngine:
    """Each engine that is installed."""
    if request.param not in {choice.name for choice in available_engines()}:
        pytest.skip(f"{request.param} is not installed")
    return LlamaCppEngine(choose_library(prefer=request.param), TIMEOUTS)


def toy(layers: int = 2, *, tied: bool = False, n_vocab: int = 512) -> GgufHeader:
    """A dense slice of a few megabytes."""
    sizes = ToyLlama(n_layer=layers, n_embd=256, n_ff=512, n_vocab=n_vocab, tied=tied, type_name="q8_0")
    return slice_header(sizes)


def named(name: str) -> GgufHeader:
    """A slice of a model whose name tells llama.cpp which special tokens it has."""
    header = toy()
    return replace(header, metadata={**header.metadata, "general.name": name})


def with_experts(header: GgufHeader, n_expert: int = 8, n_used: int = 2) -> GgufHeader:
    """The same slice as a mixture of experts."""
    tensors = []
    for item in header.tensors:
        stem, _, kind = item.name.rpartition("ffn_")
        if kind in ("gate.weight", "up.weight", "down.weight"):
            name = f"{stem}ffn_{kind.removesuffix('.weight')}_exps.weight"
            tensors.append(tensor(name, (*item.dims, n_expert), item.type_name))
        else:
            tensors.append(item)
        if kind == "norm.weight" and stem.startswith("blk."):
            tensors.append(tensor(f"{stem}ffn_gate_inp.weight", (256, n_expert)))
    metadata = {**header.metadata, "llama.expert_count": n_expert, "llama.expert_used_count": n_used}
    return replace(header, metadata=metadata, tensors=tuple(tensors))


def evaluate(engine: LlamaCppEngine, path: Path) -> Any:  # noqa: ANN401  # the facts of a session
    """Prefill and decode a little; skipped where the build's instructions do not work here."""
    with engine.open(path, SETTINGS) as session:
        try:
            session.prefill(40)
        except EngineCrashError as error:
            if "SIGILL" not in str(error):
                raise
            pytest.skip(f"this build does not run on this machine: {error}")
        assert min(session.decode(5)) > 0
        return session.facts


@pytest.mark.parametrize(
    "header",
    [toy(), toy(4), toy(tied=True), with_experts(toy()), toy(n_vocab=100), toy(15), named("Phi-3-mini")],
    ids=["two layers", "four layers", "tied", "experts", "no tokenizer", "64 parts", "a name that means tokens"],
)
def test_the_engine_loads_and_evaluates_a_slice(engine: LlamaCppEngine, tmp_path: Path, header: GgufHeader) -> None:
    """A first part without tensors, parts that are shared, and empty parts: llama.cpp takes them all."""
    facts = evaluate(engine, SliceCache(tmp_path / "cache").obtain(header, Q8Blocks(), progress=lambda _: None))

    assert facts.n_vocab == next(item.dims[1] for item in header.tensors if item.name == "token_embd.weight")


def test_experts_are_chosen_evenly(engine: LlamaCppEngine, tmp_path: Path) -> None:
    """Eight tokens that choose 4 of 32 experts each, independently, reach 32 x (1 - (1 - 4/32)^8) = 21 of them."""
    header = with_experts(toy(), n_expert=32, n_used=4)
    path = SliceCache(tmp_path / "cache").obtain(header, Q8Blocks(), progress=lambda _: None)

    with engine.open(path, replace(SETTINGS, n_sequences=8, watch_experts=True)) as session:
        session.prefill(32)
        session.spread(8)
        uses = session.experts_touched(10, batch=8)

    assert uses is not None
    assert [use.layer for use in uses] == [0, 1]
    for use in uses:
        assert 18 < statistics.fmean(use.distinct_per_step) < 24


def test_slices_that_share_layers_both_run(engine: LlamaCppEngine, tmp_path: Path) -> None:
    """A layer's part is read as part of two slices, the older one after the newer one was written as well."""
    cache = SliceCache(tmp_path / "cache")
    paths = [cache.obtain(toy(layers), Q8Blocks(), progress=lambda _: None) for layers in (2, 4)]

    assert [evaluate(engine, path).n_vocab for path in paths] == [512, 512]


def test_any_text_becomes_tokens(engine: LlamaCppEngine, tmp_path: Path) -> None:
    """A token for each printable character of ASCII, the bytes of all others, and one more for the space in front."""
    path = SliceCache(tmp_path / "cache").obtain(toy(), Q8Blocks(), progress=lambda _: None)

    with engine.open(path, SETTINGS) as session:
        assert session.count_tokens("Hello, world") == 13
        assert session.count_tokens("ö") == 3
        assert session.count_tokens("大") == 4


def test_a_server_answers_from_a_slice(tmp_path: Path) -> None:
    """llama.cpp's server loads a slice, completes a prompt over HTTP, and gives back the text that was tokenized."""
    pytest.importorskip("xllamacpp")
    path = SliceCache(tmp_path / "cache").obtain(toy(), Q8Blocks(), progress=lambda _: None)
    prompt = "Grüße, 世界!\n\tx"

    done = subprocess.run(
        [sys.executable, "-c", SERVER, str(path), prompt], capture_output=True, text=True, timeout=60, check=False
    )

    if done.returncode < 0:
        pytest.skip(f"this build does not run on this machine: signal {-done.returncode}")
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["predicted"] == 6
    assert answer["text"].strip(" ") == prompt
