#!/usr/bin/env bash
# Measures the candidate of sky-measure.yaml: run it beside that file. It rents a machine, which costs money.
# Made by suffice 0.1.0 from a run record of 2026-11-30T17:37:56+00:00 on Intel(R) Xeon(R) Processor (llama-cpp-python 0.3.36).
# verdict: undecided (open). Not settled with margin 1.5: sustained rate 110.7 tokens/s (at most 650.9 tokens/s, no lower end known, extrapolated) against at least 42.36 tokens/s, headroom 2.61.
# note: the machine is not shown to be enough: open; `suffice decide` says why
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
