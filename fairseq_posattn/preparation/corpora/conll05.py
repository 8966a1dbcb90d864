"""The CoNLL-2005 shared task (Carreras and Màrquez, 2005): roles of verbs in the Penn Treebank.

The release has the roles, ``train/props/train.02.props.gz`` and so on. Its words are those of the
Penn Treebank, which is licensed: ``train/words/train.02.words.gz`` and so on, which the release's
scripts make, or the Treebank's trees, ``wsj/02/*.mrg`` and ``brown/ck/ck0[1-3].mrg``.
"""

import re
from fnmatch import fnmatch

from fairseq_posattn.common.archives import decompressed
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import TaggingCorpus
from fairseq_posattn.text.lines import read_lines
from fairseq_posattn.text.props import RoleSentence, blocks, read_props_lines

# Files of the release of each split, without folder and suffix, and the trees of each.
FILES = {
    "train": {f"train.{section:02}": f"*wsj/{section:02}/*.mrg" for section in range(2, 22)},
    "valid": {"devel.24": "*wsj/24/*.mrg"},
    "test": {"test.wsj": "*wsj/23/*.mrg"},
    "test1": {"test.brown": "*brown/ck/ck0[123].mrg"},
}
TRACE = "-NONE-"
TREE = re.compile(r"(?P<word>\((?P<tag>[^\s()]+)\s+(?P<form>[^\s()]+)\s*\))|\(|\)")


def sentences(archive, options):
    names = sorted(archive.names())
    return {
        split: [one for part, trees in parts.items() for one in _part(archive, names, part, trees)]
        for split, parts in FILES.items()
    }


def _part(archive, names, part, trees):
    props = _matching(names, f"*props/{part}.props*")
    if not props:
        raise UsageError(f"{archive.name}: holds no props/{part}.props.gz")
    place = archive.label(props[0])
    roles = list(read_props_lines(_lines(archive, props[0]), place))
    words = list(_words(archive, names, part, trees))
    if len(words) != len(roles):
        raise UsageError(f"{place}: {len(roles)} sentences, but there are words of {len(words)}")
    for one, its_roles in zip(words, roles, strict=True):
        at = f"{place}:{its_roles.line}"
        if len(one) != its_roles.length:
            raise UsageError(f"{at}: roles of {its_roles.length} words, but {len(one)} words")
        yield RoleSentence(one, its_roles, at)


def _words(archive, names, part, trees):
    if files := _matching(names, f"*words/{part}.words*"):
        for _, rows in blocks(_lines(archive, files[0])):
            yield tuple(word for word, *_ in rows)
        return
    files = _matching(names, trees)
    if not files:
        raise UsageError(
            f"{archive.name}: holds no words/{part}.words.gz, and no {trees[1:]} of the Penn "
            "Treebank"
        )
    for name in files:
        with archive.open(name) as stream:
            yield from trees_words(stream.read().decode("latin-1"), archive.label(name))


def trees_words(text, place):
    """Yield the words of each tree, without traces; raise :exc:`UsageError` if brackets differ."""
    depth, words = 0, []
    for match in TREE.finditer(text):
        if match["word"]:
            if match["tag"] != TRACE:
                words.append(match["form"])
            continue
        depth += 1 if match[0] == "(" else -1
        if depth < 0:
            break
        if depth == 0 and words:
            yield tuple(words)
            words = []
    if depth or words:
        raise UsageError(f"{place}: its brackets do not match")


def _matching(names, pattern):
    return [name for name in names if fnmatch(f"/{name}", pattern)]


def _lines(archive, name):
    with archive.open(name) as stream:
        text = decompressed(stream, archive.label(name))
        return list(read_lines(text, archive.label(name), allow_empty=True))


CORPORA = (
    TaggingCorpus(
        name="conll05",
        summary="CoNLL-2005: roles of verbs in the Penn Treebank; not downloaded",
        source="a folder with conll05st-release, and in it the words that its scripts make, or "
        "beside it the Penn Treebank's wsj/ and brown/ with parsed (.mrg) files",
        sentences=sentences,
        published={"train": 39_832, "valid": 1_346, "test": 2_416, "test1": 426},
        predicates={"train": 90_750, "valid": 3_248, "test": 5_267, "test1": 804},
        recipe="mtsa/table4_roles",
    ),
)
