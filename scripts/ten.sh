#!/usr/bin/env bash
# Ten models on the embedded data, each with a small grid: what README shows first. DATASET in the
# environment is for others.
#
#     bash scripts/ten.sh -o results/debian-ten
set -euo pipefail
${RECBENCH:-recbench} run -d "${DATASET:-debian}" "$@" \
    -m popularity -m ease -m edlae -m rdlae -m deql-l2 -m lr-edlae-1 -m wrmf -m ials -m rg2 \
    -m mf-mine-plus \
    --grid ease.l2=10,100,300 --grid edlae.p=0.1,0.2,0.4 --grid rdlae.p=0.1,0.2,0.4 \
    --grid deql-l2.b=0.1,0.25,0.5 --grid lr-edlae-1.k=1000,2000,3000 \
    --grid wrmf.alpha=10,30,100 --grid wrmf.l2=0.3,1,3 \
    --grid ials.alpha0=0.01,0.03,0.1 --grid ials.l2=0.001,0.003,0.01 \
    --grid rg2.alpha=0.01,0.03 --grid rg2.l2=0.00001,0.0001,0.001 \
    --grid mf-mine-plus.t=0.08,0.1,0.15 --grid mf-mine-plus.weight=1,1.1
