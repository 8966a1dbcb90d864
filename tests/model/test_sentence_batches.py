import pytest
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.model.sentence_batches import group_by_length, split_documents, strip_eos

PAD, EOS, SEP = 1, 2, 9


@pytest.mark.parametrize(
    "tokens",
    [
        [[4, 5, 6, EOS], [7, EOS, PAD, PAD]],
        [[4, 5, 6, EOS], [PAD, PAD, 7, EOS]],
        [[4, 5, 6, EOS, PAD], [7, EOS, PAD, PAD, PAD]],
        [[4, 5, 6], [7, PAD, PAD]],
    ],
)
def test_words_without_their_end_padded_on_the_right(tokens):
    words = strip_eos(torch.tensor(tokens), PAD, EOS)
    assert words.tolist() == [[4, 5, 6], [7, PAD, PAD]]


def test_only_the_last_end_of_a_row_is_removed():
    tokens = torch.tensor([[4, EOS, EOS, 5, EOS], [EOS, 6, EOS, EOS, PAD]])
    words = strip_eos(tokens, PAD, EOS)
    assert words.tolist() == [[4, EOS, EOS, 5], [EOS, 6, EOS, PAD]]


@pytest.mark.parametrize("empty", [[EOS, PAD, PAD], [PAD, PAD, EOS], [PAD, PAD, PAD]])
def test_a_row_without_words_is_named(empty):
    with pytest.raises(UsageError, match="sentence 2 of a batch of 2 has no tokens") as error:
        strip_eos(torch.tensor([[4, 5, EOS], empty]), PAD, EOS)
    assert "\n" not in str(error.value)


def test_documents_are_split():
    tokens = torch.tensor(
        [[4, 5, SEP, 6, SEP, 7, 8], [3, 3, 3, 3, PAD, PAD, PAD], [SEP, 4, SEP, SEP, 5, 6, SEP]]
    )
    split = split_documents(tokens, PAD, SEP)
    sentences = [[4, 5], [6], [7, 8], [3, 3, 3, 3], [4], [5, 6]]
    assert split.sentences.tolist() == [row + [PAD] * (4 - len(row)) for row in sentences]
    assert split.document.tolist() == [0, 0, 0, 1, 2, 2]
    assert split.number.tolist() == [0, 1, 2, 0, 0, 1]


@pytest.mark.parametrize("separator", [SEP, -1])
def test_documents_are_split_after_words_that_end_a_sentence(separator):
    """The ending token belongs to its sentence; -1 is no token's index."""
    end, question = 7, 8
    tokens = [[4, 5, end, 6, question, end, 3], [3, 3, end, PAD, PAD, PAD, PAD]]
    if separator == SEP:
        tokens[0][3:3], tokens[1][3:4] = [SEP], [SEP, PAD]
    split = split_documents(torch.tensor(tokens), PAD, separator, torch.tensor([end, question]))
    sentences = [[4, 5, end], [6, question], [end], [3], [3, 3, end]]
    assert split.sentences.tolist() == [row + [PAD] * (3 - len(row)) for row in sentences]
    assert split.document.tolist() == [0, 0, 0, 0, 1]
    assert split.number.tolist() == [0, 1, 2, 3, 0]


def test_a_document_without_words_is_refused():
    with pytest.raises(UsageError, match="nothing but sentence separators"):
        split_documents(torch.tensor([[4, 5], [SEP, SEP]]), PAD, SEP)


def test_sentences_are_grouped_by_length():
    lengths = [3, 40, 16, 17, 32, 1]
    tokens = torch.full((len(lengths), 40), PAD)
    for row, length in zip(tokens, lengths, strict=True):
        row[:length] = 7
    groups = group_by_length(tokens, PAD)
    assert [rows.tolist() for rows, _ in groups] == [[0, 2, 5], [3, 4], [1]]
    for rows, group in groups:
        assert group.size(1) == max(lengths[row] for row in rows)
        assert group.tolist() == tokens[rows, : group.size(1)].tolist()
