#!/usr/bin/env bash
# Build the wheel, install it with nothing but its own dependencies, and use it as a new user would.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" wheel -q --no-deps -w "$work/dist" "$here"
"$work/venv/bin/pip" install -q "$work"/dist/*.whl
echo "installed: $(du -sm "$work/venv/lib" | cut -f1) MB, wheel: $(du -k "$work"/dist/*.whl | cut -f1) kB"

cd "$work"
export RECBENCH_OFFLINE=1
recbench=$work/venv/bin/recbench
"$recbench" --help > help.txt
"$recbench" list models > models.txt
"$recbench" run --model deql-l2 --grid b=0.1:2.0
test -s results/debian-strong/metrics.csv
grep -q "\"commit\": \"$(git -C "$here" rev-parse HEAD)\"" results/debian-strong/manifest.json
ls results/debian-strong/per-user/*.parquet > per-user.txt
"$recbench" show > show.txt
"$recbench" check-plugin ease
echo "smoke test passed"
