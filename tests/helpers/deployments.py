"""Records and demands from which deployments are chosen, whole by default, with what a test is about changed by name."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from helpers.records import run_record
from suffice.decide.evidence import evidence_from
from suffice.decide.verdict import decide_machine
from suffice.deploy.choice import DeploymentChoice, choose
from suffice.model.demand import Demand, DemandKind, Lengths
from suffice.units import MIB

if TYPE_CHECKING:
    from suffice.deploy.choice import Asked
    from suffice.records.schema import RunRecord

# Names that break out of whatever forgets to quote them.
HOSTILE_PATHS = (
    '/srv/with space/it\'s "quoted".gguf',
    "/srv/$HOME/${PATH}/$(id)/`id`.gguf",
    "/srv/%n/%%h/100%.gguf",
    "/srv/a;rm -rf ~ #.gguf",
    "/srv/back\\slash\\x41\\.gguf",
    "/srv/: {a: b} [c] &d *e !f |g >h.gguf",
    "/srv/<script>alert(1)</script>.gguf",
    "/srv/模型/größe.gguf",
    "/srv/a:b,c/$$(NAME).gguf",
    "/home/user/-m --host 0.0.0.0.gguf",
)
HOSTILE_TEXT = 'Xeon"\n# */ --> <b>\n[Service]\nExecStart=/bin/rm\\'


def settings(**changes: Any) -> dict[str, Any]:
    """Settings as a run of a small model leaves them: 64 MiB of cache, 100 MiB of buffers."""
    found = {
        "n_ctx": 1024,
        "n_threads": 3,
        "n_threads_batch": 4,
        "n_batch": 512,
        "n_ubatch": 256,
        "type_k": "f16",
        "type_v": "f16",
        "flash_attention": False,
        "use_mmap": True,
        "use_extra_buffers": True,
        "n_gpu_layers": 0,
        "kv_cache_bytes": 64 * MIB,
        "compute_buffer_bytes": 100 * MIB,
    }
    return found | changes


def deployable(**changes: Any) -> RunRecord:
    """A record that says all that a deployment needs."""
    record = run_record(settings=settings())
    measurement = replace(record.measurement, peak_rss_bytes=1500 * MIB)
    return replace(record, **{"measurement": measurement} | changes)


def chat_demand(**changes: Any) -> Demand:
    """One stream: prompts of 500 and answers of 200 tokens, five tokens a second."""
    demand = Demand(
        kind=DemandKind.INTERACTIVE,
        prompt_tokens=Lengths(p50=300, p95=500),
        output_tokens=Lengths(p50=100, p95=200),
        tokens_per_second_per_user=5.0,
    )
    return replace(demand, **changes)


def chosen(
    record: RunRecord | None = None, demand: Demand | None = None, asked: Asked | None = None
) -> DeploymentChoice:
    """The choice with the verdict that the record deserves."""
    record, demand = record or deployable(), demand or chat_demand()
    return choose(demand, record, decide_machine(demand, evidence_from(record)), asked)
