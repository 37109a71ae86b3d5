#!/usr/bin/env bash
# The matrix factorisations, tuned on validation, beside each other: the table and the paired tests.
#
#     bash scripts/factorisations.sh -d gowalla -o results/gowalla-als
#     FACTORS=256 STEPS=main bash scripts/factorisations.sh -d gowalla -o results/gowalla-als
#
# What is given is passed on to each `recbench run`; FACTORS, SWEEPS and STEPS may be set in the
# environment. Sweeps are tuned like penalties: stopping early is one, and costs nothing to try.
# Finished trials are skipped: run it again after an interruption.
set -euo pipefail
factors=${FACTORS:-64}
sweeps=${SWEEPS:-2,3,4,6,8,12}
recbench=${RECBENCH:-recbench}

common() {
    $recbench run "$@" -k ndcg@20,recall@20 --grid "factors=$factors"
}

main() {
    common "$@" --grid "iterations=$sweeps" \
        -m ials --grid ials.alpha0=0.01,0.03,0.1 --grid ials.l2=0.0003,0.001,0.003,0.01,0.03 \
        -m wrmf --grid wrmf.alpha=10,30,100 --grid wrmf.l2=3,10,30,100,300 \
        -m rg2 --grid rg2.alpha=0.003,0.01,0.03 --grid rg2.l2=0.00003,0.0003,0.003 \
        -m rgx --grid rgx.alpha=0.003,0.01,0.03 --grid rgx.l2=0.00003,0.0003 \
        --grid rgx.beta=0.03,0.1,0.3
}

sampled() {
    common "$@" --grid "iterations=$sweeps" \
        -m rg2-ssm --grid rg2-ssm.negatives=10,30,100 --grid rg2-ssm.l2=0.003,0.03,0.3 \
        -m rgx-ssm --grid rgx-ssm.negatives=10,30,100 --grid rgx-ssm.l2=0.003,0.03 \
        --grid rgx-ssm.beta=0.03,0.1
}

matrix() {
    common "$@" -m rg2-matrix --grid "iterations=$sweeps" \
        --grid rg2-matrix.alpha=0.003,0.01,0.03 --grid rg2-matrix.l2=0.00003,0.0003
}

closed() {
    common "$@" -m rg2-svd --grid rg2-svd.l2=0.1,0.3,1,3,10
}

for step in ${STEPS:-main sampled matrix closed}; do
    echo "== $step"
    $step "$@"
done
