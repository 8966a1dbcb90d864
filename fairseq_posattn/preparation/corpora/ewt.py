"""English Web Treebank with PropBank's roles (Universal Dependencies; Bonial et al., 2014).

Words and roles are published apart. UD_English-EWT has the words, a file a document, under
``not-to-release/sources``, and the documents of each split in ``file-lists``; propbank-release has
the roles of the same documents, without words, in ``*.gold_skel``. A sentence is taken if both have
it with as many words.
"""

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import Flag, TaggingCorpus
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.text.lines import read_lines
from fairseq_posattn.text.props import Proposition, RoleSentence, Sentence, blocks, pieces_of_cells

AUXILIARIES = {"be.03", "have.01", "do.01"}  # never have an argument
LISTS = {"train": "files.train", "valid": "files.dev", "test": "files.test"}
LISTED = tuple(f"/file-lists/{name}" for name in LISTS.values())
WORDS, ROLES = ".xml.conllu", ".xml.gold_skel"
SENTENCE, TAG, LEMMA, ROLESET, FIRST_ROLE = 1, 4, 6, 7, 8  # columns of gold_skel
PACKED = (".tar", ".tar.gz", ".tgz", ".zip")


def sentences(archive, every_predicate=False):
    """The sentences of each split: lists of :class:`.text.props.RoleSentence`.

    Args:
        every_predicate: nouns, adjectives and auxiliaries, too, not verbs alone.

    Raises:
        UsageError: the archive lacks one of the two publications, or one is damaged.
    """
    listed, words, roles = {}, {}, {}
    for name, stream, place in _members(archive):
        if f"/{name}".endswith(LISTED):
            listed[name.rpartition("/")[2]] = list(_documents(stream, place))
        elif name.endswith(WORDS):
            words[_document(name, WORDS, place)] = dict(_words(stream, place))
        elif name.endswith(ROLES):
            roles[_document(name, ROLES, place)] = dict(_roles(stream, place, every_predicate))
    for what, found in (
        (
            "file-lists/files.train, files.dev and files.test",
            all(n in listed for n in LISTS.values()),
        ),
        (f"*{WORDS} of UD_English-EWT's not-to-release/sources", words),
        (f"*{ROLES} of propbank-release's data/google/ewt", roles),
    ):
        if not found:
            raise UsageError(f"{archive.name}: holds no {what}")
    return {split: list(_joined(listed[name], words, roles)) for split, name in LISTS.items()}


def _members(archive):
    """``(name, stream, place)`` of all files, those of archives in the archive, too."""
    for name, stream in archive.members():
        if name.endswith(PACKED):
            packed = archive.nested(name)
            for inner, inner_stream in packed.members():
                yield inner, inner_stream, packed.label(inner)
        else:
            yield name, stream, archive.label(name)


def _document(name, ending, place):
    """``(genre, document)`` of ``.../answers/DOC.xml.conllu`` or ``.../answers/00/DOC...``."""
    *folders, file = name.removesuffix(ending).split("/")
    depth = 2 if ending == ROLES else 1
    if len(folders) < depth:
        raise UsageError(f"{place}: not in a folder of its genre, such as answers/")
    return folders[-depth], file


def _documents(stream, place):
    """The documents of a list, a path a line."""
    for number, line in enumerate(read_lines(stream, place), start=1):
        if line.strip():
            yield _document(line.strip(), WORDS, f"{place}:{number}")


def _words(stream, place):
    """``(number of the sentence from 0, words)`` of a document in CoNLL-U."""
    number, words = None, []
    for at, line in enumerate([*read_lines(stream, place, allow_empty=True), ""], start=1):
        if line.startswith("# sent_id"):
            number = _number(line.rpartition("-")[2], f"{place}:{at}") - 1
        elif line.strip() and not line.startswith("#"):
            columns = line.split("\t")
            if len(columns) != 10:
                raise UsageError(f"{place}:{at}: {len(columns)} columns; CoNLL-U has 10")
            if columns[0].isdecimal():  # 3-4 and 8.1 are no words of their own
                words.append(columns[1].replace(" ", "_"))
        elif words:
            yield number, tuple(words)
            words = []


def _roles(stream, place, every_predicate):
    """``(number of the sentence from 0, its Sentence)`` of a document of gold_skel."""
    for first, rows in blocks(read_lines(stream, place, allow_empty=True)):
        sentence = _sentence(rows, place, first, every_predicate)
        yield _number(rows[0][SENTENCE], f"{place}:{first}"), sentence


def _number(text, place):
    if not text.isdecimal():
        raise UsageError(f"{place}: {text!r} is no number of a sentence")
    return int(text)


def _sentence(rows, place, first, every_predicate):
    predicates = [at for at, row in enumerate(rows) if row[ROLESET:] and row[ROLESET] != "-"]
    for at, row in enumerate(rows):
        if len(row) != FIRST_ROLE + len(predicates):
            raise UsageError(
                f"{place}:{first + at}: there should be {FIRST_ROLE + len(predicates)} columns, as "
                f"the sentence has {len(predicates)} predicates, not {len(row)}"
            )
    propositions = [
        Proposition(rows[at][LEMMA], at, pieces_of_cells([r[column] for r in rows], place, first))
        for column, at in enumerate(predicates, start=FIRST_ROLE)
        if every_predicate
        or (rows[at][TAG].startswith("V") and rows[at][ROLESET] not in AUXILIARIES)
    ]
    return Sentence(len(rows), propositions, first)


def _joined(documents, words, roles):
    for document in documents:
        of_words, of_roles = words.get(document, {}), roles.get(document, {})
        for number, found in of_words.items():
            told = of_roles.get(number)
            if told is not None and told.length == len(found):
                yield RoleSentence(found, told, f"{'/'.join(document)}:{number + 1}")


GITHUB = "https://github.com"
CORPORA = (
    TaggingCorpus(
        name="ewt",
        summary="English Web Treebank with PropBank's roles: 26,535 verbs to train on",
        source="a folder with the archives of github's propbank/propbank-release and "
        "UniversalDependencies/UD_English-EWT, or with what they unpack to",
        alternatives=(
            (
                Source(
                    "propbank-release.tar.gz",
                    (f"{GITHUB}/propbank/propbank-release/archive/4abade0b53ce.tar.gz",),
                ),
                Source(
                    "UD_English-EWT.tar.gz",
                    (f"{GITHUB}/UniversalDependencies/UD_English-EWT/archive/15d613d8447b.tar.gz",),
                ),
            ),
        ),
        sentences=lambda archive, options: sentences(archive, options.all_predicates),
        published={"train": 12_524, "valid": 1_968, "test": 2_058},
        predicates={"train": 26_535, "valid": 3_235, "test": 3_109},
        recipe="mtsa/table4_roles",
        flag=Flag("--all-predicates", "nouns, adjectives and auxiliaries too, not verbs alone"),
        changes=lambda options: (
            {"predicates": {"train": 40_424, "valid": 4_963, "test": 4_795}}
            if options.all_predicates
            else {}
        ),
    ),
)
