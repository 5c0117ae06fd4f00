"""The options of ``suffice load``: what is sent, how it is judged, and where results go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suffice.cli.options import duration


def _limit(flag: str, what: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(
        flag, parser=duration, metavar="TIME", help=f"Longest {what} that is good enough."
    )
    return info


Url = Annotated[
    str | None,
    typer.Argument(metavar="URL", help="Address of an OpenAI-compatible server, such as http://localhost:8080."),
]
What = Annotated[
    str | None,
    typer.Argument(metavar="WHAT", help="After --find-capacity: rate (the default) or users."),
]
FindCapacity = Annotated[
    bool,
    typer.Option(
        "--find-capacity",
        help="Search for the highest rate, or with 'users' behind it the most users, at which the limits hold.",
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        min=1,
        help="Closed loop: so many requests at a time. Default: 1. With --find-capacity: users to begin with.",
    ),
]
Rate = Annotated[
    float | None,
    typer.Option(
        "--rate",
        help="Open loop: requests per second, whatever the server does. With --find-capacity: the rate to begin with.",
    ),
]
Ramp = Annotated[
    str | None,
    typer.Option(
        "--ramp", metavar="FROM:TO", help="Open loop whose rate goes evenly from one to the other in --duration."
    ),
]
ArrivalWord = Annotated[str, typer.Option("--arrivals", help="Of an open loop: constant, poisson or gamma.")]
Burstiness = Annotated[float, typer.Option("--burstiness", help="Of gamma arrivals: 1 is Poisson, less is burstier.")]
Trace = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", help="Replay arrivals: JSONL (Mooncake's form too) or Azure's CSV."),
]
TraceSpeed = Annotated[float, typer.Option("--trace-speed", help="Replay so many times faster.")]
Requests = Annotated[
    int | None,
    typer.Option(
        "--requests", min=1, help="Measured requests to send. With --find-capacity: most at a level (default 1200)."
    ),
]
Duration = Annotated[
    float | None,
    typer.Option(
        "--duration",
        parser=duration,
        metavar="TIME",
        help="Send so long. Default: 60s, without --requests. With --find-capacity: at most at a level (5m).",
    ),
]
Warmup = Annotated[
    int | None,
    typer.Option(
        "--warmup",
        min=0,
        help="Requests sent first and not measured. Default: one a user, 1 in an open loop; more with --find-capacity.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", parser=duration, metavar="TIME", help="Longest time for one request. Default: 10m."),
]
PromptTokens = Annotated[
    int | None, typer.Option("--prompt-tokens", min=1, help="Length of made prompts. Default: the demand's, or 256.")
]
OutputTokens = Annotated[
    int | None, typer.Option("--output-tokens", min=1, help="Length of the answers. Default: the demand's, or 64.")
]
SharedPrefix = Annotated[
    int, typer.Option("--shared-prefix", min=0, help="First words that all made prompts share. Default: none.")
]
Prompts = Annotated[
    Path | None,
    typer.Option("--prompts", metavar="FILE", help="JSONL with a 'prompt' or 'messages' a line, used in order."),
]
ExactLength = Annotated[
    bool, typer.Option("--exact-length/--no-exact-length", help="Ask for answers of the full length (ignore_eos).")
]
KeepAlive = Annotated[
    bool,
    typer.Option("--keep-alive", help="Use connections again. Default: one for each request, set up before its time."),
]
ApiWord = Annotated[str, typer.Option("--api", help="chat or completions.")]
ServerModel = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="The server's name of the model. Default: its first.")
]
ApiKeyEnv = Annotated[
    str | None, typer.Option("--api-key-env", metavar="NAME", help="Environment variable that holds the API key.")
]
CaFile = Annotated[
    Path | None,
    typer.Option("--ca-file", metavar="FILE", help="Certificates (PEM) to trust besides the system's, for https."),
]
Temperature = Annotated[float | None, typer.Option("--temperature", min=0.0, help="Default: the server's own.")]
Seed = Annotated[int, typer.Option("--seed", help="Of arrivals and made prompts.")]
TtftLimit = Annotated[float | None, _limit("--ttft-limit", "time to first token")]
TpotLimit = Annotated[float | None, _limit("--tpot-limit", "time per token after it")]
E2eLimit = Annotated[float | None, _limit("--e2e-limit", "time for a whole answer")]
DemandFile = Annotated[
    Path | None,
    typer.Option("--demand", metavar="FILE", help="Take limits, their percentiles, and lengths from a demand.toml."),
]
RecordFile = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="RUN",
        help="A run record of the server's machine and model: answers faster than its ceilings are contradictions.",
    ),
]
Percentile = Annotated[
    float,
    typer.Option(
        "--percentile",
        min=1,
        max=99.9,
        help="With --find-capacity: per cent of the attempts that must keep the limits.",
    ),
]
Confidence = Annotated[
    float,
    typer.Option("--confidence", min=0.5, max=0.999, help="Of the answer of --find-capacity, both ends together."),
]
Tolerance = Annotated[
    float, typer.Option("--tolerance", min=0.01, max=1.0, help="How exact --find-capacity searches, as a share.")
]
MostProbes = Annotated[
    int, typer.Option("--most-probes", min=2, max=100, help="Levels that --find-capacity tries at most.")
]
Spawn = Annotated[
    Path | None,
    typer.Option(
        "--spawn",
        metavar="FILE",
        help="Start llama.cpp's server (the prebuilt engine: lower bounds) on a GGUF file for the run, instead of a URL.",
    ),
]
Slots = Annotated[int, typer.Option("--slots", min=1, help="Of the server that --spawn starts.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Where to write the result (JSON); --find-capacity: after each level."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the search in --out, when it was of the same load and limits.")
]
Chart = Annotated[
    Path | None,
    typer.Option("--chart", metavar="FILE", help="With --find-capacity: draw the curve (.svg or .png)."),
]
