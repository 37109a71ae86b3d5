#!/usr/bin/env bash
# Trained models: the recipes of published rows, what validation chooses, and a table of all losses.
#
#     bash scripts/trained.sh recipes -d gowalla -o results/gowalla-trained
#     bash scripts/trained.sh tuned -d gowalla -o results/gowalla-trained-tuned
#     bash scripts/trained.sh table -d debian -o results/debian-trained
#
# `recipes` fits each model once on all that the test may be fitted on, with parameters from the
# literature where they are published; docs/trained-models.md says which are. `tuned` looks for
# them on validation, mostly by successive halving, beside settings that say how items are drawn.
# `table` has every loss on mf and on lightgcn, with the rate that validation chooses. What is given
# after the first word is passed on to `recbench run`; SEEDS and ONLY (model names) may be set in
# the environment. Finished trials are skipped: run it again after an interruption.
set -euo pipefail
source "$(dirname "$0")/fits.sh"

long='batch=256,rate=0.015,epochs=60,decay-at=42+53'
near='rate=0.003,negatives=own,drawn=100,factors=100,init=0.1,batch=2048,epochs=40'
mixed='dropout=0.1,batch=256,drawn=2000,rate=0.0001,init=0.0001,epochs=40,decay-at=14+24'
recipe=(
    [mf-mine-plus]="t=0.08,weight=1.22,$long"
    [mf-mine]='t=0.1,negatives=shared,drawn=800,batch=1024,rate=0.001,epochs=30'
    [mf-infonce]='t=0.1'
    [mf-infonce-debiased]='t=0.1'
    [mf-ccl]="margin=0.9,weight=150,$long"
    [mf-ccl-debiased]="$long"
    [mse]=''
    [mse-debiased]=''
    [mf-bpr]=''
    [cml]="margin=1.5,$near"
    [youtubenet]='batch=512,drawn=800,epochs=40'
    [lightgcn]=''
    [simplex]="own=0.8,gather=attention,tables-for=own,loss=ccl[margin=0.9,weight=250],$mixed"
    [ssm-mf]='t=0.12,negatives=batch,batch=2048,rate=0.001,epochs=40,decay-at=28+35'
    [ssm-gnn]="t=0.12,layers=1,$long"
)
order='ssm-gnn mf-mine-plus mse mse-debiased mf-infonce mf-mine mf-ccl mf-infonce-debiased
    mf-ccl-debiased ssm-mf mf-bpr cml youtubenet simplex lightgcn lightgcn+ssm'

grid=(
    [mf-mine-plus]='t=0.08,0.1 weight=1.1,1.22'
    [mf-mine]='t=0.09,0.1,0.11,0.12'
    [mf-infonce]='t=0.1,0.12,0.14'
    [mf-infonce-debiased]='t=0.09,0.1,0.12'
    [mf-ccl]='margin=0.8,0.9 weight=150,400'
    [mf-ccl-debiased]='weight=0.05,0.1,0.2 rate=0.005,0.015'
    [mse]='l2=0.3,1,3 negatives=10,20,40 iterations=2,3,4,6,10'
    [mse-debiased]='l2=0.00001,0.0001,0.001 weight=0.001,0.003,0.01 iterations=2,3,4,6,10'
    [mf-bpr]='l2=0.001,0.003'
    [cml]='margin=1,1.5'
    [youtubenet]='init=0.0001,0.01 l2=0,0.001'
    [lightgcn]='rate=0.03,0.1 l2=0.0001,0.001'
    [simplex]='own=0.5,0.8 loss.margin=0.8,0.9'
    [ssm-mf]='t=0.12,0.2 rate=0.001,0.003'
    [ssm-gnn]='t=0.1,0.12 weight=0.84,1'
    [lightgcn+ssm]='t=0.1,0.12,0.14'
)
beside=(
    [mf-bpr]='batch=1024,drawn=2048,rate=0.002,decay-at=28+35,epochs=40,l2-power=0.5'
    [cml]=$near
    [youtubenet]='batch=512,drawn=800,epochs=40,l2-power=0.5'
    [lightgcn]='negatives=shared,drawn=1024,epochs=60,decay-at=42+53'
    [lightgcn+ssm]='layers=1,factors=256,batch=512,rate=0.015,epochs=30,decay-at=21+26,weight=0.84'
    [mf-mine]=$long [mf-infonce]='' [mf-infonce-debiased]=$long
)

for model in $order; do
    case $model in
        mse* | mf-ccl-debiased | mf-infonce) ;;  # they hand out all their rounds, or are few
        mf-bpr | mf-mine | cml) search[$model]='halving[eta=2,first=20]' ;;
        mf-infonce-debiased) search[$model]='halving[eta=3,first=20]' ;;
        lightgcn+ssm) search[$model]='halving[eta=3,first=8]' ;;
        lightgcn) search[$model]='halving[eta=4,first=8]' ;;
        youtubenet) search[$model]='halving[eta=4,first=10]' ;;
        *) search[$model]='halving[eta=4,first=5]' ;;
    esac
done

table() {
    local model how
    local paired=' bpr cml sml lightgcn lightgcn+cml lightgcn+sml '
    local others='softmax sparsemax bce uib ssm-mf mf-infonce mf-infonce-debiased mf-mine
        mf-mine-plus mf-ccl mf-ccl-debiased lightgcn+softmax lightgcn+sparsemax lightgcn+bce
        lightgcn+uib lightgcn+ssm lightgcn+infonce lightgcn+infonce-debiased lightgcn+mine
        lightgcn+mine-plus lightgcn+ccl lightgcn+ccl-debiased lightgcn+mse lightgcn+mse-debiased
        lightgcn+rg2 lightgcn+rgx'
    $recbench run "$@" -q -m popularity -m ease -m ials -m mse -m mse-debiased -m rg2 -m rgx
    for model in ${ONLY:-$others $paired}; do
        case $paired in
            *" $model "*) how=(--grid rate=0.001,0.003,0.01 --set epochs=40 --set decay-at=28+36
                --set batch=4096) ;;
            *) how=(--grid rate=0.003,0.01,0.03 --set epochs=20 --set decay-at=14+18) ;;
        esac
        $recbench run "$@" -q --seed "$seeds" -m "$model" "${how[@]}"
    done
}

step=$1
shift
$step "$@"
