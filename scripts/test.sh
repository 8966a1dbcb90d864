#!/usr/bin/env bash
# Checks style and runs the tests, in the environment that scripts/environment.sh finds or makes.
# Arguments go to pytest:
#
#     bash scripts/test.sh                            # everything
#     bash scripts/test.sh tests/test_environment.py -k python
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
commands="$(bash scripts/environment.sh)"
# What the tests start, examples included, uses this environment too.
export PATH="$commands:$PATH" POSATTN_ENV="${commands%/bin}"
# Several processes slow each other down badly when each of them spreads over all cores.
export OMP_NUM_THREADS=1

style=0
ruff check . || style=$?
ruff format --check . || style=$?
python -m pytest --numprocesses 2 "$@"
exit "$style"
