#!/usr/bin/env bash
# All measurements that need a GPU, in steps that can be resumed: see benchmarks/gpu.py --help.
# It needs no network. Where packages are missing, put their wheels into .whl/ of the checkout.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if compgen -G ".whl/*.whl" >/dev/null && [ ! -e .site/.complete ]; then
    python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --upgrade \
        --target .site .whl/*.whl
    touch .site/.complete
fi
export PYTHONPATH="$PWD/.site:$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
exec python3 benchmarks/gpu.py "$@"
