"""Summarize plain text, one text a line, with a trained model.

    %(prog)s checkpoints/cnn_dailymail/checkpoint_best.pt --input articles.txt

prints a summary for each line, and a blank line for a blank one. Texts are tokenized and cut like
the training data, and summaries are detokenized, as preparation.json beside the checkpoint or the
data says. Without that file, texts are taken as subwords separated by spaces.

Several checkpoints of the same data form an ensemble. CNN/DailyMail's published settings are
--lenpen 2 --min-len 50, Gigaword's --max-len-b 30.
"""

from functools import partial

from fairseq_posattn.inference import options
from fairseq_posattn.inference.commands import translate

DECODING = options.DECODING | {"no_repeat_ngram_size": 3, "attention": "none"}

main = partial(translate.main, about=__doc__, decoding=DECODING)
