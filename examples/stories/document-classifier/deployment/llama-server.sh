#!/usr/bin/env bash
# The llama-server command that was chosen.
# Made by suffice 0.1.0 from a run record of 2026-12-01T03:04:05+00:00 on Intel(R) Xeon(R) Processor (llama-cpp-python 0.3.36).
# verdict: cpu (enough). Enough with margin 1.5: sustained rate 117.1 tokens/s (92.34 tokens/s to 148.4 tokens/s, extrapolated) against at least 42.36 tokens/s, headroom 2.76 (2.17 at the low end).
# note: the record is extrapolated: measure the model itself on the machine before you rely on it
# Behind each value: measured (in the record), simulated (by the verdict), stated (by you), catalogue, computed from these, or default.
set -euo pipefail

arguments=(
  --model /srv/models/classifier.gguf # stated: --model-path
  --alias classifier # computed: from the file's name
  --host 127.0.0.1 # default: loopback only; put a proxy with TLS and keys before it
  --port 8080 # default: llama-server's own; --port gives another
  --threads 2 # measured: fastest for a step of one sequence
  --threads-batch 2 # measured: threads that prompts and steps of several ran with
  --batch-size 2048 # simulated: as in the verdict's simulation
  --ubatch-size 512 # measured: micro-batch of the run's prefill
  --flash-attn off # measured: compared with the other in the run
  --gpu-layers 0 # measured: layers on a GPU in the run
  --parallel 8 # simulated: slots at which the verdict has the limits hold, or a queue is worked off fastest
  --ctx-size 16384 # computed: 8 slots x 2048 tokens (stated: 1820 tokens, P95 of prompt and answer; a longer request is refused, or its answer cut, up to a multiple of 256 as llama.cpp rounds it)
  --cache-type-k f16 # measured: type in the run
  --cache-type-v f16 # measured: type in the run
  --load-mode mlock # computed: as in the run; locked, as it fits the free memory with headroom
  --cache-ram 0 # default: off: 8192 MiB by default, which no measured memory holds; each slot keeps its own prefix anyway
  --metrics # default: counters at /metrics
  --no-slots # default: /slots would show what others ask
  --no-webui # default: an API needs no page
)

server=/usr/local/bin/llama-server # default: where `cmake --install` of llama.cpp puts it; --server gives another

# computed: the model is locked in memory, which the usual limit of some MiB forbids; llama-server then goes on without
if ! ulimit -l unlimited 2>/dev/null; then
  echo "the model will not be locked in memory: raise the hard limit of memlock for this user, or use the systemd unit" >&2
fi

exec "$server" "${arguments[@]}"
