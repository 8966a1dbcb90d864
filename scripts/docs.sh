#!/usr/bin/env bash
# Builds the documentation site by MkDocs and prints where its first page lies:
#
#     bash scripts/docs.sh [FOLDER]    # build/site in the checkout if none is given
#
# The site is built by the Python that PYTHON names (default: python3), which needs the packages of
# requirements-docs.txt: pip install -r requirements-docs.txt. PyTorch and fairseq are not needed.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
folder="${1:-$root/build/site}"
python="${PYTHON:-python3}"
if ! "$python" -c 'import material, mkdocstrings_handlers.python' 2>/dev/null; then
    echo "docs: error: $python lacks MkDocs; run $python -m pip install -r requirements-docs.txt" >&2
    exit 1
fi
mkdir -p "$folder"
folder="$(cd "$folder" && pwd -P)"
cd "$root"
NO_MKDOCS_2_WARNING=1 "$python" -m mkdocs build --strict --site-dir "$folder" 2>&1 | { grep -E "WARNING|ERROR|Aborted" || true; }
echo "$folder/index.html"
