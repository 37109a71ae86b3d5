#!/usr/bin/env bash
# In continuous integration: numbers that you printed must still come out, or the build fails.
#
#     bash scripts/paths/ci.sh published.csv
set -euo pipefail

recbench check --published "$1" --strict --junit check.xml
