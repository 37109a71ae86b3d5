#!/usr/bin/env bash
# A model of your own, in one file: checked, tuned beside baselines, and compared with one of them.
# The file is the one that docs/adding-a-model.md shows.
#
#     bash scripts/paths/new-model.sh plain_mf.py plain-mf
set -euo pipefail

recbench check-plugin --plugin "$1" "$2"

recbench run --plugin "$1" -m "$2" -m ease -m popularity --grid "$2.factors=8,16,32" \
    -o results/new

recbench show results/new

recbench compare "$2" popularity -o results/new
