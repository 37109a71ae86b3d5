#!/usr/bin/env bash
# Trained models: the recipes of published rows, what validation chooses, and a table of all losses.
#
#     bash scripts/trained.sh recipes -d gowalla -o results/gowalla-trained
#     bash scripts/trained.sh table -d debian -o results/debian-trained
#
# `recipes` fits each model once on all that the test may be fitted on, with parameters from the
# literature where they are published; docs/trained-models.md says which are. `tuned` looks for
# them on validation, by successive halving. `table` has every loss on mf and on lightgcn, with the
# rate that validation chooses. What is given after the first word is passed on to `recbench run`;
# SEEDS and ONLY (model names) may be set in the environment. Finished trials are skipped: run it
# again after an interruption.
set -euo pipefail
recbench=${RECBENCH:-recbench}
seeds=${SEEDS:-0}

declare -A recipe=(
    [mf-mine-plus]='t=0.08,weight=1.22'
    [mf-mine]='t=0.1'
    [mf-infonce]='t=0.1'
    [mf-infonce-debiased]='t=0.1'
    [mf-ccl]='margin=0.9,weight=150'
    [mf-ccl-debiased]='margin=0.9,weight=0.7'
    [mse]=''
    [mse-debiased]=''
    [mf-bpr]=''
    [cml]=''
    [youtubenet]=''
    [lightgcn]=''
    [simplex]=''
    [ssm-mf]='t=0.12'
    [ssm-gnn]='t=0.12,layers=1'
)
order='ssm-gnn mf-mine-plus mse mse-debiased mf-infonce mf-mine mf-ccl mf-infonce-debiased
    mf-ccl-debiased ssm-mf mf-bpr cml youtubenet simplex lightgcn'

recipes() {
    local model
    for model in ${ONLY:-$order}; do
        $recbench run "$@" -q --no-validate --seed "$seeds" -k recall@20,ndcg@20 \
            -m "$model${recipe[$model]:+[${recipe[$model]}]}"
    done
}

table() {
    local model paired='bpr cml sml lightgcn lightgcn+cml lightgcn+sml'
    local others='softmax sparsemax bce uib ssm-mf mf-infonce mf-infonce-debiased mf-mine
        mf-mine-plus mf-ccl mf-ccl-debiased lightgcn+softmax lightgcn+sparsemax lightgcn+bce
        lightgcn+uib lightgcn+ssm lightgcn+infonce lightgcn+infonce-debiased lightgcn+mine
        lightgcn+mine-plus lightgcn+ccl lightgcn+ccl-debiased'
    $recbench run "$@" -q -m popularity -m ease -m ials -m mse -m mse-debiased
    for model in ${ONLY:-$others}; do
        $recbench run "$@" -q --seed "$seeds" -m "$model" --grid rate=0.003,0.01,0.03 \
            --set epochs=20 --set decay-at=14+18
    done
    for model in ${ONLY:-$paired}; do
        $recbench run "$@" -q --seed "$seeds" -m "$model" --grid rate=0.001,0.003,0.01 \
            --set epochs=40 --set decay-at=28+36 --set batch=4096
    done
}

step=$1
shift
$step "$@"
