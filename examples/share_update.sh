# Shares the batches of an update among workers, so that its size does not depend on how many there are.

share_update() { # SIZE BATCHES WORKERS: sets frequency and size, those of a worker's batches
    # BATCHES x SIZE tokens (or sentences) are an update. Each worker takes as many batches as are
    # needed for none to be larger than SIZE; where BATCHES cannot be divided, they are smaller.
    frequency=$((($2 + $3 - 1) / $3))
    size=$(($1 * $2 / ($3 * frequency)))
    ((size > 0)) || die "$3 workers cannot share an update of $1 x $2"
}

describe_update() { # SIZE BATCHES WORKERS UNIT: what share_update makes of it
    local frequency size all asked=$(($1 * $2))
    share_update "$1" "$2" "$3"
    all=$((size * frequency * $3))
    say "an update is $3 worker(s) x $frequency batch(es) (--update-freq) x $size $4 = $all $4$(
        ((all == asked)) || echo ", not $asked: they cannot be shared evenly"
    )"
    # fairseq takes sentences of up to 1024 tokens, and ends where one is larger than a batch.
    [[ "$4" != tokens ]] || ((size == $1 || size >= 1024)) ||
        say "warning: a sentence of more than $size tokens will stop training; use fewer workers"
}
