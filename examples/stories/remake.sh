#!/bin/sh
# Makes the memos of the three stories again from their records, plans and simulation: `sh examples/stories/remake.sh`.
# SUFFICE names the program where it is not on the path. Exit codes 1 and 3 are verdicts, not failures.
set -eu
suffice=${SUFFICE:-suffice}
here=$(cd "$(dirname "$0")" && pwd)

page() {
  code=0
  $suffice report demand.toml run.json "$@" > /dev/null || code=$?
  case $code in 0 | 1 | 3) ;; *) exit "$code" ;; esac
}

for story in nightly-summaries internal-chatbot document-classifier; do
  cd "$here/$story"
  set -- --plan plan.json
  if [ -f simulate.json ]; then set -- --simulate simulate.json "$@"; fi
  for form in md html; do
    page "$@" --out "report.$form"
    page "$@" --lang zh --out "report.zh.$form"
  done
done
