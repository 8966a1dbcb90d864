"""Summarise plain text, a text a line, with a trained model.

    %(prog)s checkpoints/cnn_dailymail/checkpoint_best.pt --input articles.txt

prints a summary for each line; for a blank line a blank one. Texts are made pieces, and cut, as the
training data was, and what the model writes is made plain text again: by preparation.json, beside
the checkpoint or the data. Where that is not there, texts are taken as they stand, in pieces with
spaces between, and so are summaries.

Several checkpoints of the same data are asked together, as an ensemble. CNN/DailyMail's models are
published with --lenpen 2 --min-len 50, Gigaword's with --max-len-b 30.
"""

from functools import partial

from fairseq_posattn.inference import search_options
from fairseq_posattn.inference.commands import translate

DECODING = search_options.DECODING | {"no_repeat_ngram_size": 3, "attention": "none"}

main = partial(translate.main, about=__doc__, decoding=DECODING)
