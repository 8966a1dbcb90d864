# What all recipes of tables have in common: their rows, how they speak, how they run commands.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
paper="$(basename "$(cd "$(dirname "$0")" && pwd -P)")"
name="$(basename "$0" .sh)"

# What their options say.
data="" out="" rows="" tiny="" dry_run="" table_only="" list_only="" extra=()

row_names=() row_papers=() row_flags=()
row() { # NAME PAPER FLAGS...
    row_names+=("$1") row_papers+=("$2") row_flags+=("${*:3}")
}

choose_rows() { # into chosen: the numbers of the rows that --rows names
    local wanted number
    chosen=("${!row_names[@]}")
    [[ -n "$rows" ]] || return 0
    chosen=()
    while IFS= read -r wanted; do
        for number in "${!row_names[@]}"; do
            [[ "${row_names[number],,}" == "${wanted,,}" ]] && chosen+=("$number") && continue 2
        done
        die "--rows $rows: there is no row '$wanted'; the rows are: $(printf '%s, ' \
            "${row_names[@]:0:${#row_names[@]}-1}")${row_names[-1]}"
    done <<<"${rows//,/$'\n'}"
}

say() { printf '%s: %s\n' "$name" "$*" >&2; }
die() {
    say "error: $*"
    exit 1
}

enter_environment() { # of Python, with fairseq in it
    local commands
    commands="$(bash "$root/scripts/environment.sh")"
    export PATH="$commands:$PATH" PYTHONUTF8=1 # umlauts, whatever the locale
}

show() { # COMMAND...: as it can be typed
    local word line=""
    for word in "$@"; do
        [[ "$word" =~ ^[A-Za-z0-9_./,:=@%+-]+$ ]] || word="${word@Q}"
        line+=" $word"
    done
    echo "${line# }"
}

exec 3>&2
run() { # COMMAND...: shown, even where its own output goes into a file; with --dry-run no more
    if [[ -n "$dry_run" ]]; then
        show "$@"
    else
        echo "+ $(show "$@")" >&3
        "$@"
    fi
}

require_same_settings() { # FOLDER LINES...: as the run in it was begun with, if it was
    local file="$1/settings" settings
    settings="$(printf '%s\n' "${@:2}")"
    if [[ -e "$file" && "$(<"$file")" != "$settings" ]] && compgen -G "$1/*.pt" >/dev/null; then
        die "$1 was begun with other settings (see $file): remove it or give another --out"
    fi
    echo "$settings" >"$file"
}
