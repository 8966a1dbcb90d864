"""Labelled examples as text files: tokenised, divided into splits, checked."""

import json
from collections import Counter
from contextlib import ExitStack
from functools import partial
from itertools import islice

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json, writing
from fairseq_posattn.common.parallel import map_lines
from fairseq_posattn.preparation import folds
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.example import checked_text
from fairseq_posattn.text.lines import one_line
from fairseq_posattn.text.words import PUBLISHED

WHOLE = "all"  # the one "split" of a data set that is published without any
SUMMARY = "summary.json"


class TextFiles(ExitStack):
    """``{split}.{input0,input1,label,score}`` of one folder, open for writing.

    An example without a word, which no model can read, is left out and noted. So is one without a
    class.

    Args:
        folder: where the files go; it is made.
        kinds: endings of the files: the inputs, ``label`` and perhaps ``score``.
    """

    def __init__(self, folder, kinds):
        super().__init__()
        self.folder, self.kinds = folder, kinds
        self.read, self.written, self.labels = Counter(), Counter(), Counter()
        self.empty, self.unlabelled, self.longest = [], 0, 0
        folder.mkdir(parents=True, exist_ok=True)
        self.files = {
            (split, kind): self.enter_context(writing(folder / f"{split}.{kind}"))
            for split in SPLITS
            for kind in kinds
        }

    def __exit__(self, kind, *error):
        super().__exit__(kind, *error)
        if kind is None:
            self._finish()

    def write(self, example, split, published):
        """Write one example to ``split``; it was published as part of ``published``."""
        if example.label is None:
            self.unlabelled += 1
            return
        self.read[published] += 1
        if not all(example.inputs):
            self.empty.append(example.place)
            return
        self.written[split] += 1
        self.labels[example.label] += split == "train"
        self.longest = max(self.longest, *(text.count(" ") + 1 for text in example.inputs))
        values = (*example.inputs, example.label, example.score)
        for kind, value in zip(self.kinds, values, strict=False):
            self.files[split, kind].write(f"{value}\n")

    def _finish(self):
        for split in SPLITS:
            if not self.written[split]:
                read = self.read[split]  # of one that is published by itself
                why = f"{read:,} are blank" if read else "give a larger --limit, or none"
                raise UsageError(f"there is no example for {split}: {why}")
        summary = {
            "read": self.read,
            "written": {split: self.written[split] for split in SPLITS},
            "labels": self.labels,
            "empty": self.empty,
            "unlabelled": self.unlabelled,
            "longest": self.longest,
        }
        write_json(self.folder / SUMMARY, summary)


def read_summary(folder):
    """What :class:`TextFiles` counted.

    That is: examples ``read`` of each published split and ``written`` to each split, occurrences
    of each of the ``labels`` in training, places of the ``empty`` examples, number of the
    ``unlabelled`` ones, words of the ``longest`` input.
    """
    return json.loads((folder / SUMMARY).read_text(encoding="utf-8"))


def write_splits(readers, folder, corpus, options, cut=str):
    """Tokenise published splits; what is missing for validation is held out of the training set.

    Args:
        readers: functions that give examples, by the name of their split.
        cut: function from a line of words to a line of subwords; none by default.
    """
    with TextFiles(folder, corpus.kinds) as files:
        for published, read in readers.items():
            valid = frozenset()
            if published == "train" and "valid" not in readers:
                labels = [example.label for example in _limited(read(), options)]
                valid = folds.held_out(labels, options.seed, options.valid_fraction)
            examples = _limited(read(), options)
            tokenised = _tokenise_all(examples, published, corpus, options, cut)
            for index, example in enumerate(tokenised):
                files.write(example, "valid" if index in valid else published, published)


def write_divided(read, folders, corpus, options, cut=str):
    """Tokenise a data set that is published whole, and divide it: into ten folds, or into tenths.

    Args:
        read: gives all examples.
        folders: one, or one for each fold.
        cut: as for :func:`write_splits`.
    """
    examples = list(read())
    if options.limit is not None:
        labels = [example.label for example in examples]
        chosen = folds.stratified_sample(labels, options.seed, options.limit)
        examples = [examples[index] for index in sorted(chosen)]
    if len(examples) < folds.FOLDS:
        raise UsageError(f"{len(examples)} examples are too few to divide: give a larger --limit")
    labels = [example.label for example in examples]
    if corpus.cross_validated:
        divisions = folds.cross_validation(labels, options.seed, options.valid_fraction)
    else:
        divisions = [folds.tenths(labels, options.seed)]
    tokenised = list(_tokenise_all(examples, "all", corpus, options, cut))
    for folder, division in zip(folders, divisions, strict=True):
        split_of = {index: split for split, indices in division.items() for index in indices}
        with TextFiles(folder, corpus.kinds) as files:
            for index, example in enumerate(tokenised):
                files.write(example, split_of[index], WHOLE)


def _limited(examples, options):
    return islice(examples, options.limit)


def _tokenise_all(examples, split, corpus, options, cut):
    words = PUBLISHED[corpus.word_rule]
    function = partial(_tokenise, words=words, cased=options.cased, cut=cut)
    return map_lines(function, examples, options.jobs, f"tokenising {split}")


def _tokenise(example, words, cased, cut):
    checked = (checked_text(text, example.place) for text in example.inputs)
    texts = (words(one_line(text)) for text in checked)
    return example._replace(inputs=tuple(cut(text if cased else text.lower()) for text in texts))
