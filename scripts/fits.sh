# What scripts/trained.sh and scripts/deep.sh share; they read it, nobody runs it.
#
# `recipes` and `tuned` go over the models of `order`, or of ONLY, and pass on what they are given to
# `recbench run`. A model's settings are in `recipe`. `tuned` has those in `beside` instead, if there
# are any, and lets validation choose from `grid`, by the way of searching in `search` if it has one.
recbench=${RECBENCH:-recbench}
seeds=${SEEDS:-0}
declare -A recipe grid beside search

recipes() {
    local model
    for model in ${ONLY:-$order}; do
        [ -v "recipe[$model]" ] || continue
        _fit "$model" "${recipe[$model]}" --no-validate "$@"
    done
}

tuned() {
    local model axis axes
    for model in ${ONLY:-$order}; do
        [ -v "grid[$model]" ] || continue
        axes=(${search[$model]:+--search "${search[$model]}"})
        for axis in ${grid[$model]}; do axes+=(--grid "$axis"); done
        _fit "$model" "${beside[$model]-${recipe[$model]:-}}" "${axes[@]}" "$@"
    done
}

_fit() {
    local model=$1 settings=$2
    shift 2
    $recbench run -q --seed "$seeds" -k recall@20,ndcg@20 -m "$model${settings:+[$settings]}" "$@"
}
