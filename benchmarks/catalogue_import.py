"""Makes the CSV files of src/suffice/catalogue/data from the collected facts in ../shared/data.

Run it again after the facts changed: ``python benchmarks/catalogue_import.py``. The same facts give the same bytes. What is written by
hand stays: models.csv, device_traits.csv, dtype_support.csv, accelerators.csv, corrections.csv, sources.csv.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections import defaultdict
from pathlib import Path

from suffice.catalogue.azure import windows_prices

ROOT = Path(__file__).resolve().parents[1]
FACTS = ROOT.parent / "shared" / "data"
DATA = ROOT / "src" / "suffice" / "catalogue" / "data"

Row = dict[str, str]

# Rows of the facts that say themselves that no such thing is known to exist; corrections.csv answers those who ask.
NO_SUCH_DEVICE = frozenset({"apple-m4-ultra"})
NO_SUCH_INSTANCE = frozenset({"EC6 / EC7"})
# LPDDR of the Raspberry Pi 5 is one channel of 32 bits (its row says so); all others count in channels of 64.
CHANNEL_BITS = {"rpi5": "32"}
PROVIDERS = {
    "AWS": "aws",
    "Azure": "azure",
    "GCP": "gcp",
    "Alibaba Cloud": "alicloud",
    "Tencent Cloud": "tencent",
    "Huawei Cloud": "huawei",
    "Open Telekom Cloud (Huawei)": "otc",
}
REGIONS = {
    "aws": ("us-east-1",),
    "azure": ("eastus", "westeurope", "eastasia"),
    "gcp": ("us-central1", "europe-west4", "asia-east1"),
    "alicloud": ("cn-hangzhou", "cn-beijing", "cn-shanghai", "ap-southeast-1", "us-east-1"),
}
PRICE_SOURCES = {
    "aws": "karpenter-aws",
    "azure": "karpenter-azure",
    "gcp": "karpenter-gcp",
    "alicloud": "karpenter-alibabacloud",
}

DEVICE_COLUMNS = {
    "id": "id", "name": "name", "kind": "kind", "vendor": "vendor", "memory_type": "mem_type", "memory_gb": "mem_gb",
    "bandwidth_gb_per_s": "mem_bw_gbs", "bandwidth_basis": "bw_basis", "fp32_tflops": "fp32_tflops",
    "bf16_tflops": "bf16_tflops", "fp16_tflops": "fp16_tflops", "int8_tops": "int8_tops", "fp8_tflops": "fp8_tflops",
    "int4_tops": "int4_tops", "fp4_tflops": "fp4_tflops", "flops_basis": "flops_basis", "tdp_w": "tdp_w", "cores": "cores",
    "threads": "threads", "channels": "mem_channels", "mt_per_s": "mem_mts", "isa": "isa",
    "measured_read_gb_per_s": "measured_read_bw_gbs", "source": "source", "seen": "seen", "note": "note",
}  # fmt: skip


def main() -> None:
    """Write all files and say how many rows each has."""
    devices = [device_row(row) for row in rows("hardware.csv") if row["id"] not in NO_SUCH_DEVICE]
    write("devices.csv", devices)
    prices = linux_prices(rows("cloud/prices.csv.gz"))
    instances = [instance_row(row, prices) for row in rows("instances.csv") if row["instance"] not in NO_SUCH_INSTANCE]
    write("instances.csv", instances)
    cloud = cloud_rows(prices)
    write("cloud_instances.csv.gz", cloud)
    apis = [api_row(row) for row in rows("api-prices.csv")]
    write("api_prices.csv", apis)
    print(f"{len(devices)} devices, {len(instances)} instances, {len(cloud)} cloud machines, {len(apis)} API prices")
    print(f"{sum(1 for row in cloud if row['price_per_hour'])} cloud machines have a price")
    print(f"only Windows prices: {', '.join(row['instance'] for row in cloud if row['price_note'].startswith('only'))}")


def rows(name: str) -> list[Row]:
    """The rows of a file of facts."""
    content = (FACTS / name).read_bytes()
    text = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
    return list(csv.DictReader(io.StringIO(text)))


def write(name: str, table: list[Row]) -> None:
    """Write a table; a compressed one without time and file name, so that the same rows give the same bytes."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    content = out.getvalue().encode()
    (DATA / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)


def device_row(row: Row) -> Row:
    """A device with our names of columns."""
    made = {ours: row[theirs].strip() for ours, theirs in DEVICE_COLUMNS.items()}
    made["channel_bits"] = CHANNEL_BITS.get(row["id"], "64") if row["mem_channels"] else ""
    return made


# --- prices


def linux_prices(table: list[Row]) -> dict[tuple[str, str], dict[str, str | None]]:
    """(vendor, instance) -> region -> price per hour; None where the price is that of Windows."""
    by_region: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for row in table:
        by_region[row["vendor"], row["region"]][row["instance"]] = row["price_per_hour"]
    dates.update({row["vendor"]: (row["currency"], row["price_date"]) for row in table})
    found: dict[tuple[str, str], dict[str, str | None]] = defaultdict(dict)
    for (vendor, region), prices in by_region.items():
        windows = (
            windows_prices({name: float(text) for name, text in prices.items()}) if vendor == "azure" else frozenset()
        )
        for name, text in prices.items():
            found[vendor, name][region] = None if name in windows else text
    return found


dates: dict[str, tuple[str, str]] = {}  # vendor -> currency and date: each of the price files has one


def price_columns(vendor: str, name: str, prices: dict[tuple[str, str], dict[str, str | None]]) -> Row:
    """One price, of the first region that has one."""
    empty = dict.fromkeys(("price_per_hour", "currency", "region", "price_date", "price_source", "price_note"), "")
    known = prices.get((vendor, name), {})
    for region in REGIONS.get(vendor, ()):
        price = known.get(region)
        if price is not None:
            first = REGIONS[vendor][0]
            windows = region != first and first in known and known[first] is None
            note = f"no price of {first} used: the one found is that of Windows" if windows else ""
            currency, date = dates[vendor]
            return {
                "price_per_hour": price, "currency": currency, "region": region, "price_date": date,
                "price_source": PRICE_SOURCES[vendor], "price_note": note,
            }  # fmt: skip
    return empty | {"price_note": "only Windows prices were found" if known else ""}


# --- instances


def instance_row(row: Row, prices: dict[tuple[str, str], dict[str, str | None]]) -> Row:
    """An instance that the requirements name, or that users ask for."""
    provider = PROVIDERS[row["provider"]]
    count = re.match(r"[\d.]+", row["accelerator_count"])
    note = row["note"]
    memory = row["accelerator_mem_gb"]
    if "|" in memory:
        note = "; ".join(part for part in (note, f"accelerator memory {memory.replace('|', ' or ')} GB") if part)
        memory = ""
    made = {
        "provider": provider, "instance": row["instance"], "vcpu": row["vcpu"], "memory_gib": row["memory_gib"],
        "accelerator": row["accelerator"], "accelerator_count": count[0] if count else "", "accelerator_memory_gb": memory,
        "cpu_model": row["cpu_model"], "llm_cpu": other_cpu(row["cpu_model"], row["llm_run_cpu_model"]),
        "threads_per_core": row["threads_per_core"], "numa_nodes": row["numa_nodes"],
        "read_gb_s": row["measured_read_bw_gbs"], "read_basis": row["measured_bw_basis"], "read_date": row["measured_date"],
    }  # fmt: skip
    made |= {
        "llama7b_decode_tok_s": row["llama7b_q4km_decode_tok_s"], "llama7b_prefill128_tok_s": row["llama7b_q4km_prefill128_tok_s"],
        "llama7b_backend": row["llama7b_backend"] if row["llama7b_q4km_decode_tok_s"] else "",
    }  # fmt: skip
    made |= stated_price(row)
    if provider == "azure" and prices.get((provider, row["instance"]), {}).get(row["region"], "") is None:
        made |= price_columns(provider, row["instance"], prices)
    return made | {"source": row["source"], "seen": row["seen"], "note": note}


def stated_price(row: Row) -> Row:
    """The price in the row itself, with a date that can be compared."""
    known = row["price_per_hour"]
    date = re.search(r"\d{4}(-\d\d){0,2}", row["price_date"])
    parts = [part.strip() for part in row["source"].split(";")]
    source = next((part for part in parts if part.startswith("price: ")), "").removeprefix("price: ")
    return {
        "price_per_hour": known, "currency": row["currency"] if known else "", "region": row["region"] if known else "",
        "price_date": date[0] if known and date else "", "price_source": source if known else "",
        "price_note": "undated, about that year" if known and "undated" in row["price_date"] else "",
    }  # fmt: skip


def other_cpu(looked: str, ran: str) -> str:
    """The CPU of the LLM run where it is another one; llama.cpp prints plain "CPU" on Arm, which says nothing."""
    return "" if ran in {"", "CPU", looked} else ran


def cloud_rows(prices: dict[tuple[str, str], dict[str, str | None]]) -> list[Row]:
    """Real machines in the cloud, in order of provider and name."""
    ran_on: dict[tuple[str, str], str] = {}
    largest: dict[tuple[str, str], int] = defaultdict(int)
    for row in rows("cloud/llama-bench.csv.gz"):
        key = (row["vendor"], row["instance"])
        ran_on[key] = row["llm_cpu"]
        if row["backend"] == "CPU" and row["gpu_layers"] == "0":
            largest[key] = max(largest[key], int(row["model_bytes"]))
    machines = sorted(rows("cloud/machines.csv.gz"), key=lambda row: (row["vendor"], row["instance"]))
    return [cloud_row(row, ran_on, largest) | price_columns(row["vendor"], row["instance"], prices) for row in machines]


def cloud_row(row: Row, ran_on: dict[tuple[str, str], str], largest: dict[tuple[str, str], int]) -> Row:
    """A machine as lscpu, lmbench and llama-bench saw it. A GPU count without a GPU's name is not trusted."""
    key = (row["vendor"], row["instance"])
    return {
        "provider": row["vendor"], "instance": row["instance"], "arch": row["arch"], "cpu_model": row["cpu_model"],
        "llm_cpu": other_cpu(row["cpu_model"], ran_on.get(key, "")), "vcpu": row["vcpu"],
        "threads_per_core": row["threads_per_core"], "cores_per_socket": row["cores_per_socket"], "sockets": row["sockets"],
        "numa_nodes": row["numa_nodes"], "isa": row["isa"], "read_gb_s": row["read_gb_s"], "read_date": row["bw_mem_date"],
        "seen": row["lscpu_date"], "gpu": row["gpu"], "gpu_count": row["gpu_count"] if row["gpu"] else "",
        "ran_model_bytes": str(largest[key] or ""),
    }  # fmt: skip


# --- API prices


def api_row(row: Row) -> Row:
    """A price of tokens, with a date that can be compared beside what the source says."""
    date = re.match(r"\d{4}(-\d\d){0,2}", row["seen"])
    return {**{key: value.strip() for key, value in row.items()}, "date": date[0] if date else ""}


if __name__ == "__main__":
    main()
