"""Options that several commands share, and the parsing of their values."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer.models import Default

from suffice.errors import UsageError
from suffice.units import LARGEST_FIGURE, SECONDS_PER_DAY, parse_duration_s


def duration(text: str) -> float:
    """Seconds of a duration that is a day at most; for ``parser=`` of an option."""
    try:
        value_s = parse_duration_s(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if value_s > SECONDS_PER_DAY:
        raise typer.BadParameter(f"{text!r} is more than a day")
    return value_s


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
Budget = Annotated[
    float | None,
    typer.Option(
        "--budget",
        parser=duration,
        metavar="TIME",
        help="Time to plan with, such as 60s, 2m or 500ms; loading and writing slices may add to it. Default: 40s for files, 13s to 52s for slices, twice that and at least 60s with a service curve, 6s for bandwidth alone.",
    ),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Threads to use. Default: the best of a short sweep.")
]
PromptTokens = Annotated[
    int | None, typer.Option("--prompt-tokens", min=1, help="Length of the prompt whose prefill is timed.")
]
Depth = Annotated[
    int | None,
    typer.Option(
        "--depth",
        min=0,
        help="Tokens in the cache while decoding is timed. Default: the demand's, else those of the prompt (512); `measure`: 0.",
    ),
]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Also time decoding of so many sequences together.")]
Slots = Annotated[
    int | None,
    typer.Option(
        "--slots",
        min=1,
        help="Also measure the service curve: steps of up to so many sequences, and chunks of prompts, at several depths. "
        "It takes half of the budget. 1: none.",
    ),
]
OnNode = Annotated[
    int | None,
    typer.Option(
        "--numa-node",
        min=0,
        metavar="NODE",
        help="Keep engine and bandwidth reading on the CPUs and the memory of this NUMA node (Linux). A mapped model file stays "
        "where the system has read it; --no-mmap copies it to the node.",
    ),
]
PerNode = Annotated[
    bool,
    typer.Option(
        "--per-node",
        help="With --slots, on a machine with several NUMA nodes: measure the service curve of one engine on each node, all at "
        "work at the same time. Each has the slots, and a copy of the weights (--no-mmap).",
    ),
]
InSlices = Annotated[
    bool,
    typer.Option(
        "--slices", help="Read only the header of a file and measure slices of it, as of a model that is not here."
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="A shape (llama-3.1-8b:q4_k_m; nothing is downloaded), a GGUF file, or an address of one.",
    ),
]
PromptFile = Annotated[
    Path | None,
    typer.Option("--prompt", metavar="FILE", help="Text file with a prompt of yours instead of random tokens."),
]
EngineName = Annotated[
    str | None, typer.Option("--engine", help="llama-cpp-python or xllamacpp. Default: the first that is installed.")
]
EngineLibrary = Annotated[
    Path | None,
    typer.Option("--engine-library", metavar="FILE", help="A llama.cpp shared library (libllama.so, .dylib, .dll)."),
]
GpuLayers = Annotated[
    int, typer.Option("--gpu-layers", min=0, help="Layers to give to a GPU, when the engine was built for one.")
]
Ubatch = Annotated[int, typer.Option("--ubatch", min=1, help="Tokens evaluated at once during prefill.")]
KvType = Annotated[str, typer.Option("--kv-type", help="Type of the KV cache: f16, q8_0, ...")]
FlashAttention = Annotated[str, typer.Option("--flash-attention", help="auto, on or off.")]
Mmap = Annotated[bool, typer.Option("--mmap/--no-mmap", help="Map the model file instead of reading it into memory.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to write the run record (JSON).")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the incomplete record at --out instead of starting anew.")
]
OwnCatalogue = Annotated[
    Path | None,
    typer.Option("--catalog", metavar="FILE", help="Entries of yours (TOML) that change the catalogue's or are added."),
]
MaxLoss = Annotated[
    float | None,
    typer.Option(
        "--max-loss",
        metavar="POINTS",
        help="Most that a model may lose against its reference, in points of 100, where the demand does not say. Default: 1.",
    ),
]

Margin = Annotated[
    float | None,
    typer.Option("--margin", min=1.0, max=100.0, help="Headroom for peaks and retries. Default: the demand's, or 1.5."),
]


def group(help_text: str | None = None, *, shows_help: bool = True) -> typer.Typer:
    """A command that has subcommands, with help as all of them have it; ``shows_help``: where it is called without any.

    ``help_text`` None: the callback's own text.
    """
    return typer.Typer(
        help=Default(None) if help_text is None else help_text,
        no_args_is_help=shows_help,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def positive(value: float, flag: str) -> float:
    """The value when it is a positive, finite number.

    Raises:
        UsageError: it is not.
    """
    if not 0 < value < float("inf"):
        raise UsageError(f"{flag} {value:g} is not a positive number")
    if not 1 / LARGEST_FIGURE <= value <= LARGEST_FIGURE:
        raise UsageError(f"{flag} {value:g} is no figure of a machine; check the unit")
    return value


def read_prompt(path: Path | None) -> str | None:
    """The user's prompt, or None when there is none."""
    from suffice.loaders.files import read_small_file
    from suffice.units import MIB

    if path is None:
        return None
    text = read_small_file(path, limit_bytes=16 * MIB, error=UsageError)
    if not text.strip():
        raise UsageError(f"{path} is empty; a prompt needs text")
    return text
