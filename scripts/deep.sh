#!/usr/bin/env bash
# Models that PyTorch trains, and slim: fits of settings chosen beforehand, and what validation chooses.
#
#     bash scripts/deep.sh recipes -d gowalla -o results/gowalla-deep
#     bash scripts/deep.sh tuned -d gowalla -o results/gowalla-deep-tuned
#
# `recipes` fits each model once on all that the test may be fitted on. slim has the parameters of a
# public log, dgcf and mult-vae their authors' settings; the others have their defaults or what a few
# epochs had shown. All but slim have fewer epochs than their authors', so that each ends within half
# an hour of one core. `tuned` looks on validation. docs/deep-models.md has the numbers. What is
# given after the first word is passed on to `recbench run`; SEEDS and ONLY (model names) may be set
# in the environment. Finished trials are skipped.
set -euo pipefail
source "$(dirname "$0")/fits.sh"
order='slim neumf dgcf ngcf pinsage gat mult-vae'

shared='negatives=shared,drawn=512,batch=16384'
recipe=(
    [slim]='alpha=0.005,l1-ratio=0.000001,keep=100'
    [neumf]=''
    [pinsage]='epochs=30'
    [ngcf]="$shared,rate=0.03,l2=0.003,epochs=25,decay-at=18+22"
    [gat]='epochs=15'
    [mult-vae]='epochs=36'
    [dgcf]='batch=2000,rate=0.001,epochs=4'
)
grid=(
    [dgcf]='l2=0.0005,0.001 epochs=40'
    [mult-vae]='decay-at=10+26,22+26'
    [ngcf]='rate=0.01,0.03 l2=0.003,0.01 epochs=24'
    [pinsage]='rate=0.003,0.01 l2=0.00001,0.001 epochs=24'
    [gat]='rate=0.003,0.01 l2=0.00001,0.001 epochs=12'
    [neumf]='drawn=4,10 epochs=20,40'
    [slim]='alpha=0.001,0.002,0.005,0.01'
)
beside=(
    [dgcf]="$shared,rate=0.03,decay-at=32+37"
    [mult-vae]='rate=0.002,anneal=10000,epochs=30'
    [ngcf]="$shared,decay-at=18+22"
    [pinsage]='decay-at=18+22'
    [gat]='decay-at=9+11'
    [slim]='l1-ratio=0.000001,keep=100'
)
search=(
    [dgcf]='halving[eta=2,first=20]'
    [ngcf]='halving[eta=2,first=6]' [pinsage]='halving[eta=2,first=6]'
    [gat]='halving[eta=2,first=3]'
)

step=$1
shift
$step "$@"
