#!/usr/bin/env bash
# The board of the committed results: one page, all models on all datasets, ours beside printed.
#
#     bash scripts/board.sh
#     SITE=public PICTURE=docs/img/board.png bash scripts/board.sh
#
# The page is written to $SITE/index.html (default site/). PICTURE is for the documentation: what a
# browser (chromium, or $BROWSER) shows of the page first.
set -euo pipefail
cd "$(dirname "$0")/.."
site=${SITE:-site}
${RECBENCH:-recbench} board results/ -o "$site"
if [ -n "${PICTURE:-}" ]; then
    "${BROWSER:-chromium}" --headless --no-sandbox --hide-scrollbars --window-size=1180,860 \
        --screenshot="$PICTURE" "file://$(realpath "$site")/index.html"
fi
