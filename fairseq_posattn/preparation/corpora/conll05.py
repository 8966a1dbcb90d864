"""The CoNLL-2005 shared task (Carreras and Màrquez, 2005): roles of verbs in the Penn Treebank.

The task's release has the roles, ``train/props/train.02.props.gz`` and so on. Its words are those
of the Penn Treebank, which is licensed: either ``train/words/train.02.words.gz`` and so on, as the
release's scripts make them, or the Treebank's trees, ``wsj/02/*.mrg``, ``brown/ck/ck0[1-3].mrg``.
"""

import re
from fnmatch import fnmatch

from fairseq_posattn.common.archives import decompressed
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import TaggingCorpus
from fairseq_posattn.text.lines import read_lines
from fairseq_posattn.text.props import RoleSentence, blocks, read_props_lines

TRAIN_SECTIONS = [f"{section:02}" for section in range(2, 22)]
# Of each split: the files of the release, without folder and ending, and the trees of each.
FILES = {
    "train": {f"train.{section}": f"*wsj/{section}/*.mrg" for section in TRAIN_SECTIONS},
    "valid": {"devel.24": "*wsj/24/*.mrg"},
    "test": {"test.wsj": "*wsj/23/*.mrg"},
    "test1": {"test.brown": "*brown/ck/ck0[123].mrg"},
}
TRACE = "-NONE-"
TREE = re.compile(r"(?P<word>\((?P<tag>[^\s()]+)\s+(?P<form>[^\s()]+)\s*\))|\(|\)")


def sentences(archive):
    """The sentences of each split: lists of :class:`.text.props.RoleSentence`.

    Raises:
        UsageError: files are missing, or the words do not fit the roles.
    """
    names = sorted(archive.names())
    return {
        split: [
            sentence
            for part, trees in parts.items()
            for sentence in _part(archive, names, part, trees)
        ]
        for split, parts in FILES.items()
    }


def _part(archive, names, part, trees):
    props = _named(names, f"*props/{part}.props*")
    if not props:
        raise UsageError(f"{archive.name}: holds no props/{part}.props.gz")
    place = archive.label(props[0])
    roles = list(read_props_lines(_lines(archive, props[0]), place))
    words = list(_words(archive, names, part, trees))
    if len(words) != len(roles):
        raise UsageError(f"{place}: {len(roles)} sentences, but there are words of {len(words)}")
    for of_words, of_roles in zip(words, roles, strict=True):
        at = f"{place}:{of_roles.line}"
        if len(of_words) != of_roles.length:
            raise UsageError(f"{at}: roles of {of_roles.length} words, but {len(of_words)} words")
        yield RoleSentence(of_words, of_roles, at)


def _words(archive, names, part, trees):
    files = _named(names, f"*words/{part}.words*")
    if files:
        for _, rows in blocks(_lines(archive, files[0])):
            yield tuple(word for word, *_ in rows)
        return
    files = _named(names, trees)
    if not files:
        raise UsageError(
            f"{archive.name}: holds no words/{part}.words.gz, and of the Penn Treebank no "
            f"{trees[1:]}"
        )
    for name in files:
        with archive.open(name) as stream:
            yield from trees_words(stream.read().decode("latin-1"), archive.label(name))


def trees_words(text, place):
    """The words of each tree of the Penn Treebank, without its traces.

    Raises:
        UsageError: brackets do not match.
    """
    depth, words = 0, []
    for found in TREE.finditer(text):
        if found["word"]:
            if found["tag"] != TRACE:
                words.append(found["form"])
            continue
        depth += 1 if found[0] == "(" else -1
        if depth < 0:
            break
        if depth == 0 and words:
            yield tuple(words)
            words = []
    if depth or words:
        raise UsageError(f"{place}: its brackets do not match")


def _named(names, pattern):
    return [name for name in names if fnmatch(f"/{name}", pattern)]


def _lines(archive, name):
    with archive.open(name) as stream:
        text = decompressed(stream, archive.label(name))
        return list(read_lines(text, archive.label(name), allow_empty=True))


CORPORA = (
    TaggingCorpus(
        name="conll05",
        summary="CoNLL-2005: roles of verbs in the Penn Treebank, which you must have",
        source="a folder with conll05st-release, and in it the words that its scripts make, or "
        "beside it the Penn Treebank's wsj/ and brown/ with parsed (.mrg) files",
        sentences=lambda archive, options: sentences(archive),
        published={"train": 39_832, "valid": 1_346, "test": 2_416, "test1": 426},
        predicates={"train": 90_750, "valid": 3_248, "test": 5_267, "test1": 804},
        recipe="mtsa/table4_roles",
    ),
)
