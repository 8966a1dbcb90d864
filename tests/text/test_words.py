"""Tokenization rules, sentence splitting, and dictionaries of words."""

from collections import Counter

import pytest
from fairseq.data import Dictionary

from fairseq_posattn.text.moses import MOSES_RATIO, RATIO, Tokenizer, is_clean
from fairseq_posattn.text.vocabulary import choose_words, write_dictionary
from fairseq_posattn.text.words import PUBLISHED, RULES, plain_text, split_sentences


@pytest.mark.parametrize(
    ("rule", "text", "words"),
    [
        ("treebank", "It 's -LRB- really -RRB- good\\/bad 3\\*", "It 's ( really ) good/bad 3*"),
        ("treebank", "``  Yes ,  '' n't", "`` Yes , '' n't"),
        ("treebank", "8\xa01/2 shan 't", "8 1/2 sha n't"),
        ("treebank-split", "a well-known 50/50 `` dog 's -LRB- 9 \N{DEGREE SIGN} -RRB-",
         "a well - known 50 / 50 `` dog ' s ( 9 \N{DEGREE SIGN} )"),
        ("spaced", "it does n 't work , i 'm sorry", "it does n't work , i 'm sorry"),
        ("spaced", "we're off ; o'clock 'alabama'", "we 're off ; o'clock 'alabama'"),
        ("moses", "I don't think it's \"good\" (really).",
         "I do n't think it 's \" good \" ( really ) ."),
        ("documents", "It works. I can't complain!\n\n...\nBuy it",
         "It works . <sep> I ca n't complain ! ... <sep> Buy it"),
        ("moses", "\u0e17\u0e35\u0e48\u0e19", "\u0e17\u0e35 \u0e48 \u0e19"),
        ("moses-marks", "\u0e17\u0e35\u0e48\u0e19 (u\u0308ber) \u06cc\u200c\u062e",
         "\u0e17\u0e35\u0e48\u0e19 ( u\u0308ber ) \u06cc\u200c\u062e"),
        ("moses-marks", "good\u2764\ufe0f isn't \u0301x", "good \u2764 \ufe0f is n't \u0301 x"),
        ("documents-marks", "o\u0323. Ja!", "o\u0323 . <sep> Ja !"),
        ("documents-marks", "\u0915\u0964 \u0916", "\u0915 \u0964 \u0916"),
        ("documents-any-script", "\u0915\u0964 \u0916", "\u0915 \u0964 <sep> \u0916"),
    ],
)  # fmt: skip
def test_rules_of_published_text(rule, text, words):
    assert PUBLISHED[rule](text) == words


@pytest.mark.parametrize(
    ("published", "meant"),
    [
        (r"one\ntwo", "one two"),
        ("a second\\team", "a second team"),
        (r"she said \"hi\"", 'she said  "hi "'),
        ("it #39;s 5 #36; at AT&amp;T", "it 's 5 $ at AT&T"),
        ("&lt;b&gt;Bold&lt;/b&gt; <br />text", " Bold   text"),
        ("a < b and number #12 and C#39", "a < b and number #12 and C#39"),
    ],
)
def test_escapes_references_and_markup_are_undone(published, meant):
    assert plain_text(published) == meant


PARTED = ["A witty , seductive movie .", "It does n't have -LRB- any -RRB- of it"]
PARTED += ["K 19 stays afloat as decent drama/action flick", ""]


@pytest.mark.parametrize("name", ["treebank", "spaced"])
def test_split_text_is_read_as_published_and_plain_text_tokenized(name):
    assert [RULES[name](text) for text in PARTED] == [PUBLISHED[name](text) for text in PARTED]
    assert RULES[name]("A witty, seductive movie.") == "A witty , seductive movie ."
    assert RULES[name]("It's not what I'd call good!") == "It 's not what I 'd call good !"
    split = RULES["treebank-split"]("A well-known dog's here.")  # tokenized first
    assert split == "A well - known dog ' s here ."


@pytest.mark.parametrize("name", RULES)
def test_every_rule_leaves_split_words_alone(name):
    assert RULES[name]("a good film , and short .") == "a good film , and short ."


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Mr. Smith, e.g. in the U.S. army, paid 3.5 to J. Doe.", [...]),
        ("It is good... but dear.", [...]),
        ("It works. it lasts! Why? Done", ["It works.", "it lasts!", "Why?", "Done"]),
        ("It is good... But dear.", ["It is good...", "But dear."]),
        ('He said "no!" and left. "Yes." Then', ['He said "no!" and left.', '"Yes."', "Then"]),
        ("Three weeks (yes!) for that. (No.) ", ["Three weeks (yes!) for that.", "(No.)"]),
        ("cons\n..........\nheavy", ["cons ..........", "heavy"]),
        (" \n ", []),
    ],
)
def test_text_is_split_into_sentences(text, sentences):
    assert split_sentences(text) == ([text] if sentences == [...] else sentences)


@pytest.mark.parametrize(
    "sentences",
    [
        ["А. С. Пушкин писал стихи.", "Это он."],
        ["\u1260 \u12d3. \u121d. \u12a0.\u12a0. \u1290\u1260\u122d\u1362", "\u12a0\u12ce."],
        ["\u062c\u0627\u0621 \u062f. \u0639\u0644\u064a \u06f5.", "\u0646\u0639\u0645."],
        ["Ο Κ. Π. Καβάφης έγραψε.", "Γιατί;", "Πότε\u037e", "Για α; ή β."],
        ["„Ja.“", "»Nein.«", "Dann „Halt!“ sagte er."],
        ["He said “no.”", "She left."],
        [
            "“Dr. Ito left.”",
            "It’s his.",
            "Он читал «А. С. Пушкин».",
            "¿Sr. Paz?",
            "（A. Ito）来了。",
        ],
        ["I can't.", "It is Ann's.", "l'O.N.U. et d'A. Dumas.", "'e.g. T. S. Eliot.'"],
        ["IT IS ANN'S.", "Il l'a.", "l’O.N.U. et d’A. Dumas.", "D'S. Freud.", "Jach'a."],
        ["Il dit «\u00a0Oui.\u00a0»", "Puis il part."],
        ["« Oui… peut-être. »", "Puis « Qui ? » dit-il à A…", "J.-P. Melville ?…", "Rien."],
        ["DELL'O.N.U. A ROMA.", "ІМ’Я.", "›A. Ito.‹", "»Ja.«"],
        ["Հ\u2024 Թումանյան, 2\u20245 դոլար\u0589", "Այո\u0589"],
        ["\uf8d0\uf8d1.", "\uf8d2! ?", "\uf8d3."],
        ["\U0001d800\U0001da88", "\U0001d801\U0001da88"],
        ["12:30 Նա ուսուցիչ է:", "Ինչպե՞ս է:", "«Այո:»", "Ոչ:"],
        ["ა. წერეთელი, ქ. თბილისი, ბ. ჭ. და ა.შ. ახლა.", "კი."],
        ["\u0e1b\u0e35 \u0e1e.\u0e28. 2560 10.00 \u0e19. \u0e1b\u0e35"],
        ["\u0e9b\u0eb5 \u0e84.\u0eaa. 2015 \u0e99. \u0e9b\u0eb5"],
        ["Он, т.е. я.", "Да.", "Это я.", "Нет."],
        ["\u0b95\u0bbf.\u0bae\u0bc1. 300.", "\u0b86\u0bae\u0bcd."],
        ["\u101c\u1030\u104a \u101e\u100a\u103a\u104b", "\u101e\u1030\u104b"],
        ["\ua98f\ua9c8\ua98f\ua9c9", "\ua98f\ua9c9"],
        ["価格は２．５ドル．", "はい．"],
        ["\u1230\u120b\u121d\u1361\u12ed\u120b\u120d\u1361\u1361", "\u1218\u1323\u1361\u1361"],
        ['"\u092e\u0948\u0902\u0964"', '\u0935\u0939 "\u0939\u093e\u0901\u0964"'],
    ],
)
def test_sentences_of_every_script_end_where_they_end(sentences):
    assert split_sentences(" ".join(sentences), any_script=True) == sentences


def test_a_word_needs_occurrences_or_a_vector_and_fairseq_reads_them_in_order(tmp_path):
    train = Counter({"often": 3, "rare": 1, "known": 1})
    others = Counter({"often": 1, "known": 9, "unseen": 2, "unseen-known": 1})
    chosen = choose_words(train, others, {"known", "unseen-known"}, min_count=2)
    assert chosen == {"often": 3, "known": 1, "unseen-known": 0}
    counts = Counter({"b": 1, "</s>": 5, "<unk>": 2, "<mask>": 2, "\xe9": 4, "a": 1})
    write_dictionary(tmp_path / "dict.txt", choose_words(counts, {}, set(), 1))
    dictionary = Dictionary.load(str(tmp_path / "dict.txt"))
    assert dictionary.symbols[dictionary.nspecial :] == ["\xe9", "a", "b"]


ESCAPED = "R &amp; D : &quot; x &lt; y &quot; &#91; 1 &#124; 2 &#93;"


@pytest.mark.parametrize(
    ("language", "options", "line", "expected"),
    [
        ("en", "", "I can't, he'd say.", "I can &apos;t , he &apos;d say ."),
        ("en", "", 'R&D: "x < y" [1|2]', ESCAPED),
        ("de", "", "Das ist z. B. der 3. Oktober.", "Das ist z. B. der 3. Oktober ."),
        ("en", "", "", ""),
        # German puts the full stop behind the quotation mark; English the other way round.
        ("de", "normalize", "„Ich will sterben.“", "&quot; Ich will sterben &quot; ."),
        ("en", "normalize", "“No”, he said—“so”.",
         "&quot; No , &quot; he said - &quot; so . &quot;"),
        ("en", "normalize", "it’s 50 % … « so »", "it &apos;s 50 % ... &quot; so &quot;"),
        ("de", "normalize", "10\u00a0000 Euro", "10,000 Euro"),
        ("de", "normalize", "Ein\u00admal", "Ein mal"),  # a soft hyphen
        ("de", "split_hyphens", "der US-Präsident, 1990-2000 -- well-",
         "der US @-@ Präsident , 1990 @-@ 2000 -- well-"),
    ],
)  # fmt: skip
def test_text_is_tokenized_escaped_and_normalized(language, options, line, expected):
    assert Tokenizer(language, **dict.fromkeys(options.split(), True))(line) == expected


@pytest.mark.parametrize(
    ("longest", "ratio", "clean", "unclean"),
    [
        (10, RATIO, [(4, 6), (1, 1), (10, 10)], [(4, 7), (7, 4), (0, 0), (10, 11)]),
        (80, MOSES_RATIO, [(1, 9), (9, 1), (80, 80)], [(1, 10), (80, 81), (0, 1)]),
        (80, None, [(1, 80)], [(1, 81), (0, 1)]),
    ],
)
def test_clean_pairs_are_selected_by_length_and_ratio(longest, ratio, clean, unclean):
    for pairs, expected in ((clean, True), (unclean, False)):
        for source, target in pairs:
            pair = " ".join(["w"] * source), " ".join(["w"] * target)
            assert is_clean(pair, longest, ratio) is expected, (source, target)
    assert is_clean(("a" * 1000, "b"), longest, ratio)
    assert not is_clean(("a" * 1001, "b"), longest, ratio)
