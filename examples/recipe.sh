# What the recipes of the papers' tables share. A recipe sources this file, chooses settings, lists
# the rows of its table and hands over to run_recipe:
#
#     title="DMAN, Table 3: the order of the sublayers"
#     about="..."                           for --help
#     iwslt14                               a function that sets the variables below
#     row "C#1" 35.51 --arch dman_iwslt_de_en --encoder-sublayers ffn,san,ffn
#     row "C#2" ...
#     run_recipe "$@"
#
# A row is a name, the paper's numbers ("-" for none, one for each of the metrics, with spaces
# between) and the flags of fairseq-train that set it apart; a flag has no spaces. Rows with the same
# flags and settings are one model, trained once, in whatever tables they stand. The settings, alike
# for all rows:
#
#     regime                 a name for all of these: the last part of --out's default
#     corpus                 the last part of --data's default
#     preparation            the script, of scripts/, that makes it, and its options
#     source, target         its languages
#     training=(FLAGS)       of fairseq-train: optimiser, schedule, regularisation
#     max_tokens, batches    an update is so many batches of at most so many tokens
#     max_update             updates of training
#     save_interval          updates between checkpoints; if not set, 1/40 of these
#     averaged               as many of the last checkpoints are averaged; 1: the last is taken
#     decoding=(FLAGS)       of fairseq-generate: beam, length penalty, limits of length
#     subwords               how words were split: subword_nmt or sentencepiece
#     scoring=(SCRIPT FLAGS) the script, of scripts/, that scores what was generated
#     metrics, metric        the names of its numbers that the rows are about, and in words
#
# A recipe that looks into its models redefines analyse, and print_table if it prints another table.
source "$(dirname "${BASH_SOURCE[0]}")/rows.sh"
source "$root/examples/share_update.sh"

save_interval=""

analyse() { # CHECKPOINT FOLDER: what a recipe does with each model that was scored
    :
}

usage() {
    local number
    cat <<TEXT
$title

$about

    bash examples/$paper/$name.sh [OPTIONS] [-- FLAGS]

    --data FOLDER    binarised data (default: data-bin/$corpus in the checkout), as made by
                         python scripts/$preparation
    --prepare        make it first, if it is not there yet
    --source FOLDER  the same, of the published data in this folder, without downloading
    --out FOLDER     checkpoints, translations and results (default: checkpoints/$paper/$regime in
                     the checkout)
    --rows LIST      the rows to run, with commas between (default: all)
    --steps LIST     of train, average, generate and score, those to do, even if they are done
                     already (default: all that are not)
    --seed N         (default: $seed); the table shows the mean of all seeds that were run
    --gpus N         GPUs to train on, 0 for the CPU (default: all that are here; 1 with --dry-run)
    --launcher CMD   a command that trains in the place of fairseq-train, on several machines for
                     instance: see examples/distributed/README.md
    --max-update N   updates of training (default: $max_update)
    --tiny           the same commands on a small generated corpus with tiny models and few updates,
                     on the CPU, to see that all works; the numbers mean nothing
    --dry-run        print the exact commands and stop
    --table          print the table of what is finished and stop
    --list           print table, row, metrics and the paper's numbers, with tabs between, and stop
    --help           this text
    -- FLAGS         go to fairseq-train, for every row, after the recipe's own

Rows, with the paper's numbers and the flags that set them apart:

TEXT
    for number in "${!row_names[@]}"; do
        printf '    %-20s %6s   %s\n' \
            "${row_names[number]}" "${row_papers[number]}" "${row_flags[number]}"
    done
    cat <<TEXT

The data may be another's, if it is what
    fairseq-preprocess --source-lang $source --target-lang $target --joined-dictionary
writes for train, valid and test, of text in subwords.
An update is $batches x $max_tokens tokens at most, however many GPUs there are. What is finished is
not done again, training that was interrupted goes on from its last checkpoint, and recipes with a
model in common share it if they share --out. Beside the checkpoints of a run, result.json keeps its
score, settings, seed, versions and hardware; $name.json in --out keeps the table.
TEXT
}

# --- Options -----------------------------------------------------------------------------------

steps="" seed=1 gpus="" launcher="" preparing="" published=""

read_options() {
    while (($#)); do
        case "$1" in
            --help | -h) usage && exit ;;
            --tiny) tiny=yes && shift ;;
            --dry-run) dry_run=yes && shift ;;
            --table) table_only=yes && shift ;;
            --list) list_only=yes && shift ;;
            --prepare) preparing=yes && shift ;;
            --data | --out | --rows | --steps | --seed | --gpus | --launcher | --max-update | --source)
                [[ -n "${2:-}" ]] || die "$1 needs a value"
                case "$1" in
                    --max-update) asked_updates="$2" ;;
                    --source) preparing=yes published="$2" ;;
                    *) declare -g "${1#--}=$2" ;;
                esac
                shift 2
                ;;
            --) shift && extra=("$@") && break ;;
            *) die "unknown option $1; --help lists the options" ;;
        esac
    done
    [[ "$seed" =~ ^[0-9]+$ ]] || die "--seed $seed: must be a whole number"
    [[ "$gpus" =~ ^[0-9]*$ ]] || die "--gpus $gpus: must be a whole number"
    max_update="${asked_updates:-$max_update}"
    [[ "$max_update" =~ ^[1-9][0-9]*$ ]] ||
        die "--max-update $max_update: must be a positive whole number"
}

choose_steps() { # those that --steps names must be known
    local step
    for step in ${steps//,/ }; do
        [[ "$step" =~ ^(train|average|generate|score)$ ]] ||
            die "--steps $steps: there is no step '$step'; the steps are: train, average," \
                "generate, score"
    done
}

wanted() { # STEP: is it to be done
    [[ -z "$steps" || ",$steps," == *",$1,"* ]]
}

list_rows() {
    local number
    for number in "${!row_names[@]}"; do
        printf '%s\t%s\t%s\t%s\n' \
            "$title" "${row_names[number]}" "$metrics" "${row_papers[number]}"
    done
}

choose_save_interval() { # such that there are enough checkpoints for the average
    local most=$((max_update / averaged))
    save_interval="${save_interval:-$((max_update / 40))}"
    ((save_interval <= most)) || save_interval="$most"
    ((save_interval > 0)) || save_interval=1
}

make_tiny() {
    local side
    title+=" (tiny form: ours mean nothing)"
    max_tokens=1000 batches=1 gpus=0 max_update="${asked_updates:-4}" save_interval=1
    tiny_flags=(--warmup-updates 2 --num-workers 0) subwords=subword_nmt
    tiny_decoding=(--min-len 1 --max-len-b 20 --num-workers 0)
    ((averaged == 1)) || averaged=2
    for side in encoder decoder; do
        tiny_flags+=("--$side-layers" 1 "--$side-attention-heads" 2)
        tiny_flags+=("--$side-embed-dim" 16 "--$side-ffn-embed-dim" 16)
    done
    export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # tensors this small gain nothing from more
}

# --- Data and machine --------------------------------------------------------------------------

prepare_data() { # what is finished of it is not done again
    local words
    read -r -a words <<<"$preparation"
    run python "$root/scripts/${words[0]}" "${words[@]:1}" \
        ${published:+--source "$published"} --dest "$data"
}

require_data() {
    local side file
    for side in "$source" "$target"; do
        for file in "dict.$side.txt" {train,valid,test}".$source-$target.$side".{bin,idx}; do
            [[ -e "$data/$file" ]] || die "$data has no $file; to make it:" \
                "python scripts/$preparation${asked_data:+ --dest $data}, or give --prepare"
        done
    done
}

generate_data() { # the quickstart's German-English corpus of numbers
    local part="$data.part" split
    rm -rf "$part"
    run python "$root/examples/quickstart/numbers_corpus.py" "$part" \
        --train 200 --valid 10 --test 10
    [[ "$source$target" =~ ^(deen|ende)$ ]] || for split in train valid test; do
        mv "$part/$split.de" "$part/$split.$source"
        mv "$part/$split.en" "$part/$split.$target"
    done
    run fairseq-preprocess --source-lang "$source" --target-lang "$target" --joined-dictionary \
        --trainpref "$part/train" --validpref "$part/valid" --testpref "$part/test" \
        --destdir "$part" >"$part.log" 2>&1 ||
        die "fairseq-preprocess failed: $(tail -n 1 "$part.log") (in $part.log)"
    rm "$part.log"
    mv "$part" "$data"
}

share_out_update() { # among the workers, so that its size does not depend on the machine
    local workers=$((gpus > 0 ? gpus : 1)) size frequency
    device=(--cpu)
    ((gpus == 0)) || device=(--fp16)
    if [[ -n "$launcher" ]]; then # which shares it
        sharing=(--max-tokens "$max_tokens" --update-freq "$batches")
        return
    fi
    share_update "$max_tokens" "$batches" "$workers"
    sharing=(--distributed-world-size "$workers" --max-tokens "$size" --update-freq "$frequency")
    describe_update "$max_tokens" "$batches" "$workers" tokens
}

# --- A row -------------------------------------------------------------------------------------

run_into() { # FILE COMMAND...: its output goes there, whole or not at all
    if [[ -n "$dry_run" ]]; then
        echo "$(show "${@:2}") > $(show "$1")"
    else
        run "${@:2}" >"$1.part" || return
        mv "$1.part" "$1"
    fi
}

progress() { # of fairseq-train's log, what tells of it
    sed -nE 's/.* \| (train_inner|valid|num\. shared)/\1/p'
}

run_folder() { # NUMBER: of a row; it is named by the values of its flags and has a folder a seed
    local word values=""
    for word in ${row_flags[$1]}; do
        [[ "$word" == --* ]] || values+="-$word"
    done
    echo "$out/${values#-}"
}

run_row() { # NUMBER
    local folder checkpoint languages flags model generation all_settings
    languages=(--source-lang "$source" --target-lang "$target")
    read -r -a flags <<<"${row_flags[$1]}"
    folder="$(run_folder "$1")/seed$seed"
    checkpoint="$folder/checkpoint_last.pt"
    ((averaged == 1)) || checkpoint="$folder/average.pt"
    model=(
        "${training[@]}" "${flags[@]}" "${tiny_flags[@]}" --max-update "$max_update"
    )
    generation=("${decoding[@]}" --remove-bpe "$subwords" "${tiny_decoding[@]}")
    all_settings=(
        "data $data" "seed $seed" "train ${model[*]} ${extra[*]}" "tokens $((max_tokens * batches))"
        "averaged $averaged" "generate ${generation[*]}"
    )
    if [[ -n "$dry_run" ]]; then
        printf '\n# %s\n' "${row_names[$1]}"
    else
        mkdir -p "$folder"
        exec 9<"$folder" # two runs of one model: the second waits
        ! command -v flock >/dev/null || flock 9
        require_same_settings "$folder" "${all_settings[@]}"
    fi
    if [[ -z "$steps" && -z "$dry_run" && -e "$folder/result.json" ]]; then
        say "${row_names[$1]} is finished: $folder"
    else
        [[ -n "$dry_run" ]] || say "${row_names[$1]}: in $folder"
        ! wanted train || train_row
        ((averaged == 1)) || ! wanted average || average_row
        ! wanted generate || generate_row
        ! wanted score || score_row
    fi
    ! wanted score || analyse "$checkpoint" "$folder"
}

train_row() {
    local command=(fairseq-train)
    [[ -z "$launcher" ]] || read -r -a command <<<"$launcher"
    command+=(
        "$data" --user-dir "$plugin" "${languages[@]}" --seed "$seed"
        "${model[@]}" "${sharing[@]}" "${device[@]}"
        --save-dir "$folder" --save-interval-updates "$save_interval"
        --keep-interval-updates "$averaged" --no-epoch-checkpoints --update-epoch-batch-itr True
        --log-format simple --log-interval 100 "${extra[@]}"
    )
    if [[ -n "$dry_run" ]]; then
        run "${command[@]}"
    else
        run "${command[@]}" 2>&1 | tee -a "$folder/train.log" | progress ||
            die "training failed: $(tail -n 1 "$folder/train.log") (in $folder/train.log)"
    fi
}

average_row() {
    run python "$root/scripts/average_checkpoints.py" --inputs "$folder" \
        --num-update-checkpoints "$averaged" --output "$checkpoint"
}

generate_row() {
    local command=(
        fairseq-generate "$data" --user-dir "$plugin" "${languages[@]}" --gen-subset test
        --path "$checkpoint" "${generation[@]}" --max-tokens 8192 "${device[@]}"
        --results-path "$folder"
    )
    if [[ -n "$dry_run" ]]; then
        run "${command[@]}"
        return
    fi
    [[ -e "$checkpoint" ]] || die "there is no $checkpoint yet: --steps train,average makes it"
    run "${command[@]}" >"$folder/generate.log" 2>&1 ||
        die "generating failed: $(tail -n 1 "$folder/generate.log") (in $folder/generate.log)"
}

score_row() {
    local command=(
        python "$root/scripts/${scoring[0]}" --generated "$folder/generate-test.txt" --json
        "${scoring[@]:1}"
    )
    # Summaries are scored against the whole references, which the binarised ones may not be.
    if [[ "$subwords" == sentencepiece && (-n "$dry_run" || -e "$data/text/test.$target") ]]; then
        command+=(--references "$data/text/test.$target")
    fi
    run_into "$folder/score.json" "${command[@]}" || die "scoring failed"
    run python "$root/examples/recipe_results.py" record "$folder" --metric "$metric"
}

# --- The table ---------------------------------------------------------------------------------

print_table() { # OPTIONS of recipe_results.py
    local number rows=()
    for number in "${!row_names[@]}"; do
        rows+=(--row "${row_names[number]}" "${row_papers[number]}" "$(run_folder "$number")")
    done
    python "$root/examples/recipe_results.py" table "${about_table[@]}" "${rows[@]}" "$@"
}

prepare() { # data, folders and the number of GPUs
    [[ -z "$tiny" || -e "$data" ]] || generate_data
    require_data
    data="$(cd "$data" && pwd -P)"
    mkdir -p "$out" || die "--out $out cannot be made a folder"
    out="$(cd "$out" && pwd -P)"
    [[ -z "$launcher" ]] || gpus="${gpus:-1}" # on other machines, for all that is known here
    gpus="${gpus:-$(python -c 'import torch; print(torch.cuda.device_count())')}"
}

run_recipe() { # OPTIONS...
    local number chosen tiny_flags=() tiny_decoding=() sharing device
    local about_table asked_data plugin="$root/fairseq_posattn"
    read_options "$@"
    if [[ -n "$list_only" ]]; then
        list_rows
        return
    fi
    choose_rows
    choose_steps
    [[ -z "$tiny" ]] || make_tiny
    choose_save_interval
    about_table=(
        --title "$title" --metrics "$metrics" --data "$corpus" ${tiny:+--tiny}
        --command "bash examples/$paper/$name.sh"
    )
    asked_data="$data"
    out="${out:-$root/checkpoints/$paper/$regime${tiny:+-tiny}}"
    data="${data:-${tiny:+$out/numbers.$source-$target}}"
    data="${data:-$root/data-bin/$corpus}"
    if [[ -z "$dry_run" ]]; then
        enter_environment
    fi
    if [[ -n "$table_only" ]]; then
        print_table
        return
    fi
    [[ -n "$tiny" || -z "$preparing" ]] || prepare_data || exit 1
    [[ -n "$dry_run" ]] || prepare
    gpus="${gpus:-1}"
    share_out_update
    for number in "${chosen[@]}"; do
        run_row "$number"
    done
    [[ -n "$dry_run" ]] || print_table --output "$out/$name.json"
}
