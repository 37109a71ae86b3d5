#!/usr/bin/env bash
# A paper's table from two datasets in two commands:
#
#     bash scripts/paths/paper.sh gowalla yelp2018
set -euo pipefail

recbench run -d "$1" -d "$2" -o results/paper -k ndcg@20,recall@20 \
    -m popularity -m ease -m ials --grid ease.l2=30,100,300 --grid ials.l2=0.001,0.01

recbench show results/paper --side-by-side --format latex --caption "Baselines." \
    -m popularity=Popularity -m ials=iALS -m ease=EASE \
    -k ndcg@20=NDCG@20 -k recall@20=Recall@20 > table.tex
