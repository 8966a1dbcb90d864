#!/usr/bin/env bash
# Makes pages of the Python interface from its docstrings, by pdoc:
#
#     bash scripts/api_pages.sh [FOLDER]    # build/api in the checkout if none is given
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
folder="${1:-$root/build/api}"
python="$(bash "$root/scripts/environment.sh")/python"
if ! "$python" -c 'import pdoc' 2>/dev/null; then
    echo "api_pages: error: pdoc is not installed: $python -m pip install 'pdoc>=15'" >&2
    exit 1
fi
PYTHONPATH="$root" "$python" -m pdoc --docformat google --no-show-source --output-directory "$folder" \
    fairseq_posattn.{attention,layers,scoring,recipes,prediction,plugin}
echo "$folder/index.html"
