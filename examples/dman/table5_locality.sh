#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="DMAN, Table 5: attention within 1, 2 and 4 tokens (IWSLT14 German to English)"
about="Trains the DMAN of Table 4, or takes it as that recipe left it in the same --out, and
measures on the test set how much of the attention in layers 1, 3 and 6 of the encoder stays near
the query (eq. 13): percentages, those of the three layers one after the other."

layers=1,3,6
[[ " $* " != *" --tiny "* ]] || layers=1
layer_names="layer ${layers//,/,layer }"

analyse() { # CHECKPOINT FOLDER
    [[ -n "$dry_run" || ! -e "$2/locality.json" ]] || return 0
    run env PYTHONPATH="$root" python -m fairseq_posattn.analysis locality "$1" --data "$data" \
        --split test --layers "$layers" --windows 1,2,4 --json "$2/locality.json"
}

table=(
    "DMAN 1" "76.58 60.43 60.86"
    "SAN 1" "12.80 40.39 45.55"
    "DMAN 2" "86.17 75.56 73.89"
    "SAN 2" "18.73 45.62 52.72"
    "DMAN 4" "95.09 86.20 85.58"
    "SAN 4" "30.38 55.17 62.77"
)

print_table() {
    local number rows=() folder
    folder="$(run_folder 0)"
    for ((number = 0; number < ${#table[@]}; number += 2)); do
        rows+=(--row "${table[number]}" "${table[number + 1]}" "$folder")
    done
    python "$root/examples/recipe_results.py" locality "${about_table[@]}" \
        --metrics "$layer_names" "${rows[@]}" "$@"
}

list_rows() {
    printf "$title\t%s\t$layer_names\t%s\n" "${table[@]}"
}

iwslt14
row DMAN 36.35 --arch dman_iwslt_de_en
run_recipe "$@"
