#!/usr/bin/env bash
# Every model once with its defaults: nothing is tuned, so this compares defaults, not models.
#
#     bash scripts/every.sh -d debian -o results/debian-every
#
# What is given is passed on to `recbench run`. `file` is left out: it reads scores made elsewhere.
# Finished trials are skipped: run it again after an interruption.
set -euo pipefail
recbench=${RECBENCH:-recbench}
names=$($recbench list models --json | sed -n 's/^  "name": "\(.*\)",$/\1/p' | grep -vx file)
models=()
for name in $names; do models+=(-m "$name"); done
$recbench run "$@" "${models[@]}"
