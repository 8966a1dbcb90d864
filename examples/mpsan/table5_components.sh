#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="MPSAN, Table 5: without one component after the other (SST, five classes)"
about="Without fusion the masks' outputs are summed; without position the words go to the pooling as they
are; without attention they are averaged, too. The paper counts 1.09m, 0.55m, 0.64m and 0.09m parameters:
the second and third, of models that it does not describe further, are not ours. Its accuracies are the
best of ten runs: compare the column 'best'."

datasets=(sst5)
row MPSAN 52.53 --arch mpsan_classifier
row "w/o fusion" 51.22 --arch mpsan_classifier --mpsan-fusion sum
row "w/o position" 49.19 --arch mpsan_classifier --encoder none
row "w/o attention" 44.93 --arch mpsan_classifier --encoder none --pooling mean
run_recipe "$@"
