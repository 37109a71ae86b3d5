#!/usr/bin/env bash
# Every spectral and low-rank model over ranks and penalties, beside the full autoencoders.
#
#     bash scripts/landscape.sh -d debian -o results/debian-spectral
#
# What is given is passed on to each `recbench run`; RANKS, P, L2, ADMM_RANKS, ADMM_P and STEPS may be
# set in the environment.
# Finished trials are skipped: run it again after an interruption.
set -euo pipefail
ranks=${RANKS:-10,20,50,100,200,500,1000,2000,3000,4000}
p=${P:-0.1,0.3,0.5,0.7}
l2=${L2:-10}
recbench=${RECBENCH:-recbench}

full() {
    $recbench run "$@" -q -m ease -m dlae -m edlae --grid l2=1,3,10,30,100,300 --grid "p=$p"
}

spectral() {  # one decomposition for all of them
    local weights=1,10,100,1000,10000 powers=-2,-1,-0.5,0.5,1
    $recbench run "$@" -q --grid "k=$ranks" \
        -m regularized-pca --grid regularized-pca.l2=0.1,0.3,1,2,4,8 \
        -m vlae --grid vlae.c=1,3,10,30,100,300 \
        -m lrr --grid lrr.l2=3,10,30,100,300,1000 \
        -m wlae --grid wlae.l2=1,3,10,30,100 --grid wlae.power=0.25,0.5,1 \
        -m lrr-weighted --grid "lrr-weighted.l2=$weights" --grid "lrr-weighted.power=$powers" \
        -m mf-sorted --grid "mf-sorted.l2=$weights" --grid "mf-sorted.power=$powers" \
        -m mf-dropout --grid mf-dropout.p=0.9:0.9999
}

lowrank() {  # one inverse and three decompositions for each p and l2
    $recbench run "$@" -q -m lr-dlae -m lr-edlae-1 -m lr-edlae-2 -m deql-lowrank --grid "p=$p" \
        --grid "k=$ranks" --grid "deql-lowrank.l2-effective=$l2" \
        --grid "lr-dlae.l2=$l2" --grid "lr-edlae-1.l2=$l2" --grid "lr-edlae-2.l2=$l2"
}

alternating() {  # up to 150 rounds of products with the inverse, for each rank anew
    $recbench run "$@" -q -m edlae-admm --grid "k=${ADMM_RANKS:-10,50,200}" --grid "p=${ADMM_P:-0.3}" \
        --grid "l2=$l2"
}

for step in ${STEPS:-full spectral lowrank alternating}; do
    echo "== $step"
    $step "$@"
done
