"""Gigaword's sentences and headlines (Graff et al., 2003), as Rush et al. (2015) tokenised them.

The archive has been published in two layouts: ``org_data/{train,dev,test}.{src,tgt}.txt`` and
``sumdata/``, where the test set is ``Giga/input.txt`` with ``Giga/task1_ref0.txt``. Text is
tokenised and lower-cased, digits are "#", and rare words are "<unk>" in the training and validation
sets, "UNK" in the test set: here "UNK" everywhere. Training pairs with an empty side are left out.
"""

from itertools import islice

from fairseq_posattn.common.archives import decompressed
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import Progress, say
from fairseq_posattn.preparation.corpus import SIDES, SPLITS, SummarizationCorpus
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.pairs import PairWriter, read_pairs
from fairseq_posattn.preparation.sources import obtain
from fairseq_posattn.text.lines import read_lines

HUB = "https://huggingface.co/datasets"
ARCHIVE = Source(
    "ggw_data.zip",
    (
        f"{HUB}/Harvard/gigaword/resolve/main/data/ggw_data.zip",
        f"{HUB}/Harvard/gigaword/resolve/e45e01b2da13842bb3df1b12dc046910147b3d82/data/ggw_data.zip",
    ),
)
FILES = {  # of each split, in the layouts that there are
    "train": (("train.src.txt", "train.tgt.txt"), ("train.article.txt", "train.title.txt")),
    "valid": (
        ("dev.src.txt", "dev.tgt.txt"),
        ("valid.article.filter.txt", "valid.title.filter.txt"),
    ),
    "test": (
        ("test.src.txt", "test.tgt.txt"),
        ("Giga/input.txt", "Giga/task1_ref0.txt"),
        ("input.txt", "task1_ref0.txt"),
    ),
}


def add_options(parser):
    parser.add_argument(
        "--splits",
        nargs="+",
        choices=SPLITS,
        default=SPLITS,
        metavar="SPLIT",
        help="only these, where the source lacks one (default: train valid test)",
    )


def splits(options):
    if "train" not in options.splits:
        raise UsageError("--splits must have train, from which the pieces are learned")
    return [split for split in SPLITS if split in options.splits]


def find_files(options):
    """The archive, and in it the files of the two sides of each split."""
    archive = obtain(ARCHIVE, options)
    names = archive.names()
    return archive, {split: find_pair(archive.name, names, split) for split in splits(options)}


def fingerprint(found):
    archive, files = found
    return archive.fingerprint(*(name for pair in files.values() for name in pair))


def find_pair(place, names, split):
    """The files of the two sides of a split, gzipped ones included.

    Raises:
        UsageError: there are none.
    """
    for files in FILES[split]:
        found = [
            min((name for name in names if is_called(name, file)), key=len, default=None)
            for file in files
        ]
        if all(found):
            return found
    wanted = " nor ".join(files[0] for files in FILES[split][:2])
    rest = " ".join(other for other in SPLITS if other != split)
    mend = "" if split == "train" else f"; --splits {rest} does without"
    raise UsageError(f"{place}: holds neither {wanted} with its other side{mend}")


def is_called(name, file):
    """Whether a file of the archive is the one that is wanted. DUC's have the same names."""
    return f"/{name}".removesuffix(".gz").endswith(f"/{file}") and "DUC" not in name


def write_text(found, folder, options):
    """Write ``{train,valid,test}.{source,target}``."""
    archive, files = found
    for split, pair in files.items():
        seen, sides = 0, [(archive, file) for file in pair]
        with PairWriter(folder / split, SIDES) as writer, Progress(f"reading {split}") as progress:
            for texts in islice(read_pairs([sides], tokens), options.limit):
                if split != "train" or all(texts):
                    writer.write(texts)
                seen += 1
                progress.add(1)
        if writer.count < seen:
            say(f"{split}: {seen - writer.count:,} pairs with an empty side left out")


def tokens(stream, name):
    """The lines of a file: single spaces between tokens, and one name for rare words."""
    for line in read_lines(decompressed(stream, name), name):
        yield " ".join("UNK" if word == "<unk>" else word for word in line.split())


CORPORA = (
    SummarizationCorpus(
        name="gigaword",
        summary="Gigaword: sentences and headlines, 4.0 million pairs",
        source="ggw_data.zip or summary.tar.gz, or a folder with what either unpacks to "
        "(org_data/train.src.txt ... or sumdata/train/train.article.txt ...)",
        published={"train": 3_803_957, "valid": 189_651, "test": 1_951},
        recipe="dman/gigaword",
        find_files=find_files,
        fingerprint=fingerprint,
        write_text=write_text,
        splits=splits,
        add_options=add_options,
    ),
)
