#!/usr/bin/env bash
# Checks style and types and runs the tests, in the environment that scripts/environment.sh finds or
# makes. With --fast first, only the quick tests; other arguments go to pytest:
#
#     bash scripts/test.sh                            # everything
#     bash scripts/test.sh --fast                     # within five minutes
#     bash scripts/test.sh tests/test_environment.py -k python
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
selection=()
if [[ "${1:-}" == --fast ]]; then
    shift
    selection=(-m "not slow and not nightly")
fi
commands="$(bash scripts/environment.sh)"
# What the tests start, examples included, uses this environment too.
export PATH="$commands:$PATH" POSATTN_ENV="${commands%/bin}"
# Several processes slow each other down badly when each of them spreads over all cores.
export OMP_NUM_THREADS=1
# The tests start hundreds of programs, each of which would compile the package.
unset PYTHONDONTWRITEBYTECODE

# Style and types are checked beside the tests, and reported after them.
style="$(mktemp)"
trap 'rm -f "$style"' EXIT
{
    status=0
    ruff check . || status=$?
    ruff format --check . || status=$?
    mypy || status=$?
    exit "$status"
} >"$style" 2>&1 &
checks=$! status=0
# A file goes to one process, which makes what its tests share once, and in the order of collection.
# A process that ends at a hanging test (pyproject.toml) is not started again: it would hang again.
python -m pytest --numprocesses 2 --max-worker-restart 0 --dist loadfile --no-loadscope-reorder \
    --durations 10 ${selection+"${selection[@]}"} "$@" || status=$?
wait "$checks" || status=$?
cat "$style"
exit "$status"
