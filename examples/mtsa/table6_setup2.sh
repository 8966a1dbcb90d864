#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="MTSA, Table 6, setup 2: WMT14 English to German, four GPUs, 6144 tokens on each"
about="As setup 1, with twelve times the tokens in an update and about half the updates. The paper's
numbers are means of 3 runs; of which checkpoints it does not say, so the last is taken again."

regime=setup2
training+=(--lr 9.9e-4 --warmup-updates 8000)
max_tokens=6144 batches=4 max_update=133000
row Transformer 26.98 --arch transformer_wmt_en_de
row MTSA 27.21 "${published_mtsa[@]}"
run_recipe "$@"
