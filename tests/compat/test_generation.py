"""Search, and unknown words in translations."""

import pytest
import torch
from fairseq import utils
from fairseq.data import Dictionary, data_utils
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.search import DiverseBeamSearch

EOS, PAD, VOCABULARY = 2, 1, 9


@pytest.fixture
def forbidden():
    """Return ``forbidden(hypotheses, size)``: tokens that fairseq's module forbids after each."""

    def forbidden(hypotheses, size, longest=12):
        step = len(hypotheses[0])
        tokens = torch.full((len(hypotheses), longest), PAD)
        tokens[:, 0] = EOS
        tokens[:, 1 : step + 1] = torch.tensor(hypotheses).view(len(hypotheses), step)
        lprobs = torch.zeros(len(hypotheses), VOCABULARY)
        block = NGramRepeatBlock(size)
        block.use_extension = False
        result = block(tokens, lprobs, len(hypotheses), 1, step)
        assert torch.isin(result, torch.tensor([0.0, -torch.inf])).all()
        return [set(row.isneginf().nonzero().flatten().tolist()) for row in result]

    return forbidden


def test_repeated_trigrams_are_forbidden(forbidden):
    assert forbidden([[4, 5, 6, 4, 5]], 3) == [{6}]
    assert forbidden([[4, 4, 4, 4, 4]], 3) == [{4}]
    assert forbidden([[4, 5, 6, 5, 4]], 3) == [set()]
    # two trigrams began like this; another hypothesis is another matter
    assert forbidden([[4, 5, 6, 4, 5, 7, 4, 5], [4, 5, 6, 7, 8, 4, 6, 5]], 3) == [{6, 7}, set()]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_forbidden_tokens_equal_a_list_of_all_ngrams(forbidden, size):
    generator = torch.Generator().manual_seed(1)
    for length in range(10):
        hypotheses = torch.randint(4, 6, (6, length), generator=generator).tolist()
        expected = []
        for tokens in hypotheses:
            ngrams = {tuple(tokens[i : i + size]) for i in range(length - size + 1)}
            begun = tuple(tokens[length - size + 1 :])
            repeating = {token for token in range(VOCABULARY) if (*begun, token) in ngrams}
            expected.append(repeating if length >= size else set())
        assert forbidden(hypotheses, size) == expected


def test_fairseq_joins_berts_words():
    by_itself = data_utils.post_process.__wrapped__
    assert by_itself("un ##want ##ed guests", "wordpiece") == "un##want##edguests"


@pytest.mark.parametrize(
    "pieces, words",
    [
        ("un ##want ##ed guests , run ##ning", "unwanted guests , running"),
        ("guests", "guests"),
        ("two words", "two words"),
        ("##ing ##ing now", "inging now"),  # an untrained model writes it
        ("a _ b", "a _ b"),
        ("", ""),
        ("_un want ed _guests", "unwanted guests"),  # fairseq's own
    ],
)
def test_wordpieces_are_joined(pieces, words):
    assert data_utils.post_process(pieces, "wordpiece") == words


def test_unknown_words_are_copied_without_a_file():
    with pytest.raises(FileNotFoundError):
        utils.load_align_dict.__wrapped__("@@ ")
    assert utils.load_align_dict("@@ ") == {}


def test_unknown_words_are_replaced_by_aligned_words():
    arguments = ("<unk> b <unk>", "A B C", [(2, 0), (1, 1), (0, 2)], {"A": "a"}, "<unk>")
    with pytest.raises(TypeError):
        utils.replace_unk.__wrapped__(*arguments)
    assert utils.replace_unk(*arguments) == "C b a"


def test_unknown_words_are_replaced_before_subwords_are_joined():
    dictionary = Dictionary()
    tokens = dictionary.encode_line("a@@ b never").int()
    tokens[2] = dictionary.unk()
    alignment = [(0, 0), (2, 1), (1, 2)]
    given = {"hypo_tokens": tokens, "src_str": "A C B", "alignment": alignment, "align_dict": {}}
    given |= {
        "tgt_dict": dictionary,
        "extra_symbols_to_ignore": set(),
    }  # as fairseq-generate calls it
    found = utils.post_process_prediction(**given, remove_bpe="@@ ")
    assert found[1] == "ab C"
    assert dictionary.string(found[0]) == "ab C"


def test_diverse_beams_work_in_later_batches():
    generator = torch.Generator().manual_seed(1)
    dictionary = Dictionary()
    for word in "abcdef":
        dictionary.add_symbol(word)
    first, second = (
        torch.randn(count, 4, len(dictionary), generator=generator).log_softmax(-1)
        for count in (3, 2)
    )
    scores = torch.zeros(2, 4, 1)

    def search(step, numbers):
        numbers = torch.tensor(numbers)
        beams = DiverseBeamSearch(dictionary, 2, 0.5)
        step(beams, 0, first, None, None, numbers)
        return step(beams, 1, second, scores, None, numbers[[0, 2]])

    expected = search(DiverseBeamSearch.step.__wrapped__, [0, 1, 2])
    with pytest.raises(IndexError):
        search(DiverseBeamSearch.step.__wrapped__, [11, 7, 5])
    found = search(DiverseBeamSearch.step, [11, 7, 5])
    assert all(map(torch.equal, found, expected))
