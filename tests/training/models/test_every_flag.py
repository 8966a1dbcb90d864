"""Every option of the models has an effect.

A line of a table has a flag; a property of the model ``m``; its values without and with the flag;
further flags of both models. Without a property, the flag must change the output. The
dropouts are in ``test_dropouts.py``.
"""

import json
import zlib

import classifier_builder
import pytest
import torch
from fairseq.modules import LearnedPositionalEmbedding

from fairseq_posattn.model.classifier import build_head
from fairseq_posattn.recipes.tiny import write_language_model
from fairseq_posattn.training.models import (
    PosAttnClassifierConfig,
    PosAttnTransformerConfig,
    seq2seq,
)

CONFIG = '{"n_embd":8,"n_head":2,"n_layer":1}'
DROPOUTS = {"dropout", "attention_dropout", "activation_dropout", "heads_dropout"}

MECHANISMS = """
--attention-impl=reference | implementations(m) | {'auto'} | {'reference'}
--heads-activation=relu
--dman-max-distance=3 | len(mechanism(m).past_bias) | 63 | 3 | --encoder-sublayers=dman,ffn
--sman-radius=2 | mechanism(m).radius | 4 | 2 | --encoder-sublayers=sman,ffn
--da-mapping=linear | | | | --encoder-sublayers=da,ffn
--da-adjustment=late_add | | | | --encoder-sublayers=da,ffn
--da-clip-threshold=0.01 | | | | --encoder-sublayers=da,ffn --da-mapping=clip
--mtsa-masks=none | | | | --encoder-sublayers=mtsa,ffn
--mtsa-include-self | | | | --encoder-sublayers=mtsa,ffn
--mtsa-token-scale=identity | | | | --encoder-sublayers=mtsa,ffn
--mtsa-source-scale=log_sigmoid | | | | --encoder-sublayers=mtsa,ffn
--mtsa-source=value | | | | --encoder-sublayers=mtsa,ffn
--mtsa-source-layers=1 | mechanism(m).source_hidden is None | False | True | MTSA
--mtsa-source-bias=5 | mechanism(m).source_output.bias.unique().tolist() | [0.0] | [5.0] | MTSA
--mtsa-divide-source | | | | --encoder-sublayers=mtsa,ffn
--mtsa-fusion-gate | | | | --encoder-sublayers=mtsa,ffn
--rpr-max-distance=5 | shape(mechanism(m).key_embedding) | (1, 33, 8) | (1, 11, 8) | RPR
--rpr-per-head | shape(mechanism(m).value_embedding) | (1, 33, 8) | (2, 33, 8) | RPR
--attention-masks=past,past | | | | --encoder-sublayers=masked,ffn
""".replace("| MTSA", "| --encoder-sublayers=mtsa,ffn").replace(
    "| RPR", "| --encoder-sublayers=rpr,ffn"
)

# For encoder and decoder each.
SIDE = """
--SIDE-embed-path={vectors} | starts_as_file(m.SIDE) | False | True
--SIDE-embed-dim=24 | attention(m.SIDE).out_proj.in_features | 16 | 24
--SIDE-ffn-embed-dim=20 | attention(m.SIDE, -1).fc1.out_features | 16 | 20
--SIDE-layers=3 | len(m.SIDE.layers) | 2 | 3
--SIDE-attention-heads=4 | attention(m.SIDE).num_heads | 2 | 4
--SIDE-normalize-before | norms(m.SIDE) | ({False}, False) | ({True}, True)
--SIDE-learned-pos | is_learned(m.SIDE.embed_positions) | False | True
--SIDE-layerdrop=0.5 | getattr(m.SIDE.layers, "p", 0) | 0 | 0.5
--max-LIMIT-positions=30 | m.SIDE.max_positions() | 64 | 30
"""
TRANSLATION = (
    SIDE.replace("SIDE", "encoder").replace("LIMIT", "source")
    + SIDE.replace("SIDE", "decoder").replace("LIMIT", "target")
    + """
--encoder-sublayers=san,san,ffn | len(m.encoder.layers[0].sublayers) | 2 | 3
--decoder-sublayers=san,san,cross,ffn | len(m.decoder.layers[1].sublayers) | 3 | 4
--activation-fn=tanh
--start=mans | attention(m.decoder).qkv_proj.bias.any().item() | True | False
--decoder-output-dim=8 | m.decoder.output_projection.in_features | 16 | 8
--share-decoder-input-output-embed | shared(m) | (False, False) | (False, True)
--share-all-embeddings | shared(m) | (False, False) | (True, True)
--merge-src-tgt-embed | shared(m) | (False, False) | (True, True)
--no-token-positional-embeddings | nones(m, "embed_positions") | [False, False] | [True, True]
--adaptive-softmax-cutoff=8,14 | m.decoder.adaptive_softmax is None | True | False
--adaptive-softmax-dropout=0.5 | m.decoder.adaptive_softmax.dropout_module.p | 0 | 0.5 | CUTOFF
--adaptive-softmax-factor=2 | m.decoder.adaptive_softmax.tail[0][0].out_features | 4 | 8 | CUTOFF
--layernorm-embedding | nones(m, "layernorm_embedding") | [True, True] | [False, False]
--no-scale-embedding | (m.encoder.embed_scale, m.decoder.embed_scale) | (4, 4) | (1, 1)
--no-decoder-final-norm | norms(m.decoder)[1] | True | False | --decoder-normalize-before
--checkpoint-activations | are_checkpointed(m) | [False] * 2 | [True] * 2
--offload-activations | offloads(m) | False | True | --checkpoint-activations
""".replace("CUTOFF", "--adaptive-softmax-cutoff=8,14")
)
CLASSIFICATION = """
--encoder=bilstm | name(words(m).encoder) | 'TransformerEncoder' | 'BiLSTM'
--pooling=max | name(words(m).pooling) | 'MultiQueryPooling' | 'MaxPooling'
--pooling-queries=7 | len(words(m).pooling.queries) | 3 | 7 | --pooling=multi_query
--pooling-window=2 | words(m).pooling.window | 5 | 2 | --pooling=window_max
--word-ngrams=3 | m.encoder.ngrams.longest | 2 | 3 | NGRAMS
--ngram-buckets=8 | m.encoder.ngrams.vectors.num_embeddings | 9 | 8 | NGRAMS
--sentence-ends=word3 | m.encoder.marks.ends | [] | [7] | --hierarchical
--language-model={language_model} | m.encoder.language_model is None | True | False
--language-model-config={config} | m.encoder.embed_tokens.embedding_dim | 16 | 8
--head-dim=9 | head(m)[1].out_features | 6 | 9
--head-highway-layers=2 | len(head(m)) | 5 | 9
--no-class-bias | head(m)[-1].bias is None | False | True
--pair-features=distance | pair_width(m) | 4 | 2
--hierarchical | m.encoder.sentences is None | True | False
--sentence-separator=word3 | m.encoder.marks.separator | 20 | 7 | --hierarchical
--encoder-embed-path={vectors} | starts_as_file(m.encoder) | False | True
--encoder-embed-dim=20 | m.encoder.embed_tokens.embedding_dim | 16 | 20
--freeze-embeddings | m.encoder.embed_tokens.weight.requires_grad | True | False
--encoder-hidden-dim=24 | m.encoder.output_dim | 16 | 24
--encoder-sublayers=san,san,ffn | len(m.encoder.layers[0].sublayers) | 2 | 3
--encoder-layers=3 | len(m.encoder.layers) | 1 | 3
--encoder-attention-heads=4 | attention(m.encoder).num_heads | 2 | 4
--encoder-ffn-embed-dim=20 | attention(m.encoder, -1).fc1.out_features | 16 | 20
--encoder-normalize-before | norms(m.encoder)[0] | {False} | {True}
--no-token-positional-embeddings
--embedding-scale=sqrt | words(m).encoder.scale | 1 | 4
--attention-positions | words(m).encoder.positions | False | True | --encoder=attention
--activation-fn=tanh
--no-attention-bias | words(m).encoder.qkv_proj.bias is None | False | True | --encoder=attention
--dropout-places=maps | drops(m) | (0.5, 0.0) | (0.0, 0.5) | --dropout=0.5 MTSA
--map-activation=relu | activations(m) | ["ELU"] * 5 | ["ReLU"] * 5 | --head-highway-layers=1 MTSA
--mpsan-masks=past,past | | | | --encoder=mpsan
--mpsan-fusion=gate | fusion(m) | 'PositionFusion' | 'GateFusion' | --encoder=mpsan
--mpsan-multi-dimensional | words(m).encoder.attention.scores | 1 | 16 | --encoder=mpsan
--mtsa-scores=source2token | words(m).encoder.query_map is None | False | True | --encoder=mtsa
--cspan-fusion=parallel | | | | --encoder=cspan
--cspan-no-residual | | | | --encoder=cspan
--lstm-layers=2 | words(m).encoder.lstm.num_layers | 1 | 2 | --encoder=bilstm
--cnn-widths=2,5 | kernels(m) | [3, 4, 5] | [2, 5] | --encoder=cnn --encoder-hidden-dim=12
--block-length=3 | words(m).encoder.directions[1].block_length | 0 | 3 | --encoder=bi_blosan
--max-positions=30 | m.max_positions() | 64 | 30
""".replace("MTSA", "--encoder=mtsa --pooling=source2token").replace(
    "NGRAMS", "--encoder=none --word-ngrams=2 --ngram-buckets=9"
)


def rows(table):
    """Return the columns of each line by the option's name."""
    columns = [list(map(str.strip, line.split("|"))) for line in table.split("\n") if line]
    lines = [[*line, "", "", "", ""][:5] for line in columns]
    return {line[0].partition("=")[0][2:].replace("-", "_"): line for line in lines}


def attention(coder, number=0):
    return coder.layers[0].sublayers[number].sublayer


def norms(coder):
    before = {residual.normalize_before for residual in coder.layers[0].sublayers}
    return before, getattr(coder, "layer_norm", None) is not None


def shared(model):
    encoder, decoder = model.encoder.embed_tokens, model.decoder.embed_tokens
    return encoder is decoder, model.decoder.output_projection.weight is decoder.weight


def activations(model):
    encoder = words(model).encoder
    parts = [encoder, encoder.attention.source, words(model).pooling, head(model)[4]]
    return [*(name(part.activation) for part in parts), name(head(model)[2])]


def pair_width(model):
    """Return the ratio of a pair head's input features to those of a sentence."""
    pairs = build_head(model.cfg, model.encoder, classes=2, pairs=True)
    return pairs.layers[1].in_features // model.encoder.output_dim


# Further names of the tables.
def words(model):
    return model.encoder.words


def name(module):
    return type(module).__name__


def head(model):
    return model.classification_heads[classifier_builder.HEAD].layers


NAMES = {
    "mechanism": lambda m: attention(m.encoder).mechanism,
    "shape": lambda parameter: tuple(parameter.shape),
    "implementations": lambda m: {one.impl for one in m.modules() if hasattr(one, "impl")},
    "nones": lambda m, what: [getattr(one, what) is None for one in (m.encoder, m.decoder)],
    "are_checkpointed": lambda m: ["forward" in vars(x.layers[0]) for x in (m.encoder, m.decoder)],
    "offloads": lambda m: m.encoder.layers[0].forward.args[-1],
    "starts_as_file": lambda coder: coder.embed_tokens.weight[4].eq(0.5).all().item(),
    "is_learned": lambda positions: isinstance(positions, LearnedPositionalEmbedding),
    "fusion": lambda m: name(words(m).encoder.fusion),
    "drops": lambda m: (words(m).dropout.p, words(m).pooling.dropout),
    "kernels": lambda m: [one.kernel_size[0] for one in words(m).encoder.convolutions],
}


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
    (folder / "vocab.json").write_text(json.dumps({one: row for row, one in enumerate(subwords)}))
    return folder


@pytest.fixture
def classifier(vectors, language_model):
    def build(flags):
        files = {"vectors": vectors(16), "language_model": language_model, "config": CONFIG}
        widths = ["--encoder-embed-dim=16", "--encoder-ffn-embed-dim=16", "--max-positions=64"]
        flags = flags.format(**files).split()
        return classifier_builder.build("posattn_classifier", *widths, *flags)

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


def check(line, build, compute):
    flag, named, before, after, base = line
    without, with_flag = build(base), build(f"{base} {flag}")
    if not named:
        first, second = (compute(filled(model)) for model in (without, with_flag))
        assert first.shape == second.shape and not torch.allclose(first, second)
        return
    for model, expected in ((without, before), (with_flag, after)):
        assert eval(named, globals() | NAMES, {"m": model}) == eval(expected)


@pytest.mark.parametrize("option", rows(TRANSLATION + MECHANISMS))
def test_options_of_the_translation_model_have_effect(option, translator):
    check(rows(TRANSLATION + MECHANISMS)[option], translator, translate)


@pytest.mark.parametrize("option", rows(CLASSIFICATION + MECHANISMS))
def test_options_of_the_classifier_have_effect(option, classifier):
    check(rows(CLASSIFICATION + MECHANISMS)[option], classifier, classify)


def test_every_option_is_tested():
    translation = {*PosAttnTransformerConfig.__dataclass_fields__} - {"min_params_to_wrap", "_name"}
    assert translation == {*rows(TRANSLATION + MECHANISMS), *DROPOUTS}
    classification = {*PosAttnClassifierConfig.__dataclass_fields__} - {"_name"}
    assert classification == {*rows(CLASSIFICATION + MECHANISMS), *DROPOUTS}


def test_layers_are_wrapped_for_sharding_from_a_minimal_size(translator, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        seq2seq, "fsdp_wrap", lambda layer, min_num_params: sizes.append(min_num_params) or layer
    )
    translator("--min-params-to-wrap=77")
    assert sizes == [77] * 4


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_the_table_of_distances_fits_the_longest_sentence(translator, side):
    flags = "--encoder-sublayers=dman,ffn --decoder-sublayers=dman,cross,ffn"
    assert attention(getattr(translator(flags), side)).mechanism.past_bias.shape == (63,)
