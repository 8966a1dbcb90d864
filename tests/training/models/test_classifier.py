"""Classifiers: published sizes, padding, gradients, documents and errors."""

import pytest
import torch
from classifier_builder import (
    EOS,
    PAD,
    build,
    dictionary,
    dictionary_of,
    parameters,
    randomise,
    scores,
    sentences,
)

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.model import sentence_batches
from fairseq_posattn.model.encoders.cspan import FUSIONS
from fairseq_posattn.training.presets import ARCHITECTURES

BOTH_WAYS = "--mpsan-masks=past,future"


def size(arch, *flags, **options):
    return parameters(build(arch, *flags, tiny=False, **options))


def millions(count, digits=2):
    return f"{count / 1e6:.{digits}f}m"


# Architecture, flags, parameters, and millions as the paper prints them: MPSAN's tables have five
# classes of sentences, MTSA's, on SNLI, three classes of pairs.
MPSAN_SIZES = [
    ("mpsan", f"{BOTH_WAYS} --mpsan-fusion=gate", 1_445_407, "1.45m"),  # Table 3
    ("mpsan", BOTH_WAYS, 725_107, "0.73m"),
    ("mpsan", "--mpsan-fusion=gate", 4_329_009, "4.33m"),
    ("mpsan", "", 1_087_509, "1.09m"),
    ("mpsan", f"{BOTH_WAYS} --mpsan-multi-dimensional", 1_085_105, "1.09m"),  # Table 4
    ("mpsan", "--mpsan-multi-dimensional", 1_807_505, "1.81m"),
    ("mpsan", "--encoder=none --pooling=mean", 91_805, "0.09m"),  # Table 5
    # The paper prints 0.64m in the next row, without masked attention, which leaves 0.27m.
    ("mpsan", "--mpsan-fusion=sum", 636_009, "0.64m"),
    ("disan", "", 1_804_805, "1.8m"),  # Table 1
    # Table 1 prints 2.2m: no hidden layer and 480 features.
    ("bi_blosan", "--encoder-hidden-dim=480 --head-dim=0", 2_224_805, "2.2m"),
]
MTSA_SIZES = [
    ("bilstm", "", 2_887_203, "2.9m"),
    ("cnn", "--head-dim=300", 1_441_803, "1.4m"),
    ("multi_head", "", 1_984_203, "2.0m"),
    ("disan", "", 2_344_203, "2.3m"),
    ("mtsa", "", 2_885_403, "2.9m"),
    ("bigru", "", 2_526_003, "2.5m"),  # PyTorch's GRU has two biases
    ("hierarchical_cnn", "", 3_424_203, "3.4m"),
    ("bi_blosan", "", 4_147_203, "4.1m"),
    ("bi_blosan", "--encoder-hidden-dim=480", 2_799_603, "2.8m"),  # its own paper
    ("mtsa", "--mtsa-masks=others", None, "2.9m"),  # Table 3
    ("mtsa", "--mtsa-scores=source2token", None, "2.5m"),
    ("mtsa", "--mtsa-scores=token2token", None, "2.5m"),
    ("mtsa", "--mtsa-scores=none", None, "1.8m"),
]


@pytest.mark.parametrize(
    ("arch", "flags", "count", "published", "options"),
    [(*row, {}) for row in MPSAN_SIZES]
    + [(*row, {"classes": 3, "pairs": True}) for row in MTSA_SIZES],
)
def test_numbers_of_parameters_are_published(arch, flags, count, published, options):
    result = size(f"{arch}_classifier", *flags.split(), **options)
    assert count in (result, None)
    assert millions(result, len(published.partition(".")[2]) - 1) == published


def test_parameters_of_cspan():
    """Layer norms, Bi-LSTM, the queries' linear layer, queries, W^f without bias, classes."""
    lstm = upper = 2 * 4 * 150 * (300 + 150 + 2)
    for arch, layers, queries in [("cspan_classifier", 1, 16), ("cspan_big_classifier", 3, 128)]:
        encoder = 2 * 600 + lstm + (layers - 1) * upper
        pooling = 300 * 300 + 300 + queries * 300 + queries * 300 * 300
        assert size(arch, classes=4) == encoder + pooling + 300 * 4 + 4


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("arch", ARCHITECTURES["posattn_classifier"])
def test_padding_on_either_side_changes_nothing(arch):
    model = randomise(build(arch)).eval()
    right = scores(model, sentences(7, 1, 5))
    left = scores(model, sentences(7, 1, 5, left_pad=True))
    alone = scores(model, sentences(7, 1, 5)[2:, :6])
    torch.testing.assert_close(left, right)
    torch.testing.assert_close(alone[0], right[2])


@pytest.mark.parametrize("arch", ARCHITECTURES["posattn_classifier"])
def test_long_sentences_do_not_pad_short_ones(arch, monkeypatch):
    """On a CPU they are encoded apart, with equal scores and gradients."""
    model = randomise(build(arch)).double()
    results, calls = [], []
    model.encoder.words.register_forward_pre_hook(lambda *inputs: calls.append(inputs))
    for least, groups in (1 << 16, 1), (1, 3 if model.encoder.pads_slowly else 1):
        monkeypatch.setattr(sentence_batches, "WORTH_A_CALL", least)
        model.zero_grad()
        calls.clear()
        result = scores(model, sentences(3, 60, 16, 5, 17))
        result.square().sum().backward()
        gradients = [parameter.grad.clone() for parameter in model.parameters()]
        results.append([result, *gradients])
        assert len(calls) == groups or model.encoder.sentences is not None
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("arch", ARCHITECTURES["posattn_classifier"])
def test_every_parameter_is_trained(arch, dtype):
    """A parameter without a gradient stops distributed training."""
    model = randomise(build(arch)).to(dtype)
    scores(model, sentences(9, 7))[:, 1].float().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name
        assert parameter.grad.isfinite().all(), name


def test_probabilities_of_the_classes():
    model = build("mpsan_classifier").half()
    output = torch.tensor([[0.0, 1.0, 2.0, -1.0, 0.5]]).half(), None
    probabilities = model.get_normalized_probs(output, log_probs=False)
    assert probabilities.dtype == torch.float32
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(1))
    logarithms = model.get_normalized_probs(output, log_probs=True)
    torch.testing.assert_close(logarithms.exp(), probabilities)


WITHOUT = "--no-token-positional-embeddings"
BLIND = {"swem_classifier"}  # to the order
ORDERED = [(arch, []) for arch in ARCHITECTURES["posattn_classifier"]]
ORDERED += [("cspan_classifier", [f"--cspan-fusion={fusion}"]) for fusion in FUSIONS]
ORDERED += [("multi_head_classifier", [WITHOUT])]


@pytest.mark.parametrize(("arch", "flags"), ORDERED)
def test_the_order_of_tokens_matters(arch, flags):
    model = randomise(build(arch, *flags)).double().eval()
    tokens = sentences(6)
    order = torch.tensor([3, 0, 5, 1, 4, 2, 6])
    blind = torch.allclose(scores(model, tokens), scores(model, tokens[:, order]))
    assert blind == (arch in BLIND or bool({"--cspan-fusion=none", WITHOUT} & {*flags}))


def test_fasttext_is_the_mean_of_words_and_bigrams():
    model = randomise(build("fasttext_classifier")).eval()
    words, bigrams = model.encoder.embed_tokens.weight, model.encoder.ngrams.vectors.weight
    vectors = [words[5], words[9], words[7]]
    vectors += [bigrams[(a * 116049371 + b) % 64] for a, b in ((5, 9), (9, 7))]
    tokens = torch.tensor([[5, 9, 7, EOS, PAD], [5, 9, 7, 4, EOS]])
    expected = sum(vectors) / 5
    torch.testing.assert_close(model.encoder(tokens)[0], expected)


def test_sentences_longer_than_the_limit_are_refused():
    model = build("mpsan_classifier", "--max-positions=8")
    assert model.max_positions() == 8
    assert scores(model, sentences(7)).isfinite().all()
    with pytest.raises(UsageError, match="9 tokens is longer than --max-positions 8"):
        scores(model, sentences(8))


@pytest.mark.parametrize(
    ("arch", "flags", "complaint"),
    [
        ("mpsan_classifier", "--mpsan-masks=passed", "--mpsan-masks passed: mask 'passed': unk"),
        ("mpsan_classifier", "--encoder-hidden-dim=7", "--encoder mpsan has as many features"),
        ("cspan_classifier", "--encoder-hidden-dim=7", "--encoder cspan has as many features"),
        ("cspan_classifier", "--encoder-embed-dim=7", "7 features: two directions need an even"),
        ("disan_classifier", "--encoder-hidden-dim=7", "dim 7: disan needs an even"),
        ("mtsa_classifier", "--encoder-attention-heads=8", "8: must divide the encoder's 12"),
        ("mtsa_classifier", "--mtsa-masks=past,past,past", "past,past,past: 2 heads cannot be div"),
        ("cnn_classifier", "--cnn-widths=3,four", "--cnn-widths 3,four"),
        ("hierarchical_cnn_classifier", "--cnn-widths=0", "--cnn-widths 0"),
        ("transformer_classifier", "--encoder-sublayers=sann,ffn", "unknown sublayer 'sann'"),
        ("da_transformer_classifier", "--hierarchical --sentence-separator=|", "lacks the"),
        ("bilstm_classifier", "--word-ngrams=2", "--word-ngrams 2: needs --encoder none"),
    ],
)
def test_wrong_flags_are_one_line(arch, flags, complaint):
    with pytest.raises(UsageError) as error:
        build(arch, *flags.split())
    assert complaint in str(error.value) and "\n" not in str(error.value)


def document_tokens(*documents):
    """Return tokens of documents given as lists of lists of word numbers."""
    symbols = dictionary()
    rows = []
    for document in documents:
        text = " <sep> ".join(" ".join(f"word{word}" for word in words) for words in document)
        rows.append(symbols.encode_line(text, add_if_not_exist=False).long())
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


DOCUMENTS = [[[1, 2, 3], [4], [5, 6, 7, 8]], [[9, 10]], [[3, 1], [1, 2]], [[1, 2, 3] * 6, [5]]]


@pytest.mark.parametrize("arch", ["da_transformer_classifier", "mpsan_classifier"])
def test_a_document_equals_its_sentences_encoded_one_by_one(arch):
    model = randomise(build(arch, "--hierarchical")).eval()
    encoder = model.encoder
    expected = []
    for document in DOCUMENTS:
        vectors = []
        for words in document:
            embedded = encoder.embed_tokens(document_tokens([words])[:, :-1])
            unpadded = torch.zeros(1, len(words), dtype=torch.bool)
            vectors.append(encoder.words(embedded, unpadded)[0])
        unpadded = torch.zeros(1, len(document), dtype=torch.bool)
        expected.append(encoder.sentences(torch.stack(vectors)[None], unpadded)[0])
    tokens = document_tokens(*DOCUMENTS)
    torch.testing.assert_close(model.encoder(tokens), torch.stack(expected))


def test_sentence_ends_replace_missing_separators():
    """Ends that the dictionary lacks are ignored; without any, the options are refused."""
    words = dictionary_of(*(f"word{word}" for word in range(16)))
    flags = ["--hierarchical", "--sentence-ends=word7 . word8", "--sentence-separator=missing"]
    ends = randomise(build("da_transformer_classifier", *flags, words=words)).eval()
    separates = randomise(build("da_transformer_classifier", "--hierarchical")).eval()
    weights = ends.state_dict().items()
    weights = {name: value for name, value in weights if "embed_tokens" not in name}
    separates.load_state_dict(weights, strict=False)
    with torch.no_grad():
        separates.encoder.embed_tokens.weight[:20] = ends.encoder.embed_tokens.weight
    plain = torch.tensor([[5, 11, 6, 12, 9, EOS], [9, 12, 11, EOS, PAD, PAD]])
    separated = document_tokens([[1, 7], [2, 8], [5]], [[5, 8], [7]])
    torch.testing.assert_close(scores(ends, plain), scores(separates, separated))
    with pytest.raises(UsageError, match="or give --sentence-separator or --sentence-ends"):
        build("han_classifier", "--sentence-ends=.", "--sentence-separator=missing")
