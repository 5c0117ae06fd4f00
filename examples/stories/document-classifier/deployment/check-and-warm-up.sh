#!/usr/bin/env bash
# Health check and warm-up: run it after each start, before users are let in.
# Exit code 0: it serves as chosen and is warm; 1: it does not.
# Made by suffice 0.1.0 from a run record of 2026-12-01T03:04:05+00:00 on Intel(R) Xeon(R) Processor (llama-cpp-python 0.3.36).
# verdict: cpu (enough). Enough with margin 1.5: sustained rate 117.1 tokens/s (92.34 tokens/s to 148.4 tokens/s, extrapolated) against at least 42.36 tokens/s, headroom 2.76 (2.17 at the low end).
# note: the record is extrapolated: measure the model itself on the machine before you rely on it
# Behind each value: measured (in the record), simulated (by the verdict), stated (by you), catalogue, computed from these, or default.
set -euo pipefail

base=${1:-http://127.0.0.1:8080} # default: llama-server's own; --port gives another
wait_s=120 # default: no load time was measured
slots=8 # simulated: slots at which the verdict has the limits hold, or a queue is worked off fastest
context=2048 # stated: 1820 tokens, P95 of prompt and answer; a longer request is refused, or its answer cut, up to a multiple of 256 as llama.cpp rounds it
words=600 # stated: median prompt, a word is a token or more; at most 4096, and no more than a slot holds
model=classifier

fail() {
  echo "not ready: $1" >&2
  exit 1
}

# /health answers 503 while the model is loaded, and 200 from then on.
deadline=$((SECONDS + wait_s))
until curl --silent --fail --max-time 5 --output /dev/null "$base/health"; do
  if ((SECONDS >= deadline)); then
    fail "no answer at $base/health within $wait_s s"
  fi
  sleep 1
done

# What is served is what was chosen: slots, and the context of each.
properties=$(curl --silent --fail --max-time 10 "$base/props") || fail "no answer at $base/props"
number_of() {
  printf '%s' "$properties" | tr -d ' \n' | grep --only-matching "\"$1\":[0-9]*" | head -n 1 | cut -d : -f 2
}
served=$(number_of total_slots) || fail "the server does not tell its slots"
if [[ "$served" != "$slots" ]]; then
  fail "it has $served slots, $slots were chosen"
fi
room=$(number_of n_ctx) || fail "the server does not tell its context"
if ((room < context)); then
  fail "a slot holds $room tokens, $context were chosen"
fi

# One request for each slot, all at once, each with a prompt of its own: pages are read, buffers allocated, clocks raised.
ask() {
  local text="warm up $1:"
  for ((word = 0; word < words - 16; word++)); do
    text+=" word"
  done
  curl --silent --fail --max-time 3600 --output /dev/null --header 'Content-Type: application/json' \
    --data "{\"model\": \"$model\", \"prompt\": \"$text\", \"max_tokens\": 8, \"temperature\": 0}" "$base/v1/completions"
}
requests=()
for ((slot = 1; slot <= slots; slot++)); do
  ask "$slot" &
  requests+=("$!")
done
for request in "${requests[@]}"; do
  wait "$request" || fail "a warm-up request failed"
done
echo "ready: $slots slots of $room tokens at $base"
