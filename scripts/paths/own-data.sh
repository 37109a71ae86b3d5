#!/usr/bin/env bash
# From a file of your own, with times, to lists for its users in three commands. The last purchase
# of each user is held out for the test, the one before it for validation. The last command takes
# the settings that the second printed, and fits on everything.
#
#     bash scripts/paths/own-data.sh orders.csv
set -euo pipefail

recbench run --data "$1" --user customer --item sku --time day --split last -o results/orders \
    -m popularity -m ease -m ials --grid ease.l2=1,10,100 -k ndcg@10,recall@10

recbench show results/orders

recbench recommend --data "$1" --user customer --item sku -m "ease[l2=10]" -n 10 -o lists.csv
