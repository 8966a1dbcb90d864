"""The command that trains on one's own data, ready to be copied."""

import shlex

from fairseq_posattn.preparation.command import shown

# fairseq's task takes as many words of a text; models of documents read those.
POSITIONS = 512
LONG = 100  # words; a model of sentences would need much memory for more
# Keeps three files, whatever the number of epochs, and stops once validation stops improving.
RETENTION = "--no-epoch-checkpoints --keep-best-checkpoints 1 --patience 10"


def print_command(dest, flags):
    """Print the command of fairseq-train.

    Args:
        dest: the data.
        flags: a list of lines.
    """
    data, checkpoints = (
        shlex.quote(str(path)) for path in (shown(dest), f"checkpoints/{dest.name}")
    )
    lines = [
        f'fairseq-train {data} --user-dir "$(posattn user-dir)"',
        *flags,
        f"{RETENTION} --save-dir {checkpoints}",
    ]
    print("next:\n    " + " \\\n        ".join(lines))


def classification_flags(corpus, classes, longest):
    """What trains a classifier, in lines.

    Args:
        corpus: a :class:`.corpus.ClassificationCorpus`.
        classes: how many there are.
        longest: words of the longest text.
    """
    if corpus.scored:
        target = "--num-classes 1 --criterion rating_regression"
        best = "--best-checkpoint-metric rmse"
    else:
        target = f"--num-classes {classes} --criterion {corpus.criterion}"
        best = "--best-checkpoint-metric accuracy --maximize-best-checkpoint-metric"
    model, dropout = ("cspan_classifier", 0.2) if longest > LONG else ("mpsan_classifier", 0.3)
    cut = [f"--max-positions {POSITIONS} --shorten-method truncate"] if longest >= POSITIONS else []
    return [
        f"--task {corpus.task} {target}",
        f"--arch {model} --dropout {dropout}",
        "--optimizer adam --lr 1e-3 --batch-size 64 --max-epoch 15",
        *cut,
        best,
    ]


def translation_flags(joined):
    """What trains a translator, in lines.

    Args:
        joined: whether both languages have one dictionary.
    """
    shared = " --share-all-embeddings" if joined else ""
    return [
        f"--task translation --arch dman_iwslt_de_en --dropout 0.3{shared}",
        "--criterion label_smoothed_cross_entropy --label-smoothing 0.1",
        "--optimizer adam --adam-betas '(0.9, 0.98)' --lr 5e-4 --lr-scheduler inverse_sqrt",
        "--warmup-updates 4000 --weight-decay 1e-4 --max-tokens 4096 --max-update 50000",
        "--skip-invalid-size-inputs-valid-test",
    ]


def vector_flags(dest):
    """What starts with the word vectors of a folder, if it has any."""
    path = dest / "glove.txt"
    if not path.exists():
        return []
    with open(path, encoding="utf-8") as file:
        _, features = file.readline().split()
    return [f"--encoder-embed-path {shlex.quote(str(shown(path)))} --encoder-embed-dim {features}"]


def summarization_flags(longest):
    """What trains a model of summaries, in lines.

    Args:
        longest: pieces that a text has at most.
    """
    positions = longest + 1  # with the end mark
    return [
        "--task translation --arch dman_summarization --dropout 0.1 --share-all-embeddings",
        f"--max-source-positions {positions} --max-target-positions {positions}",
        "--criterion label_smoothed_cross_entropy --label-smoothing 0.1",
        "--optimizer adam --adam-betas '(0.9, 0.98)' --lr 5e-4 --lr-scheduler inverse_sqrt",
        "--warmup-updates 4000 --weight-decay 0.01 --clip-norm 0.1",
        "--max-tokens 4096 --max-update 50000",
    ]
