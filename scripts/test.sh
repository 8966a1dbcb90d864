#!/usr/bin/env bash
# Checks style and runs the tests, in the environment that scripts/environment.sh finds or makes.
# Arguments go to pytest:
#
#     bash scripts/test.sh                            # everything
#     bash scripts/test.sh tests/test_environment.py -k python
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin="$(bash scripts/environment.sh)"
# What the tests start, examples included, uses this environment too.
export PATH="$bin:$PATH" POSATTN_ENV="${bin%/bin}"
# Several processes slow each other down badly when each of them spreads over all cores.
export OMP_NUM_THREADS=1

ruff check .
ruff format --check .
python -m pytest --numprocesses 2 "$@"
