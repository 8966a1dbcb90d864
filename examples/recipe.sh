#!/usr/bin/env bash
# Runs a recipe with the data and the checkpoints of this checkout: bash examples/recipe.sh RECIPE
# [OPTIONS], as "posattn recipe" does anywhere. The scripts of the papers' folders call it.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
commands="$(bash "$root/scripts/environment.sh")"
export PATH="$commands:$PATH"
exec python "$root/examples/recipe.py" "$@"
