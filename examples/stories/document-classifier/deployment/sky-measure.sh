#!/usr/bin/env bash
# Measures the candidate of sky-measure.yaml: run it beside that file. It rents a machine, which costs money.
# Made by suffice 0.1.0 from a run record of 2026-12-01T03:04:05+00:00 on Intel(R) Xeon(R) Processor (llama-cpp-python 0.3.36).
# verdict: cpu (enough). Enough with margin 1.5: sustained rate 117.1 tokens/s (92.34 tokens/s to 148.4 tokens/s, extrapolated) against at least 42.36 tokens/s, headroom 2.76 (2.17 at the low end).
# note: the record is extrapolated: measure the model itself on the machine before you rely on it
# Behind each value: measured (in the record), simulated (by the verdict), stated (by you), catalogue, computed from these, or default.
set -euo pipefail

cluster=measure-classifier # computed: from the name of the model
record=${1:-candidate.json}
folder=$(dirname -- "${BASH_SOURCE[0]}")
sky launch --yes --cluster "$cluster" "$folder/sky-measure.yaml"
rsync --times "$cluster:candidate.json" "$record"
# Where a line above fails, the machine stays for 10 idle minutes: time to look, and to fetch the record by hand.
sky down --yes "$cluster"
echo "the record is $record; decide with: suffice decide demand.toml $record"
