#!/usr/bin/env bash
# The campaigns behind the tables of docs/trained-models.md.
#     bash scripts/trained.sh recipes -d gowalla -o results/gowalla-trained
#     bash scripts/trained.sh table -d debian -o results/debian-trained
