# What the recipes of the papers' tables on classification share. A recipe sources this file, chooses
# settings, lists the rows of its table and hands over to run_recipe:
#
#     title="MPSAN, Table 6: sentence classification"
#     about="..."                           for --help
#     datasets=(trec cr)                    the table's columns, or some of its columns
#     configure() { ... }                   DATASET ROW: sets the variables below
#     row MPSAN "94.8±0.2 85.4±1.4" --arch mpsan_classifier
#     row DiSAN ...
#     run_recipe "$@"
#
# A row is a name, the paper's numbers and the flags of fairseq-train that set it apart. The numbers
# are one for each metric of each data set, in order, "-" for none, with a standard deviation after ±
# if the paper has it; "-" alone is for no numbers at all. What configure sets, for a data set, and a row if its settings are others:
#
#     training=(FLAGS)       of fairseq-train: optimiser, learning rate, regularisation
#     batch_size             sentences or pairs in an update
#     epochs                 of training; or instead
#     updates, interval      of training, and how many of them lie between two validations
#     seeds                  models trained of each row, of each fold if there are folds
#
# It may change what describe says of the data set, too. The checkpoint with the best value of the
# first metric on the validation set is measured on the test set, once.
source "$(dirname "${BASH_SOURCE[0]}")/rows.sh"

regime=classification
# What MPSAN and MTSA call multi-head has no feed-forward sublayer; a Transformer's layer has.
multi_head=(
    --arch transformer_classifier --encoder-hidden-dim 600 --encoder-attention-heads 8
    --encoder-ffn-embed-dim 600 --pooling source2token --head-dim 300
)
known_datasets=(
    sst2 sst5 trec cr mpqa subj sick ag_news yelp_polarity yelp_full yahoo_answers snli multinli
    amazon_electronics
)

describe() { # DATASET: sets what it is
    task=sentence_prediction criterion=sentence_classification metrics=(accuracy) folds=0
    positions=() # limits of length, where documents are longer than fairseq's 512 tokens
    preparation="" # options of prepare_classification.py
    case "$1" in
        sst2) classes=2 ;;
        sst5) classes=5 preparation=--phrases ;;
        trec) classes=6 ;;
        cr | mpqa | subj) classes=2 folds=10 ;;
        sick)
            classes=5 task=sentence_pair_prediction criterion=relatedness
            metrics=(pearson spearman mse)
            ;;
        ag_news) classes=4 && cut_documents ;;
        yelp_polarity) classes=2 && cut_documents ;;
        yelp_full | amazon_electronics) classes=5 && cut_documents ;;
        yahoo_answers) classes=10 && cut_documents ;;
        snli | multinli) classes=3 task=sentence_pair_prediction ;;
    esac
}

cut_documents() { positions=(--max-positions 512 --shorten-method truncate); }

regress() { # instead of classifying
    criterion=rating_regression metrics=(rmse mae) classes=1
}

usage() {
    local number
    cat <<TEXT
$title

$about

    bash examples/$paper/$name.sh [OPTIONS] [-- FLAGS]

    --data FOLDER    has a folder of binarised data for each data set (default: data-bin in the
                     checkout)
    --prepare        make those that are not there yet, with GloVe; this downloads some GB
    --datasets LIST  the data sets to run on, with commas between (default:
                     $(printf '%s,' "${datasets[@]}" | sed 's/,$//'))
    --out FOLDER     checkpoints and results (default: checkpoints/$paper/$regime in the
                     checkout)
    --rows LIST      the rows to run, with commas between (default: all)
    --seeds N        train each model with the seeds 1 to N (default: as many as the paper); the
                     table has the mean of all that were run
    --folds N        of a cross validation in ten folds, run the first N (default: all)
    --epochs N       of training (default: the paper's epochs or updates)
    --parallel N     train so many models at a time (default: 1)
    --cpu            even where there is a GPU
    --tiny           the same commands on small generated data sets with tiny models, few updates, one
                     seed and two folds, on the CPU, to see that all works; the numbers mean nothing
    --dry-run        print the exact commands and stop
    --table          print the table of what is finished and stop
    --list           print table, row, metrics and the paper's numbers, with tabs between, and stop
    --help           this text
    -- FLAGS         go to fairseq-train, for every row, after the recipe's own

Rows, with the paper's numbers and the flags that set them apart:

TEXT
    for number in "${!row_names[@]}"; do
        printf '    %-20s %s   %s\n' \
            "${row_names[number]}" "${row_papers[number]}" "${row_flags[number]}"
    done
    cat <<TEXT

The data sets are what scripts/prepare_classification.py writes. Word vectors are those of its
--glove, with as many features as they have, or random ones where there are none.
What is finished is not done again, training that was interrupted goes on from its last checkpoint,
and recipes with a model in common share it if they share --out. Beside the checkpoint of a run,
result.json keeps its scores, settings, seed, versions and hardware; $name.json in --out keeps
the table.
TEXT
}

# --- Options -----------------------------------------------------------------------------------

asked_datasets="" asked_seeds="" asked_folds="" asked_epochs="" parallel=1 cpu="" preparing=""

read_options() {
    local option
    while (($#)); do
        case "$1" in
            --help | -h) usage && exit ;;
            --tiny) tiny=yes && shift ;;
            --cpu) cpu=yes && shift ;;
            --prepare) preparing=yes && shift ;;
            --dry-run) dry_run=yes && shift ;;
            --table) table_only=yes && shift ;;
            --list) list_only=yes && shift ;;
            --data | --out | --rows | --parallel | --datasets | --seeds | --folds | --epochs)
                [[ -n "${2:-}" ]] || die "$1 needs a value"
                option="${1#--}"
                case "$1" in
                    --parallel | --seeds | --folds | --epochs)
                        [[ "$2" =~ ^[1-9][0-9]*$ ]] || die "$1 $2: must be a positive whole number"
                        ;;
                esac
                case "$1" in
                    --datasets | --seeds | --folds | --epochs) option="asked_$option" ;;
                esac
                declare -g "$option=$2"
                shift 2
                ;;
            --) shift && extra=("$@") && break ;;
            *) die "unknown option $1; --help lists the options" ;;
        esac
    done
}

choose_datasets() { # into chosen_datasets: those that --datasets names
    local wanted
    chosen_datasets=("${datasets[@]}")
    [[ -n "$asked_datasets" ]] || return 0
    IFS=, read -r -a chosen_datasets <<<"$asked_datasets"
    for wanted in "${chosen_datasets[@]}"; do
        [[ " ${datasets[*]} " == *" $wanted "* ]] ||
            die "--datasets $asked_datasets: there is no data set '$wanted' here; there is:" \
                "${datasets[*]}"
    done
}

set_up() { # DATASET NUMBER: all that a run of a row on it needs to know
    epochs="" updates="" interval="" seeds=5
    describe "$1"
    configure "$1" "${row_names[$2]}"
    seeds="${asked_seeds:-$seeds}"
    [[ -z "$asked_folds" ]] || ((folds <= asked_folds)) || folds="$asked_folds"
    [[ -z "$asked_epochs" ]] || epochs="$asked_epochs" updates=""
    [[ -z "$tiny" ]] || set_up_tiny
    length=(--max-epoch "$epochs")
    [[ -z "$updates" ]] || length=( # validation and checkpoints by the update, not the epoch
        --max-update "$updates" --validate-interval-updates "$interval"
        --save-interval-updates "$interval" --keep-interval-updates 1
        --validate-interval 1000000 --save-interval 1000000
    )
    best=(--best-checkpoint-metric "${metrics[0]}" --maximize-best-checkpoint-metric)
    [[ "${metrics[0]}" != rmse ]] || best=(--best-checkpoint-metric rmse)
    vectors=(--encoder-embed-dim 300)
    if [[ -e "$data/$1/glove.txt" ]]; then
        vectors=(
            --encoder-embed-path "$data/$1/glove.txt"
            --encoder-embed-dim "$(head -n 1 "$data/$1/glove.txt" | cut -d ' ' -f 2)"
        )
    elif [[ -n "$dry_run" && ! -e "$data/$1" ]]; then # as it would be
        vectors=(--encoder-embed-path "$data/$1/glove.txt" --encoder-embed-dim 300)
    fi
}

set_up_tiny() {
    batch_size=8 seeds="${asked_seeds:-1}"
    [[ -z "$epochs" ]] || epochs="${asked_epochs:-1}"
    [[ -z "$updates" ]] || updates=4 interval=2
    ((folds <= 2)) || folds=2
}

make_tiny() {
    title+=" (tiny form: ours mean nothing)"
    cpu=yes
    tiny_flags=(
        --encoder-embed-dim 12 --encoder-hidden-dim 12 --encoder-attention-heads 2
        --encoder-ffn-embed-dim 12 --head-dim 12 --pooling-queries 2
    )
    export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # tensors this small gain nothing from more
}

# --- Data and machine --------------------------------------------------------------------------

folders_of() { # DATASET: its folder or, one a line, those of its folds
    local fold
    if ((folds == 0)); then
        echo "$data/$1"
    else
        for ((fold = 0; fold < folds; fold++)); do
            echo "$data/$1/fold$fold"
        done
    fi
}

what_is_missing() { # DATASET: the first thing that is; nothing if all is there
    local folder input inputs=(input0 label)
    [[ "$task" == sentence_prediction ]] || inputs+=(input1)
    while IFS= read -r folder; do
        for input in "${inputs[@]}"; do
            [[ -e "$folder/$input/test.idx" ]] || { echo "$folder/$input" && return; }
        done
    done < <(folders_of "$1")
}

require_data() { # or prepare it
    local dataset missing prepare
    for dataset in "${chosen_datasets[@]}"; do
        set_up "$dataset" 0
        prepare=("$dataset" --glove 6B.300d --dest "$data/$dataset")
        [[ -z "$preparation" ]] || prepare+=("$preparation")
        if [[ -n "$preparing" && -n "$(what_is_missing "$dataset")" ]]; then
            run python "$root/scripts/prepare_classification.py" "${prepare[@]}"
        fi
        missing="$(what_is_missing "$dataset")"
        [[ -z "$missing" ]] || die "there is no data in $missing; to make it: python" \
            "scripts/prepare_classification.py $(show "${prepare[@]}"), or give --prepare"
        [[ -e "$data/$dataset/glove.txt" ]] ||
            say "$dataset has no glove.txt: its word vectors start at random"
    done
}

generate_data() {
    local dataset missing=()
    for dataset in "${chosen_datasets[@]}"; do
        [[ -e "$data/$dataset" ]] || missing+=("$dataset")
    done
    ((${#missing[@]} == 0)) || run python "$root/examples/classifiers/tiny_datasets.py" \
        "$data" "${missing[@]}" ||
        die "the data sets could not be generated"
}

choose_device() { # one GPU, or the CPU
    local gpus=1
    [[ -n "$dry_run" || -n "$cpu" ]] ||
        gpus="$(python -c 'import torch; print(torch.cuda.device_count())')"
    device=(--distributed-world-size 1)
    if [[ -n "$cpu" ]] || ((gpus == 0)); then
        device+=(--cpu)
        # Models side by side would fight for the cores.
        ((parallel == 1)) || export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
    fi
}

# --- A run -------------------------------------------------------------------------------------

run_folder() { # DATASET NUMBER: of a row; it is named by its flags and has a folder a seed and fold
    local word flag="" values=""
    for word in ${row_flags[$2]} --; do
        if [[ "$word" == --* ]]; then
            [[ -z "$flag" ]] || values+="-$flag" # it has no value
            flag="${word#--}"
        else
            values+="-$word" flag=""
        fi
    done
    echo "$out/$1/${values#-}"
}

progress_of() { # RUN: of fairseq-train's log, what tells of it
    sed -u -nE "s/.* \| valid \| epoch 0*([0-9]+) \| [^|]* \| (.*) \| wps .* num_updates ([0-9]+).*/$(
        sed 's/[&/\]/\\&/g' <<<"$1"
    ): epoch \1, \3 updates: \2/p"
}

run_once() { # DATASET NUMBER SEED FOLD: the fold empty if there are none
    local folder flags model train test record told="$1, ${row_names[$2]}, seed $3"
    local binarised="$data/$1${4:+/fold$4}"
    folder="$(run_folder "$1" "$2")/${4:+fold$4-}seed$3"
    [[ -z "$4" ]] || told+=", fold $4"
    read -r -a flags <<<"${row_flags[$2]}"
    model=(
        --task "$task" --num-classes "$classes" "${positions[@]}" --criterion "$criterion"
        "${vectors[@]}" "${training[@]}" --batch-size "$batch_size" "${length[@]}" "${best[@]}"
        "${flags[@]}" "${tiny_flags[@]}"
    )
    train=(
        fairseq-train "$binarised" --user-dir "$plugin" --seed "$3" "${model[@]}" "${device[@]}"
        --save-dir "$folder" --no-epoch-checkpoints --update-epoch-batch-itr True --num-workers 0
        --log-format simple --log-interval 100 "${extra[@]}"
    )
    test=(
        fairseq-validate "$binarised" --user-dir "$plugin" --task "$task" --num-classes "$classes"
        "${positions[@]}" --criterion "$criterion" --path "$folder/checkpoint_best.pt"
        --valid-subset test --batch-size "$batch_size" "${device[@]}" --num-workers 0
        --log-format json
    )
    record=(
        python "$root/examples/classification_results.py" record "$folder"
    )
    if [[ -n "$dry_run" ]]; then
        printf '\n# %s\n' "$told"
        run "${train[@]}"
        run "${test[@]}"
        run "${record[@]}"
        return
    fi

    mkdir -p "$folder"
    exec 9<"$folder" # two runs of one model: the second waits
    ! command -v flock >/dev/null || flock 9
    require_same_settings "$folder" "data $binarised" "seed $3" ${4:+"fold $4"} \
        "train ${model[*]} ${extra[*]}"
    if [[ -e "$folder/result.json" ]]; then
        say "finished: $told"
        return
    fi
    say "$told: in $folder"
    if [[ ! -e "$folder/trained" ]]; then
        run "${train[@]}" 2>&1 | tee -a "$folder/train.log" | progress_of "$told" ||
            die "training failed: $(tail -n 1 "$folder/train.log") (in $folder/train.log)"
        : >"$folder/trained"
    fi
    run "${test[@]}" >"$folder/test.log" 2>&1 ||
        die "testing failed: $(tail -n 1 "$folder/test.log") (in $folder/test.log)"
    run "${record[@]}" # which tells of them as well
    rm -f "$folder"/checkpoint_last.pt "$folder"/checkpoint_[0-9]*.pt "$folder/trained"
}

# --- All runs ----------------------------------------------------------------------------------

list_runs() { # DATASET NUMBER SEED FOLD, a line each; with the first seed of all first
    local dataset number seed fold most=0
    for dataset in "${chosen_datasets[@]}"; do
        set_up "$dataset" 0
        ((seeds <= most)) || most="$seeds"
    done
    for ((seed = 1; seed <= most; seed++)); do
        for dataset in "${chosen_datasets[@]}"; do
            set_up "$dataset" 0
            ((seed <= seeds)) || continue
            for number in "${chosen[@]}"; do
                if ((folds == 0)); then
                    echo "$dataset $number $seed"
                fi
                for ((fold = 0; fold < folds; fold++)); do
                    echo "$dataset $number $seed $fold"
                done
            done
        done
    done
}

run_all() {
    local dataset number seed fold running=0 failed="" list
    list="$(list_runs)"
    trap 'stop_runs' INT TERM
    while read -r dataset number seed fold; do
        set_up "$dataset" "$number"
        if ((parallel == 1)) || [[ -n "$dry_run" ]]; then
            (run_once "$dataset" "$number" "$seed" "$fold") </dev/null
            continue
        fi
        if ((running == parallel)); then
            wait -n || failed=yes
            running=$((running - 1))
            [[ -z "$failed" ]] || break
        fi
        set -m # each in a process group, which can be ended as a whole
        (run_once "$dataset" "$number" "$seed" "$fold") </dev/null &
        set +m
        running=$((running + 1))
    done <<<"$list"
    for ((; running > 0; running--)); do
        wait -n || failed=yes
    done
    trap - INT TERM
    [[ -z "$failed" ]] || die "a run failed: see above"
}

stop_runs() {
    local group
    for group in $(jobs -p); do
        kill -- "-$group" 2>/dev/null || true
    done
    exit 130
}

# --- The table ---------------------------------------------------------------------------------

each_table_row() { # COMMAND...: with a table's data set, metrics, row, paper's numbers and folder
    local dataset number papers published metric first=0
    for dataset in "${datasets[@]}"; do
        for number in "${!row_names[@]}"; do
            set_up "$dataset" "$number"
            read -r -a papers <<<"${row_papers[number]}"
            published=()
            for metric in "${!metrics[@]}"; do
                published+=("${papers[first + metric]:--}")
            done
            "$@" "$dataset" "$(IFS=, && echo "${metrics[*]}")" "${row_names[number]}" \
                "${published[*]}" "$(run_folder "$dataset" "$number")"
        done
        first=$((first + ${#metrics[@]}))
    done
}

list_row() { # as the other recipes' --list
    printf '%s: %s\t%s\t%s\t%s\n' "$title" "$1" "$3" "$2" "$4"
}

add_row() {
    table_rows+=(--row "$@")
}

print_table() { # OPTIONS of classification_results.py
    local table_rows=()
    each_table_row add_row
    python "$root/examples/classification_results.py" table --title "$title" ${tiny:+--tiny} \
        --command "bash examples/$paper/$name.sh" "${table_rows[@]}" "$@"
}

run_recipe() { # OPTIONS...
    local chosen chosen_datasets tiny_flags=() device plugin="$root/fairseq_posattn"
    local task criterion metrics folds positions preparation classes training batch_size epochs
    local updates interval seeds length best vectors
    read_options "$@"
    if [[ -n "$list_only" ]]; then
        each_table_row list_row
        return
    fi
    choose_rows
    choose_datasets
    [[ -z "$tiny" ]] || make_tiny
    out="${out:-$root/checkpoints/$paper/$regime${tiny:+-tiny}}"
    data="${data:-${tiny:+$out/data}}"
    data="${data:-$root/data-bin}"
    if [[ -z "$dry_run" ]]; then
        enter_environment
    fi
    if [[ -n "$table_only" ]]; then
        print_table
        return
    fi
    choose_device
    if [[ -z "$dry_run" ]]; then
        [[ -z "$tiny" ]] || generate_data
        require_data
        data="$(cd "$data" && pwd -P)"
        mkdir -p "$out" || die "--out $out cannot be made a folder"
        out="$(cd "$out" && pwd -P)"
    fi
    run_all
    [[ -n "$dry_run" ]] || print_table --output "$out/$name.json"
}
