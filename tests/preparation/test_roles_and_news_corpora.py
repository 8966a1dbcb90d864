"""EWT, CoNLL-2005 and MIND in their published layouts."""

import json
import shutil
from argparse import Namespace

import pytest
from archive_files import gzipped, write_archive, write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.commands.prepare import prepare
from fairseq_posattn.preparation.corpora import mind, roles
from fairseq_posattn.text.props import readable

CONLLU = """\
# newdoc id = answers-one
# sent_id = answers-one-0001
1	My	my	PRON	PRP$	_	2	x	_	_
2-3	cats've	_	_	_	_	_	_	_	_
2	cats	cat	NOUN	NNS	_	0	x	_	_
3	've	have	AUX	VBP	_	0	x	_	_
4	loved	love	VERB	VBN	_	0	x	_	_
4.1	elided	x	X	X	_	_	_	_	_
5	10 000	10	NUM	CD	_	0	x	_	_

# sent_id = answers-one-0002
1	Hm	hm	INTJ	UH	_	0	x	_	_

# sent_id = answers-one-0003
1	Go	go	VERB	VB	_	0	x	_	_
2	!	!	PUNCT	.	_	0	x	_	_
"""
SKELETON = """\
ewt/answers/00/one.xml 0 0 [WORD] PRP$ (S(NP* - - * (ARG0*
ewt/answers/00/one.xml 0 1 [WORD] NNS *) - - * *)
ewt/answers/00/one.xml 0 2 [WORD] VBP * have have.01 (V*) *
ewt/answers/00/one.xml 0 3 [WORD] VBN * love love.01 * (V*)
ewt/answers/00/one.xml 0 4 [WORD] CD *) - - * (ARG1*)

ewt/answers/00/one.xml 1 0 [WORD] UH * - -
ewt/answers/00/one.xml 1 1 [WORD] . * - -

ewt/answers/00/one.xml 2 0 [WORD] VB * go go.01 (V*)
ewt/answers/00/one.xml 2 1 [WORD] . * - - *
"""
WORDS = "UD_English-EWT/not-to-release/sources/answers/{}.xml.conllu"
LISTS = "UD_English-EWT/not-to-release/file-lists/files.{}"
ROLES = "propbank-release/data/google/ewt/answers/00/{}.xml.gold_skel"


@pytest.fixture
def release(tmp_path):
    """Write EWT's two publications to one folder, of equal documents for train, dev and test."""
    files = {}
    for split, document in {"train": "one", "dev": "two", "test": "three"}.items():
        files[WORDS.format(document)] = CONLLU.replace("one", document)
        files[LISTS.format(split)] = f"answers/{document}.xml.conllu\n"
        files[ROLES.format(document)] = SKELETON
    return write_folder(tmp_path / "published", files)


def sentences(readers):
    return {split: list(read()) for split, read in readers.items()}


def read_ewt(folder, all_predicates=False):
    options = Namespace(all_predicates=all_predicates)
    return sentences(roles.read_ewt(open_archive(folder), options))


def lines_of(sentences):
    return [
        readable(sentence.words, index, tags)
        for sentence in sentences
        for index, tags in sentence.examples()
    ]


def test_ewt_joins_words_and_roles_of_verbs_or_all_predicates(release, tmp_path):
    splits = read_ewt(release)
    assert list(splits) == ["train", "valid", "test"]
    roles = ["3 My cats 've loved 10_000 ||| B-ARG0 I-ARG0 O B-V B-ARG1", "0 Go ! ||| B-V O"]
    for sentences in splits.values():
        assert lines_of(sentences) == roles
        # the second has one word here and two there
        assert sentences[1].location == sentences[0].location.replace(":1", ":3")
    train = read_ewt(release, all_predicates=True)["train"]
    assert lines_of(train)[0] == "2 My cats 've loved 10_000 ||| O O B-V O O"
    assert len(lines_of(train)) == 3
    packed = tmp_path / "packed"  # its two archives
    for part in ("UD_English-EWT", "propbank-release"):
        shutil.make_archive(packed / f"{part}-main", "zip", release, part)
    assert lines_of(read_ewt(packed)["train"]) == roles


@pytest.mark.parametrize(
    ("name", "good", "bad", "message"),
    [
        ("dev", None, None, "holds no file-lists/"),
        ("conllu", None, None, "holds no .*conllu"),
        ("gold_skel", None, None, "gold_skel"),
        ("gold_skel", "(ARG1*)", "ARG1", r"one.xml.gold_skel:5: ARG1 is no cell"),
        ("gold_skel", "0 4 [WORD] CD", "0", "_skel:5: there should be 10 columns"),
    ],
)
def test_missing_and_malformed_files_of_ewt_are_reported(release, name, good, bad, message):
    for path in [path for path in release.rglob(f"*.{name}") if path.is_file()]:
        text = path.read_text()
        path.unlink()
        if good:
            path.write_text(text.replace(good, bad, 1))
    with pytest.raises(UsageError, match=message):
        read_ewt(release)


TREE = """
( (S
    (NP-SBJ (NNP Mr.) (NNP Vinken) )
    (VP (VBZ is) (NP-PRD (NN chairman) (-NONE- *T*-1) ))
    (. .) ))
( (S (VP (VB Go)) (. !) ))
"""
PROPS = "- (A1*\n- *)\nbe (V*)\n- (A2*)\n- *\n\n- \n- \n\n"


def conll_files(with_words):
    files = {}
    for part, trees in (item for parts in roles.FILES.values() for item in parts.items()):
        folder = f"conll05st-release/{part.split('.')[0]}"
        files[f"{folder}/props/{part}.props"] = PROPS
        if with_words:
            files[f"{folder}/words/{part}.words"] = "Mr.\nVinken\nis\nchairman\n.\n\nGo\n!\n\n"
        else:
            tree = trees[1:].replace("*", "/wsj_1").replace("[123]", "1").replace("//", "/")
            files[f"treebank/{tree}"] = TREE
    return files


@pytest.mark.parametrize("with_words", [True, False])
def test_conll05_reads_words_from_the_release_or_the_treebank(tmp_path, with_words):
    folder = write_folder(tmp_path, conll_files(with_words))
    for path in [*folder.rglob("*.props"), *folder.rglob("*.words")]:
        path.write_bytes(gzipped(path.read_bytes()))
        path.rename(f"{path}.gz")
    splits = sentences(roles.read_conll05(open_archive(folder), None))
    assert [len(splits[split]) for split in ("train", "valid", "test", "test1")] == [40, 2, 2, 2]
    assert lines_of(splits["test1"]) == ["2 Mr. Vinken is chairman . ||| B-A1 I-A1 B-V B-A2 O"]
    assert splits["valid"][1].words == ("Go", "!")


@pytest.mark.parametrize(
    ("part", "text", "message"),
    [
        ("devel.24.props", None, "holds no props/devel.24.props.gz"),
        ("devel.24.words", None, r"no words/devel.24.words.gz, .* no wsj/24/\*.mrg"),
        ("devel.24.words", "Go\n!\n", "devel.24.props: 2 sentences, but there are words of 1"),
        ("24/wsj_1.mrg", TREE[:60], "wsj/24/wsj_1.mrg: its brackets do not match"),
        ("devel.24.words", "Mr.\n\nGo\n!\n", "devel.24.props:1: roles of 5 words, but 1"),
    ],
)
def test_inconsistent_conll05_files_are_reported(tmp_path, part, text, message):
    folder = write_folder(tmp_path, conll_files(with_words=not part.endswith(".mrg")))
    (path,) = folder.rglob(part)
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(UsageError, match=message):
        sentences(roles.read_conll05(open_archive(folder), None))


def test_ewt_is_prepared(release, tmp_path, fairseq_here, capsys):
    dest = tmp_path / "ewt"
    assert prepare("tagging", ["ewt", "--source", str(release), "--dest", str(dest)]) == 0
    text = dest / "text"
    assert (text / "train.words").read_text() == "my cats 've loved 10_000\ngo !\n"
    assert (text / "valid.predicate").read_text() == "0 0 0 1 0\n1 0\n"
    assert (text / "test.tags").read_text() == "B-ARG0 I-ARG0 O B-V B-ARG1\nB-V O\n"
    props = "- (ARG0* - *) - * love (V*) - (ARG1*) go (V*) - *"
    assert " ".join((text / "test.props").read_text().split()) == props
    indices = {"train.idx", "valid.idx", "test.idx"}
    for column in ("words", "predicate", "tags"):
        assert (dest / column / "dict.txt").is_file()
        assert {path.name for path in (dest / column).glob("*.idx")} == indices
    output = capsys.readouterr().out
    assert "predicates" in output
    assert f"posattn recipe mtsa/table4_roles --datasets ewt --data {tmp_path}\n" in output


@pytest.mark.parametrize(
    ("kind", "name", "source"),
    [("tagging", "conll05", " with conll05st-release"), ("recommendation", "mind", "")],
)
def test_licensed_corpora_are_never_downloaded(tmp_path, capsys, kind, name, source):
    assert prepare(kind, [name, "--dest", str(tmp_path / name)]) == 1
    error = capsys.readouterr().err
    assert f"{name} cannot be downloaded: --source takes a folder{source}" in error
    assert error.count("\n") == 1


NEWS = """\
N1\tsports\tfootball\tThe Bears don't win\tAn abstract\thttps://x\t[]\t[]
N2\tnews\tworld\t\t\thttps://y\t[]\t[]
N3\tnews\tworld\tRain, again\t\thttps://z\t[]\t[]
"""
TRAIN = """\
1\tU1\t11/13/2019 6:42:51 PM\tN1 N2\tN3-1 N1-0
2\tU2\t11/14/2019 12:00:00 AM\t\tN1-0 N2-1 N3-0
3\tU1\t11/9/2019 1:02:03 AM\tN1\tN2-0 N3-1
"""
DEV = "4\tU3\t11/15/2019 8:00:00 AM\tN9 N3\tN1-0 N3-1\n"
SUBMISSION = "7\tU3\t11/16/2019 8:00:00 AM\tN3\tN1 N2\n"


def mind_release(folder, train=TRAIN, zipped=False, news=NEWS):
    folder.mkdir(exist_ok=True)
    for part, rows in {"train": train, "dev": DEV, "test": SUBMISSION}.items():
        files, name = {"news.tsv": news, "behaviors.tsv": rows}, f"MINDsmall_{part}"
        if zipped:
            write_archive(folder / f"{name}.zip", files)
        else:
            write_folder(folder / name, files)
    return folder


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("13/13/2019 6:42:51 PM\tN1\tN3-1", "'13/13/2019 6:42:51 PM' is no time"),
        ("11/13/2019 6:42:51 PM\tN1", "4 columns; there should be 5"),
        ("11/13/2019 6:42:51 PM\tN1\tN3-2", "candidates are such as N1-0 N2-1"),
        ("11/13/2019 6:42:51 PM\tN1\t", "candidates are such as"),
    ],
)
def test_malformed_impressions_are_reported_with_file_and_line(tmp_path, line, message):
    train = f"{TRAIN}1\tU1\t{line}\n"
    archive = open_archive(mind_release(tmp_path, train=train) / "MINDsmall_train")
    with pytest.raises(UsageError, match=f"behaviors.tsv:4: {message}"):
        list(mind.impressions(archive))


def test_impressions_of_one_day_leave_none_to_train_on(tmp_path, capsys):
    source = mind_release(tmp_path / "source", train=TRAIN.splitlines(keepends=True)[0])
    options = ["mind", "--source", str(source), "--dest", str(tmp_path / "mind"), "--jobs", "1"]
    assert prepare("recommendation", options) == 1
    assert "the last of two or more days of train is for validation" in capsys.readouterr().err


@pytest.mark.parametrize("zipped", [False, True])
def test_mind_is_prepared(tmp_path, fairseq_here, capsys, zipped):
    """Check that the last day is for validation, and that unknown news are left out."""
    source = mind_release(tmp_path / "source", zipped=zipped)
    dest = tmp_path / "mind"
    options = ["mind", "--source", str(source), "--dest", str(dest)]
    assert prepare("recommendation", [*options, "--max-unknown", "0.1"]) == 1
    assert "N9 is not in news.tsv, as 1 of 4" in capsys.readouterr().err
    assert prepare("recommendation", [*options, "--max-unknown", "0.5"]) == 0
    expected = {"titles.words": "the bears do n't win\n\nrain , again\n"}
    expected |= {"train.impressions": "1\n3\n", "train.history": "N1 N2\nN1\n"}
    expected |= {"valid.candidates": "N1 N2 N3\n", "valid.labels": "0 1 0\n"}
    expected |= {"test.history": "N3\n", "submission.candidates": "N1 N2\n"}
    assert {name: (dest / "text" / name).read_text() for name in expected} == expected
    assert (dest / "news.txt").read_text() == "N1 0\nN2 0\nN3 0\n"
    output = capsys.readouterr()
    assert "1 of 3 news have no words in their title" in output.err
    assert "left out 1 news that news.tsv lacks" in output.err
    assert "do not suit words" not in output.err
    for column in ("history", "candidates", "labels"):
        assert (dest / column / "submission.idx").is_file()


def test_titles_keep_combining_marks(tmp_path, fairseq_here, capsys):
    """Check that scripts without spaces get a warning, others with combining marks none."""
    for title, share in {
        "the\u0323 mu\u031b\u0301a": None,
        "the \u0e17\u0e35\u0e48": "5.3%",
    }.items():
        news = NEWS.replace("Rain, again", title)
        source = mind_release(tmp_path / "source", news=news)
        options = ["--source", str(source), "--dest", str(tmp_path / "mind"), "--force"]
        assert prepare("recommendation", ["mind", *options, "--max-unknown", "0.5"]) == 0
        titles = (tmp_path / "mind/text/titles.words").read_text()
        assert titles.splitlines()[-1] == title
        assert (f"{share} of the letters of titles" in capsys.readouterr().err) == bool(share)


def test_titles_by_the_rule_of_an_older_preparation_are_written_again(
    tmp_path, fairseq_here, capsys
):
    options = ["--source", str(mind_release(tmp_path / "source")), "--dest", str(tmp_path / "mind")]
    record = tmp_path / "mind/.stages.json"
    for rule, is_done in {"moses-marks": True, "moses": False}.items():
        assert prepare("recommendation", ["mind", *options, "--max-unknown", "0.5"]) == 0
        stages = json.loads(record.read_text())
        stages["text"]["settings"].pop("word_rule", None)
        stages["manifest"]["settings"]["word_rule"] = rule
        record.write_text(json.dumps(stages))
        capsys.readouterr()
        assert prepare("recommendation", ["mind", *options, "--max-unknown", "0.5"]) == 0
        assert ("text: done already" in capsys.readouterr().err) == is_done
