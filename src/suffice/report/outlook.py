"""What a verdict on users, a rate or a queue rests on: slots, capacity, machines, and latency against load."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from suffice.decide.service_load import LoadKind
from suffice.decide.service_table import load_table, percent_of, shown_curve, shown_proof
from suffice.decide.wording import format_value, machines_sentence
from suffice.report.tables import markdown_table, markdown_text, plain_table
from suffice.serving.capacity import Proof

if TYPE_CHECKING:
    from suffice.decide.quantity import Quantity
    from suffice.decide.service import Drained, Served, ServiceOutlook
    from suffice.decide.service_table import LoadRow
    from suffice.serving.search import LatencyLimit


_SHORT: Final = {"ttft_s": "TTFT", "tpot_s": "TPOT"}
_RUNS_SHOWN: Final = {
    Proof.MEDIAN: "the middle one",
    Proof.HOLDS: "the worst",
    Proof.MAY_HOLD: "the best",
}


def outlook_text(service: ServiceOutlook) -> list[str]:
    """Lines for a terminal."""
    lines = _sentences(service)
    served = service.served
    rows = () if served is None else load_table(served)
    if served is not None and rows:
        lines.append(plain_table([_columns(served), *(_cells(row) for row in rows)]))
        lines.append(_table_note(served))
    return lines


def outlook_markdown(service: ServiceOutlook) -> str:
    """For the memo."""
    parts = ["## Under load, simulated", "\n".join(f"- {markdown_text(line)}" for line in _sentences(service))]
    served = service.served
    rows = () if served is None else load_table(served)
    if served is not None and rows:
        parts.append(markdown_table([_columns(served), *(_cells(row) for row in rows)]))
        parts.append(markdown_text(_table_note(served)))
    return "\n\n".join(parts)


def _sentences(service: ServiceOutlook) -> list[str]:
    lines: list[str] = []
    served, drained = service.served, service.drained
    if served is not None:
        lines.append(_server_line(served))
        lines.append(
            f"capacity: {_range(served.capacity, served.case.kind.value)}{_capacity_slots(served)}, demanded {_load(served, served.case.demanded)}"
        )
        more_slots = _more_slots(served)
        lines += [more_slots] if more_slots else []
        machines = machines_sentence(served)
        if machines:
            lines.append(machines)
    if drained is not None:
        lines.append(
            f"server: llama-server --parallel {drained.slots} is fastest for a queue: {_range(drained.requests_per_second, 'requests/s')}"
        )
    return lines


def _server_line(served: Served) -> str:
    if served.case.kind is LoadKind.USERS:
        return f"server: llama-server --parallel {served.slots}, a slot and a cache for each user"
    return f"server: llama-server --parallel {served.slots}, a cache each"


def _range(quantity: Quantity | None, unit: str) -> str:
    if quantity is None:
        return "unknown"
    if quantity.more_untried:
        low = "" if quantity.low in (None, quantity.point) else f"at least {quantity.low:.3g} at the low end, "
        return f"at least {quantity.point:.3g} {unit} ({low}more was not tried)"
    ends = [
        "no lower end known" if quantity.low is None else f"{quantity.low:.3g}",
        "no upper end known" if quantity.high is None else f"{quantity.high:.3g}",
    ]
    return f"{quantity.point:.3g} {'user' if unit == LoadKind.USERS and quantity.point == 1 else unit} ({' to '.join(ends)})"


def _capacity_slots(served: Served) -> str:
    if served.case.kind is LoadKind.USERS or served.capacity_slots == served.slots:
        return ""
    return f" with --parallel {served.capacity_slots}"


def _more_slots(served: Served) -> str:
    """Where the most slots that were tried carry most, more of them may carry more."""
    most = served.case.most_slots
    fits_more = served.slots_that_fit is None or served.slots_that_fit > most
    if served.case.kind is LoadKind.USERS or served.capacity_slots < most or not fits_more:
        return ""
    return f"more than {most} slots were not tried: they may carry more"


def _load(served: Served, load: float) -> str:
    return f"{load:.3g} {served.case.kind.value}"


def _columns(served: Served) -> list[str]:
    ttft, tpot = (f"P{percent_of(served, metric):g}" for metric in ("ttft_s", "tpot_s"))
    return [served.case.kind.value, "TTFT P50", f"TTFT {ttft}", "TPOT P50", f"TPOT {tpot}", "output tokens/s", "limits"]


def _cells(row: LoadRow) -> list[str]:
    mark = " (demanded)" if row.is_demanded else ""
    times = (row.ttft_p50_s, row.ttft_s, row.tpot_p50_s, row.tpot_s)
    return [
        f"{row.load:.3g}{mark}",
        *(_seconds(value) for value in times),
        f"{row.output_tokens_per_second:.4g}",
        _limits_text(row),
    ]


def _limits_text(row: LoadRow) -> str:
    return f"{' and '.join(_SHORT[metric] for metric in row.missed)} missed" if row.missed else "hold"


def _seconds(value: float) -> str:
    return "none" if math.isnan(value) else format_value(value, "s")


def _table_note(served: Served) -> str:
    limits = " and ".join(
        f"{_SHORT[limit.metric]} P{limit.percent:g} at most {format_value(limit.seconds, 's')}"
        for limit in served.case.limits
    )
    runs = f"{_RUNS_SHOWN[shown_proof(served.ends)]} of {served.case.trial.runs} runs"
    carries = _capacity_slots(served)
    slots = f"{carries}, which carries the capacity" if carries else ""
    return f"simulated from {shown_curve(served.ends)[1]}{slots}, {runs}; asked for: {limits}"


def outlook_document(service: ServiceOutlook | None) -> dict[str, Any] | None:
    """The JSON value of ``serving``; None for a demand of one stream."""
    if service is None:
        return None
    document: dict[str, Any] = {} if service.served is None else _served_document(service.served)
    document["queue"] = None if service.drained is None else _drained_document(service.drained)
    return document


def _served_document(served: Served) -> dict[str, Any]:
    case = served.case
    return {
        "load": case.kind.value,
        "demanded": case.demanded,
        "margin": case.margin,
        "slots": served.slots,
        "curve_slots": served.capacity_slots if case.kind is LoadKind.RATE else None,
        "slots_that_fit": served.slots_that_fit,
        "cache": case.scheduler(1).layout.value,
        "capacity": _quantity_document(served.capacity),
        "uneven_users": list(served.uneven),
        "machines": served.machines,
        "slots_of_a_machine": None if served.machines is None else served.machine_slots,
        "limits": [_limit_document(limit) for limit in case.limits],
        "simulated_from": shown_curve(served.ends)[1],
        "beyond_measurements": list(served.ends.beyond),
        "curve": [_row_document(row) for row in load_table(served)],
        "ttft_percentile": percent_of(served, "ttft_s"),
        "tpot_percentile": percent_of(served, "tpot_s"),
        "runs": case.trial.runs,
        "requests_per_run": case.requests,
    }


def _drained_document(drained: Drained) -> dict[str, Any]:
    return {
        "slots": drained.slots,
        "slots_that_fit": drained.slots_that_fit,
        "requests_per_second": _quantity_document(drained.requests_per_second),
        "simulated_from": shown_curve(drained.ends)[1],
        "beyond_measurements": list(drained.ends.beyond),
    }


def _quantity_document(quantity: Quantity | None) -> dict[str, Any] | None:
    if quantity is None:
        return None
    return {
        "point": quantity.point,
        "low": quantity.low,
        "high": quantity.high,
        "is_least": quantity.more_untried,
        "basis": quantity.basis.value,
    }


def _limit_document(limit: LatencyLimit) -> dict[str, Any]:
    return {"metric": limit.metric, "seconds": limit.seconds, "percent": limit.percent}


def _row_document(row: LoadRow) -> dict[str, Any]:
    values = {
        "ttft_p50_s": row.ttft_p50_s,
        "ttft_s": row.ttft_s,
        "tpot_p50_s": row.tpot_p50_s,
        "tpot_s": row.tpot_s,
        "output_tokens_per_second": row.output_tokens_per_second,
    }
    known = {name: None if math.isnan(value) else value for name, value in values.items()}
    return {
        "load": row.load,
        **known,
        "limits_hold": not row.missed,
        "missed": list(row.missed),
        "is_demanded": row.is_demanded,
    }
