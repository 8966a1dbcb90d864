#!/usr/bin/env bash
usage() {
    cat <<EOF
Gets Multi30k (German to English) ready for fairseq-train: downloads it unless it is here already,
tokenises and lower-cases it, splits it into joint byte-pair units and binarises it.

    bash examples/multi30k/prepare.sh [OPTIONS]

    --source FOLDER  take the text from here instead of downloading it: either
                     {train,valid,test}.{de,en}, tokenised and lower-cased, or the published
                     {train,val,test_2016_flickr}.{de,en}.gz
    --url BASE       download the six published .gz files from BASE/
                     (default: $published)
    --merges N       byte-pair merges, learned on both languages together (default: $merges)
    --data FOLDER    where the result goes (default: data-bin/multi30k in the checkout); binarised
                     data is then in FOLDER/bpeN, the text that it was made of in FOLDER/text
    --help           this text

What is finished already is not done again, and a download that broke off goes on where it stopped.
EOF
}
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)"
here="$root/examples/multi30k"
published="https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
source="" url="" merges=10000 data="$root/data-bin/multi30k"

say() { printf 'multi30k: %s\n' "$*" >&2; }
die() {
    say "error: $*"
    exit 1
}

while (($#)); do
    case "$1" in
        --help | -h) usage && exit ;;
        --source | --url | --merges | --data)
            [[ -n "${2:-}" ]] || die "$1 needs a value"
            declare "${1#--}=$2"
            shift 2
            ;;
        *) die "unknown option $1; --help lists the options" ;;
    esac
done
[[ "$merges" =~ ^[1-9][0-9]*$ ]] || die "--merges $merges: must be a positive whole number"
[[ -z "$source" || -z "$url" ]] || die "--source and --url exclude each other"
[[ -z "$source" || -d "$source" ]] || die "--source $source is not a folder"
[[ -z "$source" ]] || source="$(cd "$source" && pwd -P)"

download() { # FILE: into the folder download/, whole or not at all
    local file="$data/download/$1" attempt status
    [[ -e "$file" ]] && return
    say "downloading ${url:-$published}/$1"
    for attempt in 1 2 3 4 5; do
        # A server that cannot go on where it stopped (33) has to start over.
        status=0
        curl --fail --location --silent --show-error --connect-timeout 30 \
            --speed-limit 1 --speed-time 60 --continue-at - \
            --output "$file.part" "${url:-$published}/$1" || status=$?
        if gzip --test "$file.part" 2>/dev/null; then
            mv "$file.part" "$file"
            return
        fi
        case "$status" in
            0) rm "$file.part" && die "${url:-$published}/$1 is not a whole gzip file" ;;
            22) die "${url:-$published}/$1 cannot be had; --source takes a folder that is here" ;;
            33) rm -f "$file.part" ;;
        esac
        say "the connection failed (curl: $status), attempt $attempt of 5"
        sleep "$((attempt - 1))"
    done
    die "${url:-$published}/$1 could not be downloaded; running this again goes on from here"
}

mkdir -p "$data" || die "--data $data cannot be made a folder"
data="$(cd "$data" && pwd -P)"
# Two runs at once: the second waits. The folder is its own lock.
exec 9<"$data"
! command -v flock >/dev/null || flock 9

text="$data/text" binarised="$data/bpe$merges"
origin="${source:-$url}"
if [[ -n "$origin" && -e "$text" && "$(cat "$data/origin")" != "$origin" ]]; then
    die "$data was made from $(cat "$data/origin"), not from $origin: give another --data"
fi
if [[ -e "$binarised" ]]; then
    say "ready: $binarised"
    exit
fi
commands="$(bash "$root/scripts/environment.sh")"
export PATH="$commands:$PATH"

if [[ ! -e "$text" ]]; then
    if [[ -z "$source" ]]; then
        command -v curl >/dev/null || die "curl is needed to download; --source takes a folder"
        mkdir -p "$data/download"
        for name in {train,val,test_2016_flickr}.{de,en}.gz; do
            download "$name"
        done
    fi
    printf '%s\n' "${origin:-$published}" >"$data/origin"
    python "$here/prepare_text.py" "${source:-$data/download}" "$text"
fi

part="$binarised.part"
rm -rf "$part"
mkdir "$part"
say "learning $merges byte-pair merges"
cat "$text/train.de" "$text/train.en" |
    subword-nmt learn-bpe --symbols "$merges" --output "$part/codes" 2>"$part/learn-bpe.log" ||
    die "learning byte-pair merges failed: $(tail -n 1 "$part/learn-bpe.log")"
say "splitting words and binarising"
for name in {train,valid,test}.{de,en}; do
    subword-nmt apply-bpe --codes "$part/codes" --input "$text/$name" --output "$part/$name"
done
fairseq-preprocess --source-lang de --target-lang en --joined-dictionary \
    --trainpref "$part/train" --validpref "$part/valid" --testpref "$part/test" \
    --destdir "$part" >"$part/preprocess.out" 2>&1 ||
    die "fairseq-preprocess failed: $(tail -n 1 "$part/preprocess.out")"
rm "$part/preprocess.out" "$part/learn-bpe.log"
mv "$part" "$binarised"
say "ready: $binarised, $(wc -l <"$binarised/dict.en.txt") units"
