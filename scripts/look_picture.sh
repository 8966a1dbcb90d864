#!/usr/bin/env bash
# Draws docs/pictures/look.png: the page of `posattn look` in the quickstart's model, by Chromium.
#
#     bash examples/quickstart/run.sh      # first trains the model
#     bash scripts/look_picture.sh [FILE]
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
model="${QUICKSTART:-$root/data-bin/quickstart}" # the --out of examples/quickstart/run.sh
file="${1:-$root/docs/pictures/look.png}"
commands="$(bash "$root/scripts/environment.sh")"
page="$(mktemp -d)/page.html"
head -n 3 "$model/corpus/test.de" >"$page.txt"
PYTHONPATH="$root" "$commands/python" -m fairseq_posattn.cli look \
    "$model/checkpoints/checkpoint_last.pt" --data "$model/binarised" --sentences "$page.txt" --output "$page"
"${POSATTN_BROWSER:-chromium}" --headless --no-sandbox --disable-gpu --hide-scrollbars \
    --window-size=1100,850 --screenshot="$file" "file://$page#sentence=1&place=1&head=2&word=4"
echo "$file"
