"""Words of a corpus and dictionaries."""

from collections import Counter

from fairseq.data import Dictionary

from fairseq_posattn.text.vocabulary import choose_words, count_words, write_dictionary


def test_words_are_counted_over_files(tmp_path):
    (tmp_path / "a").write_text("the cat\nthe <sep> dog\n")
    (tmp_path / "b").write_text("the end\n")
    assert count_words([tmp_path / "a", tmp_path / "b"]) == Counter(
        {"the": 3, "cat": 1, "<sep>": 1, "dog": 1, "end": 1}
    )


def test_a_word_needs_occurrences_or_a_vector():
    train = Counter({"often": 3, "rare": 1, "known": 1})
    others = Counter({"often": 1, "known": 9, "unseen": 2, "unseen-known": 1})
    assert choose_words(train, others, {"known", "unseen-known"}, min_count=2) == {
        "often": 3,
        "known": 1,
        "unseen-known": 0,
    }


def test_fairseq_reads_the_dictionary_in_its_order(tmp_path):
    counts = Counter({"b": 1, "</s>": 5, "<unk>": 2, "\xe9": 4, "a": 1})
    counts = choose_words(counts, {}, set(), 1)
    write_dictionary(tmp_path / "dict.txt", counts)
    dictionary = Dictionary.load(str(tmp_path / "dict.txt"))
    assert dictionary.symbols[dictionary.nspecial :] == ["\xe9", "a", "b"]
