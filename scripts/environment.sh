#!/usr/bin/env bash
# Finds or makes the Python environment that the project runs in, and prints the directory of its
# commands on standard output; everything else goes to standard error. In a script:
#
#     PATH="$(bash scripts/environment.sh):$PATH"    # then python, fairseq-train, ... are right
#
# The environment is the first of
#     $POSATTN_ENV    a directory; made if it is not there yet
#     the active virtual environment, or the active conda environment unless that is "base"
#     .venv           in the checkout; made if it is not there yet
# One that is made comes from $PYTHON or else the first suitable Python on the PATH, and shares the
# torch of that Python if it has one. Packages that are there already stay as they are; what is
# missing is installed in the versions of requirements.txt, the project itself by a link to this
# checkout. Where nothing is missing, nothing is done.
set -euo pipefail
trap 'exit 130' INT TERM # after whatever is running has ended

suitable="3.10 3.11 3.12 3.13" # requires-python in pyproject.toml
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"

say() { printf 'environment: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

python_version() { # of an interpreter; empty where it does not run
    "$1" -c 'import sys; print("%d.%d.%d" % tuple(sys.version_info[:3]))' 2>/dev/null || true
}

is_suitable() { [[ " $suitable " == *" ${1%.*} "* ]]; }

choose_environment() {
    if [[ -n "${POSATTN_ENV:-}" ]]; then
        echo "$POSATTN_ENV"
    elif [[ -x "${VIRTUAL_ENV:-}/bin/python" ]]; then
        echo "$VIRTUAL_ENV"
    elif [[ -x "${CONDA_PREFIX:-}/bin/python" && "${CONDA_DEFAULT_ENV:-}" != base ]]; then
        echo "$CONDA_PREFIX"
    else
        echo "$root/.venv"
    fi
}

# --- Making an environment ---------------------------------------------------------------------
# An environment made here carries a note: its own path, or "unfinished" while it is being filled.
# So an environment that was interrupted, or moved since (its commands then name a Python that is
# gone), is known and made anew, and an environment that somebody else made is never deleted.

note() { echo "$1" >"$environment/.posattn"; }
is_ours() { [[ -e "$environment/.posattn" ]]; }
is_whole() {
    [[ -n "$(python_version "$environment/bin/python")" ]] &&
        { ! is_ours || [[ "$(<"$environment/.posattn")" == "$environment" ]]; }
}

find_python() {
    local candidate version rejected="" candidates=(python3 python3.12 python3.11 python3.13 python3.10)
    if [[ -n "${PYTHON:-}" ]]; then
        candidates=("$PYTHON")
    fi
    for candidate in "${candidates[@]}"; do
        version="$(python_version "$candidate")"
        if is_suitable "$version"; then
            echo "$candidate"
            return
        fi
        rejected+="; $candidate ${version:-does not run}"
    done
    die "needs Python ${suitable// /, }, on the PATH or named by PYTHON (found${rejected#;})"
}

make_environment() {
    local python sharing=()
    python="$(find_python)" || {
        rmdir "$environment" 2>/dev/null # which was made a moment ago, if it is empty
        exit 1
    }
    if "$python" "$root/scripts/missing_requirements.py" --torch 2>/dev/null; then
        sharing=(--system-site-packages)
    fi
    say "making $environment with Python $(python_version "$python")${sharing:+, sharing its torch}"
    find "$environment" -mindepth 1 -delete
    note unfinished
    "$python" -m venv ${sharing+"${sharing[@]}"} "$environment" >&2 ||
        die "'$python -m venv $environment' failed (Debian and Ubuntu: apt install python3-venv)"
}

# --- Filling it --------------------------------------------------------------------------------

install() { # WHAT OPTIONS_AND_REQUIREMENTS...: pip, and one line if it fails
    local what="$1"
    shift
    say "installing $what"
    if ! "$python" -m pip install --disable-pip-version-check "$@" >&2; then
        if is_ours; then note "$environment"; fi # pip failed in good order: the next run goes on
        die "pip could not install $what: see above; the next run goes on from here"
    fi
}

install_missing() { # REQUIREMENTS...
    local requirement others=() fairseq="" torch
    for requirement in "$@"; do
        case "$requirement" in
            fairseq-fixed*) fairseq="$requirement" ;;
            *) others+=("$requirement") ;;
        esac
    done
    if is_ours; then note unfinished; fi
    torch="$(installed_torch)" # naming it keeps pip from exchanging it for another
    if ((${#others[@]})); then
        install "${others[*]}" --no-compile "${others[@]}" ${torch:+"$torch"}
        compile_packages & # while fairseq builds
    fi
    if [[ -n "$fairseq" ]]; then
        local what="$fairseq (builds for some minutes, with g++ and Python's headers)"
        # Symbols for a debugger would be a third of the time that PyTorch's headers take to compile.
        export CFLAGS="${CFLAGS:--DNDEBUG -fwrapv -O2 -g0}"
        # The build takes torch from this environment: in isolation pip would download a second one.
        install "$what" --no-build-isolation "$fairseq" "$(installed_torch)"
        if [[ ! -x "$environment/bin/fairseq-train" ]]; then # there, but in the shared packages
            install "$what" --no-build-isolation --no-deps --force-reinstall "$fairseq"
        fi
    fi
    wait
    if is_ours; then note "$environment"; fi
}

compile_packages() { # on all processors; pip, on one, takes longer for it than for the rest
    "$python" -m compileall -q -j 0 "$environment"/lib/python3.*/site-packages >/dev/null 2>&1 || true
}

installed_torch() { # as a requirement; empty where there is none
    "$python" -c 'from importlib.metadata import version; print("torch==" + version("torch"))' \
        2>/dev/null || true
}

# -----------------------------------------------------------------------------------------------

environment="$(choose_environment)"
[[ -d "$environment" ]] || mkdir -p "$environment" 2>/dev/null ||
    die "$environment is not a directory and cannot be made one"
environment="$(cd "$environment" && pwd -P)"

# Two runs at once: the second waits. The directory is its own lock, and survives being emptied.
if command -v flock >/dev/null; then
    exec 9<"$environment"
    flock --timeout 5 9 || { say "waiting for the run that is at work on $environment" && flock 9; }
fi

if ! is_whole; then
    if ! is_ours && [[ -n "$(ls -A "$environment")" ]]; then
        die "$environment is no Python environment: its bin/python does not run"
    fi
    make_environment
fi

python="$environment/bin/python"
version="$(python_version "$python")"
is_suitable "$version" ||
    die "needs Python ${suitable// /, }, but $environment has $version: name another in POSATTN_ENV"

"$python" -c 'import pip' 2>/dev/null || "$python" -m ensurepip >&2 ||
    die "$environment has no pip: install it there"
missing="$("$python" "$root/scripts/missing_requirements.py")" || exit 1
if [[ -n "$missing" ]]; then
    mapfile -t missing <<<"$missing"
    install_missing "${missing[@]}"
elif is_ours; then
    note "$environment"
fi
# The project itself, as it stands in this checkout, unless the environment has one already.
if ! (cd / && "$python" -c 'import fairseq_posattn' && [[ -x "$environment/bin/posattn" ]]) 2>/dev/null; then
    install "fairseq_posattn from $root" --quiet --no-deps --no-build-isolation --editable "$root"
fi
echo "$environment/bin"
