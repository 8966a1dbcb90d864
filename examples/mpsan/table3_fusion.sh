#!/usr/bin/env bash
source "$(dirname "${BASH_SOURCE[0]}")/settings.sh"

title="MPSAN, Table 3: fusion of the masks' outputs (SST, five classes)"
about="B&F has masks for the words before and after, mul is MPSAN with its four masks. FG is DiSAN's
fusion gate in each mask's unit, TPW a softmax over units and word for each feature. The paper counts
1.45m, 0.73m, 4.33m and 1.09m parameters; its accuracies are the best of ten runs: compare the column
'best'."

datasets=(sst5)
row "B&F + FG" 51.36 --arch mpsan_classifier "${both_directions[@]}" --mpsan-fusion gate
row "B&F + TPW" 51.76 --arch mpsan_classifier "${both_directions[@]}"
row "mul + FG" 52.39 --arch mpsan_classifier --mpsan-fusion gate
row "mul + TPW" 52.53 --arch mpsan_classifier
run_recipe "$@"
