#!/usr/bin/env bash
# Trains with one process for each GPU, on one machine or several. --help explains.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
commands="$(bash "$here/../../scripts/environment.sh")"
export PATH="$commands:$PATH"
exec python "$here/torchrun.py" "$@"
