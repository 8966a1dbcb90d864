#!/usr/bin/env bash
# Builds wheel and source distribution, and tries each in an empty virtual environment:
#
#     bash scripts/build.sh [FOLDER]    # dist in the checkout if none is given
#
# Needs the package build (pip install build); PYTHON names the interpreter (default: python3).
# The package is installed without its dependencies: `posattn --version` and `posattn --help` need
# none, so that the check takes seconds.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
folder="${1:-$root/dist}"
python="${PYTHON:-python3}"
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
if ! "$python" -c 'import build' 2>/dev/null; then
    echo "build: error: $python lacks the package build; run $python -m pip install build" >&2
    exit 1
fi
mkdir -p "$folder" "$scratch/built"
"$python" -m build --outdir "$scratch/built" "$root"
for archive in "$scratch"/built/*.whl "$scratch"/built/*.tar.gz; do
    environment="$scratch/environment-${archive##*.}"
    "$python" -m venv "$environment"
    "$environment/bin/python" -m pip install --quiet --no-deps "$archive"
    (cd "$scratch" && "$environment/bin/posattn" --version && "$environment/bin/posattn" --help >/dev/null)
    mv "$archive" "$folder/"
    echo "$folder/${archive##*/}"
done
