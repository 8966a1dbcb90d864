"""Every option of the models has an effect.

A line of a table has a flag, and further flags of both models, with and without it.
The flag must change the parameters, by shape or first value, or the output; those in ATTRIBUTES
only attributes of modules. Dropouts are in ``test_dropouts.py``.
"""

import json
import zlib
from functools import partial
from types import NoneType

import classifier_builder
import pytest
import torch

from fairseq_posattn.model.classifier import Marks
from fairseq_posattn.recipes.tiny import write_language_model
from fairseq_posattn.training.models import (
    PosAttnClassifierConfig,
    PosAttnTransformerConfig,
)

CONFIG = '{"n_embd":8,"n_head":2,"n_layer":1}'
ATTRIBUTES = {
    *("attention_impl", "encoder_layerdrop", "decoder_layerdrop", "max_positions"),
    *("max_source_positions", "max_target_positions", "adaptive_softmax_dropout"),
    *("checkpoint_activations", "offload_activations", "dropout_places", "block_length"),
}
DROPOUTS = {"dropout", "attention_dropout", "activation_dropout", "heads_dropout"}

MECHANISMS = """
--attention-impl=reference
--heads-activation=relu
--dman-max-distance=3 | --encoder-sublayers=dman,ffn
--sman-radius=2 | --encoder-sublayers=sman,ffn
--da-mapping=linear | --encoder-sublayers=da,ffn
--da-adjustment=late_add | --encoder-sublayers=da,ffn
--da-clip-threshold=0.01 | --encoder-sublayers=da,ffn --da-mapping=clip
--mtsa-masks=none | --encoder-sublayers=mtsa,ffn
--mtsa-include-self | --encoder-sublayers=mtsa,ffn
--mtsa-token-scale=identity | --encoder-sublayers=mtsa,ffn
--mtsa-source-scale=log_sigmoid | --encoder-sublayers=mtsa,ffn
--mtsa-source=value | --encoder-sublayers=mtsa,ffn
--mtsa-source-layers=1 | MTSA
--mtsa-source-bias=5 | MTSA
--mtsa-divide-source | --encoder-sublayers=mtsa,ffn
--mtsa-fusion-gate | --encoder-sublayers=mtsa,ffn
--rpr-max-distance=5 | RPR
--rpr-per-head | RPR
--rope-base=100 | --encoder-sublayers=rope,ffn
--t5-buckets=16 | --encoder-sublayers=t5,ffn
--t5-max-distance=4 | --encoder-sublayers=t5,ffn --t5-buckets=8
--attention-masks=past,past | --encoder-sublayers=masked,ffn
""".replace("| MTSA", "| --encoder-sublayers=mtsa,ffn").replace(
    "| RPR", "| --encoder-sublayers=rpr,ffn"
)

# For encoder and decoder each.
SIDE = """
--SIDE-embed-path={vectors}
--SIDE-embed-dim=24
--SIDE-ffn-embed-dim=20
--SIDE-layers=3
--SIDE-attention-heads=4
--SIDE-normalize-before
--SIDE-learned-pos
--SIDE-layerdrop=0.5
--max-LIMIT-positions=30
"""
TRANSLATION = (
    SIDE.replace("SIDE", "encoder").replace("LIMIT", "source")
    + SIDE.replace("SIDE", "decoder").replace("LIMIT", "target")
    + """
--encoder-sublayers=san,san,ffn
--decoder-sublayers=san,san,cross,ffn
--cope-positions=3 | --decoder-sublayers=cope,cross,ffn
--activation-fn=tanh
--start=mans
--decoder-output-dim=8
--share-decoder-input-output-embed
--share-all-embeddings
--merge-src-tgt-embed
--no-token-positional-embeddings
--adaptive-softmax-cutoff=8,14
--adaptive-softmax-dropout=0.5 | CUTOFF
--adaptive-softmax-factor=2 | CUTOFF
--layernorm-embedding
--no-scale-embedding
--no-decoder-final-norm | --decoder-normalize-before
--checkpoint-activations
--offload-activations | --checkpoint-activations
""".replace("CUTOFF", "--adaptive-softmax-cutoff=8,14")
)
CLASSIFICATION = """
--encoder=bilstm
--pooling=max
--pooling-queries=7 | --pooling=multi_query
--pooling-window=2 | --pooling=window_max
--word-ngrams=3 | NGRAMS
--ngram-buckets=8 | NGRAMS
--sentence-ends=word3 | --hierarchical
--language-model={language_model}
--language-model-config={config}
--head-dim=9
--head-highway-layers=2
--no-class-bias
--pair-features=distance | --pair-features=difference
--hierarchical
--sentence-separator=word3 | --hierarchical
--encoder-embed-path={vectors}
--encoder-embed-dim=20
--freeze-embeddings
--encoder-hidden-dim=24
--encoder-sublayers=san,san,ffn
--encoder-layers=3
--encoder-attention-heads=4
--encoder-ffn-embed-dim=20
--encoder-normalize-before
--no-token-positional-embeddings
--embedding-scale=sqrt
--attention-positions | --encoder=attention
--activation-fn=tanh
--no-attention-bias | --encoder=attention
--dropout-places=maps | --dropout=0.5 MTSA
--map-activation=relu | --head-highway-layers=1 MTSA
--mpsan-masks=past,past | --encoder=mpsan
--mpsan-fusion=gate | --encoder=mpsan
--mpsan-multi-dimensional | --encoder=mpsan
--mtsa-scores=source2token | --encoder=mtsa
--cspan-fusion=parallel | --encoder=cspan
--cspan-no-residual | --encoder=cspan
--lstm-layers=2 | --encoder=bilstm
--cnn-widths=2,5 | --encoder=cnn --encoder-hidden-dim=12
--block-length=3 | --encoder=bi_blosan
--max-positions=30
""".replace("MTSA", "--encoder=mtsa --pooling=source2token").replace(
    "NGRAMS", "--encoder=none --word-ngrams=2 --ngram-buckets=9"
)


def rows(table):
    """Return the flag and the further flags of each line by the option's name."""
    lines = [line.partition(" | ")[::2] for line in table.split("\n") if line]
    return {flag.partition("=")[0][2:].replace("-", "_"): (flag, base) for flag, base in lines}


def parameters(model):
    """Return shape, first values and whether it is trained of each parameter."""
    named = model.named_parameters(remove_duplicate=False)
    return {name: (p.shape, p.requires_grad, p.double().sum().item()) for name, p in named}


def attributes(model):
    """Return plain attributes of modules, and the last argument of a wrapped forward."""
    result = {"": model.max_positions()}
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            value = value.args[-1] if isinstance(value, partial) else value
            if isinstance(value, (int, float, str, tuple, NoneType, Marks)):
                result[name, attribute] = value
    return result


@pytest.fixture
def vectors(tmp_path):
    """``vectors(width)``: a file with a vector of the first word."""

    def write(width):
        path = tmp_path / f"vectors{width}"
        path.write_text(f"1 {width}\nword0" + " 0.5" * width + "\n")
        return path

    return write


@pytest.fixture
def translator(build_model, vectors):
    def build(flags):
        lengths = ["--max-source-positions=64", "--max-target-positions=64"]
        flags = flags.format(vectors=vectors(16)).split()
        return build_model("posattn_transformer", *lengths, *flags)

    return build


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    """Return the folder of a language model whose subwords are the dictionary's words."""
    folder = tmp_path_factory.mktemp("gpt")
    write_language_model(folder, "ab cdefgh")  # 18 subwords
    subwords = ["<unk>", *(f"word{number}" for number in range(16)), "<sep>"]
    (folder / "vocab.json").write_text(json.dumps({word: row for row, word in enumerate(subwords)}))
    return folder


@pytest.fixture
def classifier(vectors, language_model):
    def build(flags):
        files = {"vectors": vectors(16), "language_model": language_model, "config": CONFIG}
        widths = ["--encoder-embed-dim=16", "--encoder-ffn-embed-dim=16", "--max-positions=64"]
        pairs = "--pair-features" in flags
        flags = flags.format(**files).split()
        return classifier_builder.build("posattn_classifier", *widths, *flags, pairs=pairs)

    return build


def filled(model):
    """Fill the parameters with values that depend only on their names and shapes."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            parameter.copy_(torch.rand(parameter.shape, generator=generator) - 0.3)
    return model.eval()


def translate(model):
    tokens = torch.tensor([[5, 9, 7, 11, 6, 8, 2], [12, 4, 9, 2, 1, 1, 1]])
    return model(tokens, tokens.ne(1).sum(1), tokens.roll(1, 1))[0]


def classify(model):
    return classifier_builder.scores(model, classifier_builder.sentences(8, 5))


def check(option, table, build, compute):
    flag, base = rows(table)[option]
    models = []
    for flags in (base, f"{base} {flag}"):
        torch.manual_seed(0)
        models.append(build(flags))
    first, second = map(attributes if option in ATTRIBUTES else parameters, models)
    if first == second:
        first, second = (compute(filled(model)) for model in models)
        assert first.shape == second.shape and not torch.allclose(first, second)


@pytest.mark.parametrize("option", rows(TRANSLATION + MECHANISMS))
def test_options_of_the_translation_model_have_effect(option, translator):
    check(option, TRANSLATION + MECHANISMS, translator, translate)


@pytest.mark.parametrize("option", rows(CLASSIFICATION + MECHANISMS))
def test_options_of_the_classifier_have_effect(option, classifier):
    check(option, CLASSIFICATION + MECHANISMS, classifier, classify)


def test_every_option_is_tested():
    elsewhere = {"min_params_to_wrap", "cuda_graphs", "_name"}
    translation = {*PosAttnTransformerConfig.__dataclass_fields__} - elsewhere
    assert translation == {*rows(TRANSLATION + MECHANISMS), *DROPOUTS}
    classification = {*PosAttnClassifierConfig.__dataclass_fields__} - {"_name", "cope_positions"}
    assert classification == {*rows(CLASSIFICATION + MECHANISMS), *DROPOUTS}


def test_the_table_of_distances_fits_the_longest_sentence(translator, classifier):
    model = translator("--encoder-sublayers=dman,ffn --decoder-sublayers=dman,cross,ffn")
    for stack in (model.encoder, model.decoder, classifier("--encoder-sublayers=dman,ffn").encoder):
        assert stack.layers[0].sublayers[0].sublayer.mechanism.past_bias.shape == (63,)
