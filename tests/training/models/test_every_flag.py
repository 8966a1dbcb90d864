"""Every option of the models changes what it names.

A table has a flag for each option. Beside it stands a property of the model, with its values
without the flag and with it; where there is none, the flag must change what the model computes. The
dropouts are in ``test_dropouts.py``.
"""

import json
import zlib
from dataclasses import dataclass

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

COMPUTES = object()
DROPOUTS = {"dropout", "attention_dropout", "activation_dropout", "heads_dropout"}


@dataclass(frozen=True)
class Case:
    """A flag, what it names of a model, that before and after, and flags of both models."""

    flag: str
    named: object = COMPUTES
    before: object = None
    after: object = None
    base: str = ""


def pair_width(model):
    """How many times the features of a sentence a head of pairs sees."""
    head = build_head(model.cfg, model.encoder, classes=2, pairs=True)
    return head.layers[1].in_features // model.encoder.output_dim


def attention(side, number=0):
    return lambda model: getattr(model, side).layers[0].sublayers[number].sublayer


def mechanism(model):
    return attention("encoder")(model).mechanism


def shape(name):
    return lambda model: tuple(getattr(mechanism(model), name).shape)


def norms(side):
    def places(model):
        coder = getattr(model, side)
        before = {residual.normalize_before for residual in coder.layers[0].sublayers}
        return before, coder.layer_norm is not None

    return places


def implementations(model):
    return {module.impl for module in model.modules() if hasattr(module, "impl")}


# --- Of both models --------------------------------------------------------------------------

MTSA = "--encoder-sublayers=mtsa,ffn"
SOURCE = f"{MTSA} --mtsa-source-layers"


def source_maps(model):
    maps = mechanism(model).source_hidden, mechanism(model).source_output
    return sum(map is not None for map in maps)


def source_bias(model):
    return mechanism(model).source_output.bias.unique().tolist()


MECHANISM_CASES = {
    "attention_impl": Case("--attention-impl=reference", implementations, {"auto"}, {"reference"}),
    "heads_activation": Case("--heads-activation=relu"),
    "dman_max_distance": Case(
        "--dman-max-distance=3", shape("past_bias"), (63,), (3,), "--encoder-sublayers=dman,ffn"
    ),
    "sman_radius": Case(
        "--sman-radius=2",
        lambda model: mechanism(model).radius,
        4,
        2,
        "--encoder-sublayers=sman,ffn",
    ),
    "da_mapping": Case("--da-mapping=linear", base="--encoder-sublayers=da,ffn"),
    "da_adjustment": Case("--da-adjustment=late_add", base="--encoder-sublayers=da,ffn"),
    "da_clip_threshold": Case(
        "--da-clip-threshold=0.01", base="--encoder-sublayers=da,ffn --da-mapping=clip"
    ),
    "mtsa_masks": Case("--mtsa-masks=none", base=MTSA),
    "mtsa_include_self": Case("--mtsa-include-self", base=MTSA),
    "mtsa_token_scale": Case("--mtsa-token-scale=identity", base=MTSA),
    "mtsa_source_scale": Case("--mtsa-source-scale=log_sigmoid", base=MTSA),
    "mtsa_source": Case("--mtsa-source=value", base=MTSA),
    "mtsa_source_layers": Case("--mtsa-source-layers=1", source_maps, 2, 1, MTSA),
    "mtsa_source_bias": Case("--mtsa-source-bias=5", source_bias, [0.0], [5.0], MTSA),
    "mtsa_divide_source": Case("--mtsa-divide-source", base=MTSA),
    "mtsa_fusion_gate": Case("--mtsa-fusion-gate", base=MTSA),
    "rpr_max_distance": Case(
        "--rpr-max-distance=5",
        shape("key_embedding"),
        (1, 33, 8),
        (1, 11, 8),
        "--encoder-sublayers=rpr,ffn",
    ),
    "rpr_per_head": Case(
        "--rpr-per-head",
        shape("value_embedding"),
        (1, 33, 8),
        (2, 33, 8),
        "--encoder-sublayers=rpr,ffn",
    ),
    "attention_masks": Case("--attention-masks=past,past", base="--encoder-sublayers=masked,ffn"),
}

# --- Translation -----------------------------------------------------------------------------


def of_a_side(side, limit):
    """Of the options that encoder and decoder have each."""

    def coder(model):
        return getattr(model, side)

    ffn = attention(side, -1)
    return {
        f"{side}_embed_path": Case(
            f"--{side}-embed-path={{vectors}}",
            lambda model: coder(model).embed_tokens.weight[4].eq(0.5).all().item(),
            *(False, True),
        ),
        f"{side}_embed_dim": Case(
            f"--{side}-embed-dim=24",
            lambda model: attention(side)(model).out_proj.in_features,
            16,
            24,
        ),
        f"{side}_ffn_embed_dim": Case(
            f"--{side}-ffn-embed-dim=20", lambda model: ffn(model).fc1.out_features, 16, 20
        ),
        f"{side}_layers": Case(f"--{side}-layers=3", lambda model: len(coder(model).layers), 2, 3),
        f"{side}_attention_heads": Case(
            f"--{side}-attention-heads=4", lambda model: attention(side)(model).num_heads, 2, 4
        ),
        f"{side}_normalize_before": Case(
            f"--{side}-normalize-before", norms(side), ({False}, False), ({True}, True)
        ),
        f"{side}_learned_pos": Case(
            f"--{side}-learned-pos",
            lambda model: isinstance(coder(model).embed_positions, LearnedPositionalEmbedding),
            *(False, True),
        ),
        f"{side}_layerdrop": Case(
            f"--{side}-layerdrop=0.5", lambda model: getattr(coder(model).layers, "p", 0), 0, 0.5
        ),
        f"max_{limit}_positions": Case(
            f"--max-{limit}-positions=30", lambda model: coder(model).max_positions(), 64, 30
        ),
    }


def shared(model):
    encoder, decoder = model.encoder.embed_tokens, model.decoder.embed_tokens
    return encoder is decoder, model.decoder.output_projection.weight is decoder.weight


def softmax(model):
    return model.decoder.adaptive_softmax


ADAPTIVE = "--adaptive-softmax-cutoff=8,14"
TRANSLATION_CASES = {
    **of_a_side("encoder", "source"),
    **of_a_side("decoder", "target"),
    "encoder_sublayers": Case(
        "--encoder-sublayers=san,san,ffn", lambda m: len(m.encoder.layers[0].sublayers), 2, 3
    ),
    "decoder_sublayers": Case(
        "--decoder-sublayers=san,san,cross,ffn", lambda m: len(m.decoder.layers[1].sublayers), 3, 4
    ),
    "activation_fn": Case("--activation-fn=tanh"),
    "start": Case(
        "--start=mans", lambda m: attention("decoder")(m).qkv_proj.bias.any().item(), True, False
    ),
    "decoder_output_dim": Case(
        "--decoder-output-dim=8", lambda m: m.decoder.output_projection.in_features, 16, 8
    ),
    "share_decoder_input_output_embed": Case(
        "--share-decoder-input-output-embed", shared, (False, False), (False, True)
    ),
    "share_all_embeddings": Case("--share-all-embeddings", shared, (False, False), (True, True)),
    "merge_src_tgt_embed": Case("--merge-src-tgt-embed", shared, (False, False), (True, True)),
    "no_token_positional_embeddings": Case(
        "--no-token-positional-embeddings",
        lambda m: (m.encoder.embed_positions is None, m.decoder.embed_positions is None),
        *((False, False), (True, True)),
    ),
    "adaptive_softmax_cutoff": Case(ADAPTIVE, lambda m: softmax(m) is not None, False, True),
    "adaptive_softmax_dropout": Case(
        "--adaptive-softmax-dropout=0.5", lambda m: softmax(m).dropout_module.p, 0, 0.5, ADAPTIVE
    ),
    "adaptive_softmax_factor": Case(
        "--adaptive-softmax-factor=2", lambda m: softmax(m).tail[0][0].out_features, 4, 8, ADAPTIVE
    ),
    "layernorm_embedding": Case(
        "--layernorm-embedding",
        lambda m: (m.encoder.layernorm_embedding is None, m.decoder.layernorm_embedding is None),
        *((True, True), (False, False)),
    ),
    "no_scale_embedding": Case(
        "--no-scale-embedding",
        lambda m: (m.encoder.embed_scale, m.decoder.embed_scale),
        *((4, 4), (1, 1)),
    ),
    "no_decoder_final_norm": Case(
        "--no-decoder-final-norm",
        lambda m: m.decoder.layer_norm is None,
        *(False, True),
        base="--decoder-normalize-before",
    ),
    "checkpoint_activations": Case(
        "--checkpoint-activations",
        lambda m: "forward" in vars(m.encoder.layers[0]) and "forward" in vars(m.decoder.layers[0]),
        *(False, True),
    ),
    "offload_activations": Case(
        "--offload-activations",
        lambda m: m.encoder.layers[0].forward.args[-1],
        *(False, True),
        base="--checkpoint-activations",
    ),
}

# --- Classification --------------------------------------------------------------------------


def words(model):
    return model.encoder.words


def encoder_name(model):
    return type(words(model).encoder).__name__


CLASSIFIER_CASES = {
    "encoder": Case("--encoder=bilstm", encoder_name, "TransformerEncoder", "BiLSTM"),
    "pooling": Case(
        "--pooling=max",
        lambda m: type(words(m).pooling).__name__,
        "MultiQueryPooling",
        "MaxPooling",
    ),
    "pooling_queries": Case(
        "--pooling-queries=7",
        lambda m: len(words(m).pooling.queries),
        3,
        7,
        "--pooling=multi_query",
    ),
    "pooling_window": Case(
        "--pooling-window=2", lambda m: words(m).pooling.window, 5, 2, "--pooling=window_max"
    ),
    "word_ngrams": Case(
        "--word-ngrams=3",
        lambda m: m.encoder.ngrams.longest,
        *(2, 3),
        base="--encoder=none --word-ngrams=2 --ngram-buckets=9",
    ),
    "ngram_buckets": Case(
        "--ngram-buckets=8",
        lambda m: m.encoder.ngrams.vectors.num_embeddings,
        *(9, 8),
        base="--encoder=none --word-ngrams=2 --ngram-buckets=9",
    ),
    "sentence_ends": Case(
        "--sentence-ends=word3",
        lambda m: m.encoder.marks.ends,
        *([], [7]),
        base="--hierarchical",
    ),
    "language_model": Case(
        "--language-model={language_model}", lambda m: m.encoder.language_model is None, True, False
    ),
    "language_model_config": Case(
        '--language-model-config={{"n_embd":8,"n_head":2,"n_layer":1}}',
        lambda m: m.encoder.embed_tokens.embedding_dim,
        *(16, 8),
    ),
    "head_dim": Case("--head-dim=9", lambda m: head(m)[1].out_features, 6, 9),
    "head_highway_layers": Case("--head-highway-layers=2", lambda m: len(head(m)), 5, 9),
    "no_class_bias": Case("--no-class-bias", lambda m: head(m)[-1].bias is None, False, True),
    "pair_features": Case("--pair-features=distance", pair_width, 4, 2),
    "hierarchical": Case("--hierarchical", lambda m: m.encoder.sentences is None, True, False),
    "sentence_separator": Case(
        "--sentence-separator=word3", lambda m: m.encoder.marks.separator, 20, 7, "--hierarchical"
    ),
    "encoder_embed_path": Case(
        "--encoder-embed-path={vectors}",
        lambda m: m.encoder.embed_tokens.weight[4].eq(0.5).all().item(),
        *(False, True),
    ),
    "encoder_embed_dim": Case(
        "--encoder-embed-dim=20", lambda m: m.encoder.embed_tokens.embedding_dim, 16, 20
    ),
    "freeze_embeddings": Case(
        "--freeze-embeddings", lambda m: m.encoder.embed_tokens.weight.requires_grad, True, False
    ),
    "encoder_hidden_dim": Case("--encoder-hidden-dim=24", lambda m: m.encoder.output_dim, 16, 24),
    "encoder_sublayers": Case(
        "--encoder-sublayers=san,san,ffn", lambda m: len(m.encoder.layers[0].sublayers), 2, 3
    ),
    "encoder_layers": Case("--encoder-layers=3", lambda m: len(m.encoder.layers), 1, 3),
    "encoder_attention_heads": Case(
        "--encoder-attention-heads=4", lambda m: attention("encoder")(m).num_heads, 2, 4
    ),
    "encoder_ffn_embed_dim": Case(
        "--encoder-ffn-embed-dim=20", lambda m: attention("encoder", -1)(m).fc1.out_features, 16, 20
    ),
    "encoder_normalize_before": Case(
        "--encoder-normalize-before",
        lambda m: {residual.normalize_before for residual in m.encoder.layers[0].sublayers},
        *({False}, {True}),
    ),
    "no_token_positional_embeddings": Case("--no-token-positional-embeddings"),
    "embedding_scale": Case("--embedding-scale=sqrt", lambda m: words(m).encoder.scale, 1, 4),
    "attention_positions": Case(
        "--attention-positions",
        lambda m: words(m).encoder.positions,
        *(False, True),
        base="--encoder=attention",
    ),
    "activation_fn": Case("--activation-fn=tanh"),
    "no_attention_bias": Case(
        "--no-attention-bias",
        lambda m: words(m).encoder.qkv_proj.bias is None,
        *(False, True),
        base="--encoder=attention",
    ),
    "dropout_places": Case(
        "--dropout-places=maps",
        lambda m: (words(m).dropout.p, words(m).pooling.dropout),
        *((0.5, 0.0), (0.0, 0.5)),
        base="--dropout=0.5 --encoder=mtsa --pooling=source2token",
    ),
    "map_activation": Case(
        "--map-activation=relu",
        lambda m: (
            [
                type(part.activation).__name__
                for part in (
                    words(m).encoder,
                    words(m).encoder.attention.source,
                    words(m).pooling,
                    head(m)[4],
                )
            ]
            + [type(head(m)[2]).__name__]
        ),
        *(["ELU"] * 5, ["ReLU"] * 5),
        base="--encoder=mtsa --pooling=source2token --head-highway-layers=1",
    ),
    "mpsan_masks": Case("--mpsan-masks=past,past", base="--encoder=mpsan"),
    "mpsan_fusion": Case(
        "--mpsan-fusion=gate",
        lambda m: type(words(m).encoder.fusion).__name__,
        *("PositionFusion", "GateFusion"),
        base="--encoder=mpsan",
    ),
    "mpsan_multi_dimensional": Case(
        "--mpsan-multi-dimensional",
        lambda m: words(m).encoder.attention.scores,
        1,
        16,
        "--encoder=mpsan",
    ),
    "mtsa_scores": Case(
        "--mtsa-scores=source2token",
        lambda m: words(m).encoder.query_map is None,
        *(False, True),
        base="--encoder=mtsa",
    ),
    "cspan_fusion": Case("--cspan-fusion=parallel", base="--encoder=cspan"),
    "cspan_no_residual": Case("--cspan-no-residual", base="--encoder=cspan"),
    "lstm_layers": Case(
        "--lstm-layers=2", lambda m: words(m).encoder.lstm.num_layers, 1, 2, "--encoder=bilstm"
    ),
    "cnn_widths": Case(
        "--cnn-widths=2,5",
        lambda m: [c.kernel_size[0] for c in words(m).encoder.convolutions],
        *([3, 4, 5], [2, 5]),
        base="--encoder=cnn --encoder-hidden-dim=12",
    ),
    "block_length": Case(
        "--block-length=3",
        lambda m: [one.block_length for one in words(m).encoder.directions],
        *([0, 0], [3, 3]),
        base="--encoder=bi_blosan",
    ),
    "max_positions": Case("--max-positions=30", lambda m: m.max_positions(), 64, 30),
}


def head(model):
    return model.classification_heads[classifier_builder.HEAD].layers


# --- The tests -------------------------------------------------------------------------------


@pytest.fixture
def vectors(tmp_path):
    """A file of a vector for the first word, of any width up to 24."""

    def write(width):
        path = tmp_path / f"vectors{width}"
        path.write_text(f"1 {width}\nword0" + " 0.5" * width + "\n")
        return path

    return write


@pytest.fixture
def translator(build_model, vectors):
    def build(flags):
        flags = flags.format(vectors=vectors(16)).split()
        return build_model(
            "posattn_transformer", "--max-source-positions=64", "--max-target-positions=64", *flags
        )

    return build


@pytest.fixture(scope="module")
def language_model(tmp_path_factory):
    """A folder with a subword for each word of the dictionary."""
    folder = tmp_path_factory.mktemp("gpt")
    write_language_model(folder, "ab cdefgh")  # 18 subwords
    subwords = ["<unk>", *(f"word{number}" for number in range(16)), "<sep>"]
    (folder / "vocab.json").write_text(json.dumps({one: row for row, one in enumerate(subwords)}))
    return folder


@pytest.fixture
def classifier(vectors, language_model):
    def build(flags):
        flags = flags.format(vectors=vectors(16), language_model=language_model).split()
        widths = ["--encoder-embed-dim=16", "--encoder-ffn-embed-dim=16", "--max-positions=64"]
        return classifier_builder.build("posattn_classifier", *widths, *flags)

    return build


def filled(model):
    """The model with parameters that depend on their names and shapes alone."""
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


def check(case, build, compute):
    without, with_flag = build(case.base), build(f"{case.base} {case.flag}")
    if case.named is COMPUTES:
        before, after = (compute(filled(model)) for model in (without, with_flag))
        assert before.shape == after.shape and not torch.allclose(before, after)
    else:
        assert case.named(without) == case.before
        assert case.named(with_flag) == case.after


@pytest.mark.parametrize("option", [*TRANSLATION_CASES, *MECHANISM_CASES])
def test_an_option_of_the_translation_model(option, translator):
    check({**TRANSLATION_CASES, **MECHANISM_CASES}[option], translator, translate)


@pytest.mark.parametrize("option", [*CLASSIFIER_CASES, *MECHANISM_CASES])
def test_an_option_of_the_classifier(option, classifier):
    check({**CLASSIFIER_CASES, **MECHANISM_CASES}[option], classifier, classify)


def test_no_option_is_left_out():
    translation = set(PosAttnTransformerConfig.__dataclass_fields__)
    known = {*TRANSLATION_CASES, *MECHANISM_CASES, *DROPOUTS, "min_params_to_wrap", "_name"}
    assert translation == known
    classification = set(PosAttnClassifierConfig.__dataclass_fields__)
    assert classification == {*CLASSIFIER_CASES, *MECHANISM_CASES, *DROPOUTS, "_name"}


def test_fully_sharded_layers_are_wrapped_from_a_size_on(translator, monkeypatch):
    sizes = []
    monkeypatch.setattr(
        seq2seq, "fsdp_wrap", lambda layer, min_num_params: sizes.append(min_num_params) or layer
    )
    translator("--min-params-to-wrap=77")
    assert sizes == [77] * 4


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_the_table_of_distances_is_as_long_as_the_longest_sentence_needs(translator, side):
    """Of N positions the furthest two are N - 1 apart."""
    flags = "--encoder-sublayers=dman,ffn --decoder-sublayers=dman,cross,ffn"
    assert attention(side)(translator(flags)).mechanism.past_bias.shape == (63,)
