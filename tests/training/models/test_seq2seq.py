"""Encoder-decoder models: published sizes, padding, causality, decoding, training and errors."""

import math

import classifier_builder
import pytest
import torch
from classifier_builder import PAD, randomise
from fairseq.sequence_generator import SequenceGenerator

from fairseq_posattn.attention import DotProductAttention
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference import beam_search
from fairseq_posattn.inference.beam_search import ForcedSearch
from fairseq_posattn.model.caches import select_encodings
from fairseq_posattn.model.mechanisms import DECODER_ONLY, MECHANISMS, Builder
from fairseq_posattn.training.flags import SentenceEncoderConfig
from fairseq_posattn.training.models.seq2seq import PosAttnTransformerConfig

JOINT = "--share-all-embeddings"


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("arch", "stock", "words", "millions", "stock_millions"),
    [
        ("dman_iwslt_de_en", "transformer_iwslt_de_en", 10152, 37, 37),
        # The size of the published dictionary is not reported; both of these fit.
        ("dman_wmt_en_de", "transformer_wmt_en_de", 37168, 63, 63),
        ("dman_wmt_en_de_big", "transformer_wmt_en_de_big", 37168, 215, 214),
        ("dman_wmt_en_de_big", "transformer_wmt_en_de_big", 37714, 215, 215),
    ],
)
def test_parameters_of_mans_table_1(build_model, arch, stock, words, millions, stock_millions):
    """The paper quotes others' counts of the Transformer: 36, 62 and 213 million."""
    with torch.device("meta"):
        ours, theirs = (
            parameters(build_model(name, JOINT, tiny=False, words=words)) for name in (arch, stock)
        )
    assert (round(ours / 1e6), round(theirs / 1e6)) == (millions, stock_millions)
    assert 0 < ours - theirs < 200_000


@pytest.mark.parametrize("flags", [[], ["--encoder-embed-path={}"]])
def test_start_bert_initializes_embeddings_but_not_those_of_a_file(build_model, tmp_path, flags):
    path = tmp_path / "vectors"
    path.write_text("1 16\nword0" + " 0.5" * 16 + "\n")
    flags = [flag.format(path) for flag in flags]
    model = build_model("dman_summarization", "--start=bert", *flags, words=400)
    for coder in (model.encoder, model.decoder):
        assert coder.embed_positions.weight.std().item() == pytest.approx(0.02, rel=0.1)
        if not flags:
            assert coder.embed_tokens.weight.std().item() == pytest.approx(0.02, rel=0.1)
        assert not coder.embed_tokens.weight[PAD].any()
    if flags:
        assert model.encoder.embed_tokens.weight[4].eq(0.5).all()


@pytest.mark.parametrize("size", ["iwslt_de_en", "wmt_en_de"])
def test_da_adds_two_parameters_per_head_to_the_stock_transformer(build_model, size):
    with torch.device("meta"):
        ours, theirs = (
            build_model(f"{kind}_{size}", tiny=False) for kind in ("da_transformer", "transformer")
        )
    assert parameters(ours) - parameters(theirs) == 6 * 2 * ours.cfg.encoder.attention_heads
    assert ours.encoder.embed_positions is None
    assert ours.decoder.embed_positions is not None


def test_parameters_of_mtsas_table_6(build_model):
    """The paper's Transformer is tensor2tensor's, with 33,708 subwords.

    Its attention has no biases, and it adds an embedding of the target space, one of 32.
    """
    norms = [f"--{side}-normalize-before" for side in ("encoder", "decoder")]
    mtsa = ["--mtsa-source=value", "--mtsa-source-layers=1"]
    for arch, flags, millions in (
        ("transformer_wmt_en_de", [], "61.38"),
        ("mtsa_transformer_wmt_en_de", mtsa, "61.58"),
    ):
        with torch.device("meta"):
            model = build_model(arch, JOINT, *norms, *flags, tiny=False, words=33708)
        named = model.named_parameters()
        biases = sum(p.numel() for name, p in named if name.endswith("_proj.bias"))
        assert f"{(parameters(model) - biases + 32 * 512) / 1e6:.2f}" == millions


def sentences(*lengths, words=20, **options):
    """Return rows of so many random words, the last of which is EOS, with padding."""
    return classifier_builder.sentences(*(n - 1 for n in lengths), words=words - 4, **options)


def scores(model, source, target):
    """Return the log-probabilities of every target word."""
    lengths = source.ne(PAD).sum(-1)
    output = model(source, lengths, target.roll(1, -1))
    return model.get_normalized_probs(output, log_probs=True)


def encode(model, source):
    return model.encoder(source, source.ne(PAD).sum(-1))


# Table 3 of MANs, and every mechanism alone.
STACKS = [*MECHANISMS, "dman,san", "san,dman", "dman,dman", "san,san", "ffn,san"]
# No causal form, and none but that.
ENCODER_ONLY = ["mtsa", "gaussian", "future", "masked"]
CAUSAL_STACKS = [stack for stack in STACKS if stack not in ENCODER_ONLY]
ENCODER_STACKS = [stack for stack in STACKS if stack not in DECODER_ONLY]


@pytest.mark.parametrize("stack", ENCODER_STACKS)
def test_padding_on_either_side_changes_nothing(build_model, stack):
    flags = f"{JOINT} --encoder-sublayers {stack},ffn --decoder-sublayers san,cross,ffn".split()
    model = randomise(build_model("posattn_transformer", *flags)).eval()
    target = sentences(4, 4, seed=1)
    right = scores(model, sentences(7, 5), target)
    left = scores(model, sentences(7, 5, left_pad=True), target)
    alone = scores(model, sentences(7, 5)[1:, :5], target[1:])
    torch.testing.assert_close(left, right)
    torch.testing.assert_close(alone[0], right[1])


@pytest.mark.parametrize(
    "sublayers",
    [
        *CAUSAL_STACKS,
        "sman --sman-radius sqrt",
        "dman --dman-max-distance 3",
        "dman,san --heads-activation gelu --heads-dropout 0.1",
        "rpr --rpr-max-distance 2",
        "masked --attention-masks past,past+scaled_distance",
        "mtsa --mtsa-masks none",
        "mtsa --mtsa-masks past --mtsa-include-self --mtsa-fusion-gate",
    ],
)
def test_incremental_decoding_equals_the_full_pass(build_model, sublayers):
    stack, *options = sublayers.split()
    flags = [JOINT, "--decoder-sublayers", f"{stack},cross,ffn", *options]
    model = randomise(build_model("posattn_transformer", *flags)).eval()
    source, target = sentences(6, 4, 5), sentences(8, 8, 8, seed=1)
    encoder_out = encode(model, source)
    # One drops a hypothesis and repeats another, one repeats all, but not in order.
    orders = {4: torch.tensor([2, 0, 0, 1]), 6: torch.tensor([1, 1, 0, 0, 3, 3, 2, 2])}
    state, rows = {}, torch.arange(3)
    for step in range(1, target.size(1) + 1):
        if step in orders:
            model.decoder.reorder_incremental_state_scripting(state, orders[step])
            encoder_out = model.encoder.reorder_encoder_out(encoder_out, orders[step])
            rows = rows[orders[step]]
        prefix = target[rows, :step]
        newest, _ = model.decoder(prefix, encoder_out=encoder_out, incremental_state=state)
        whole, _ = model.decoder(target[rows], encoder_out=encoder_out)  # causal
        torch.testing.assert_close(newest[:, -1], whole[:, step - 1])


def test_lists_of_sublayers_may_have_spaces(build_model):
    model = build_model("posattn_transformer", "--encoder-sublayers=dman, san, ffn")
    assert len(model.encoder.layers[0].sublayers) == 3


@pytest.mark.parametrize(
    ("order", "repeats"), [([0, 0, 1, 1], 2), ([0, 1, 0, 1], 1), ([1, 1, 0, 0], 1), ([0, 1], 1)]
)
def test_only_regular_orders_repeat_sentences(order, repeats):
    order = torch.tensor(order)
    with torch.device("meta"):  # another default device
        assert select_encodings(order, 1, sentences=2)[0] == repeats


@pytest.mark.parametrize("source_lengths", [(6, 6, 6), (6, 4, 5)])
@pytest.mark.parametrize("arch", ["dman_wmt_en_de", "dman_summarization"])
def test_hypotheses_that_share_an_encoding_score_as_with_copies(build_model, arch, source_lengths):
    """Beams of 2: sentences are repeated, hypotheses exchanged, and sentence 1 is finished."""
    model = randomise(build_model(arch)).eval()
    source, target = sentences(*source_lengths), sentences(8, 8, 8, 8, 8, 8, seed=1)
    orders = {
        1: torch.tensor([0, 0, 1, 1, 2, 2]),
        3: torch.tensor([1, 0, 2, 2, 5, 4]),
        5: torch.tensor([0, 1, 4, 4]),
    }
    encoder_out = encode(model, source)
    state, sentence, prefixes = {}, torch.arange(3), target
    for step in range(1, target.size(1) + 1):
        if step in orders:
            order = orders[step]
            model.decoder.reorder_incremental_state_scripting(state, order)
            encoder_out = model.encoder.reorder_encoder_out(encoder_out, order)
            sentence, prefixes = sentence[order], prefixes[order] if step > 1 else prefixes
        prefix = prefixes[:, :step]
        newest, extra = model.decoder(prefix, encoder_out=encoder_out, incremental_state=state)
        whole, own_extra = model.decoder(prefix, encoder_out=encode(model, source[sentence]))
        torch.testing.assert_close(newest[:, -1], whole[:, -1])
        torch.testing.assert_close(extra["attn"][0][:, -1], own_extra["attn"][0][:, -1])
    assert encoder_out["encoder_out"][0].size(1) == 2  # no encoding was repeated


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"beam_size": 1},
        {"min_len": 4, "len_penalty": 0.6},
        {"no_repeat_ngram_size": 2},
        {"normalize_scores": False, "unk_penalty": 1.0, "temperature": 1.5},
        {"max_len_b": 3},
        {"arch": "transformer_wmt_en_de"},
        {"spoilt": 11},
    ],
)
def test_beam_search_equals_fairseqs(build_model, settings, monkeypatch):
    """The vocabulary is large enough for the plugin's loop, and hypotheses have many lengths."""
    monkeypatch.setattr(beam_search, "ROWS", 3 * 4)  # of three of the sentences
    words = classifier_builder.dictionary(695)  # 700 with the special symbols
    settings = {"beam_size": 4, "max_len_b": 20, **settings}
    spoilt = settings.pop("spoilt", 10**6)  # one of so many rows of logits is NaN
    model = randomise(build_model(settings.pop("arch", "dman_wmt_en_de"), words=words)).eval()
    eos = torch.nn.functional.one_hot(torch.tensor(words.eos()), len(words))

    def change(layer, inputs, logits):
        is_spoilt = logits.argmax(-1, keepdim=True) % spoilt == spoilt - 1
        return (logits + 2.5 * eos).masked_fill(is_spoilt, math.nan)

    model.decoder.output_projection.register_forward_hook(change)
    model.make_generation_fast_(need_attn=True)
    source = sentences(9, 5, 7, 3, words=700)
    sample = {"net_input": {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}}
    stock, ours = (
        kind([model], words, **settings).generate([model], sample)
        for kind in (SequenceGenerator, ForcedSearch)
    )
    torch.testing.assert_close(ours, stock, rtol=1e-4, atol=1e-5)


# All mechanisms but MTSA, whose autocast meta tensors lack.
ALL = [
    f"--encoder-sublayers={','.join(sorted(MECHANISMS.keys() - {'mtsa', *DECODER_ONLY}))},ffn",
    f"--decoder-sublayers={','.join(sorted(MECHANISMS.keys() - {*ENCODER_ONLY}))},cross,ffn",
]


@pytest.mark.parametrize(
    ("arch", "flags"),
    [
        ("dman_iwslt_de_en", []),
        ("dman_wmt_en_de", []),
        ("dman_summarization", []),
        ("posattn_transformer", [JOINT, *ALL]),
    ],
)
def test_training_never_synchronizes_with_the_device(build_model, arch, flags, monkeypatch):
    """Meta tensors raise if a value is read; lists of numbers would be copied from the host."""
    with torch.device("meta"):
        model = build_model(arch, *flags)
        monkeypatch.setattr(torch, "tensor", None)
        source, target = torch.ones(3, 7, dtype=torch.long), torch.ones(3, 5, dtype=torch.long)
        output, _ = model(source, torch.ones(3), target)
        output.sum().backward()
    assert output.shape == (3, 5, 20)


def test_incremental_decoding_remembers_a_padded_prefix(build_model):
    """Without position embeddings: fairseq's count the padding while decoding."""
    flags = f"{JOINT} --no-token-positional-embeddings --decoder-sublayers dman,san,cross,ffn"
    model = randomise(build_model("posattn_transformer", *flags.split())).eval()
    source, target = sentences(6, 4), sentences(5, 3, seed=1, left_pad=True)
    encoder_out = encode(model, source)
    state = {}
    for step in range(1, target.size(1) + 1):
        prefix = target[:, :step]
        newest, _ = model.decoder(prefix, encoder_out=encoder_out, incremental_state=state)
    whole, _ = model.decoder(target, encoder_out=encoder_out)
    torch.testing.assert_close(newest[:, -1], whole[:, -1])


@pytest.mark.parametrize("stack", CAUSAL_STACKS)
def test_training_needs_no_mask_of_padding_behind_the_tokens(build_model, stack):
    flags = "--dropout=0", "--decoder-sublayers", f"{stack},cross,ffn"
    model = randomise(build_model("posattn_transformer", JOINT, *flags)).train()
    source, target = sentences(5, 5), sentences(7, 4, seed=1)
    results = []
    for model.decoder.pads_right in (False, True):
        model.zero_grad()
        output = model(source, torch.tensor([5, 5]), target)[0][target != PAD]
        output.square().sum().backward()
        results.append([output, *(parameter.grad for parameter in model.parameters())])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("stack", ENCODER_STACKS)
def test_empty_sentences_have_finite_gradients(build_model, stack):
    model = build_model("posattn_transformer", JOINT, "--encoder-sublayers", f"{stack},ffn")
    source = sentences(5, 5)
    source[1] = PAD
    scores(model, source, sentences(4, 4, seed=1)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("replaces", [False, True])
def test_mechanisms_of_users_replace_positions_too(build_model, replaces):
    class Mine(DotProductAttention):
        replaces_positions = replaces

    try:
        MECHANISMS["mine"] = Builder(Mine)
        flags = ["--encoder-sublayers=mine,ffn", "--decoder-sublayers=mine,cross,ffn"]
        model = build_model("posattn_transformer", JOINT, *flags)
        classifier = classifier_builder.build("transformer_classifier", flags[0])
    finally:
        del MECHANISMS["mine"]
    sides = model.encoder, model.decoder
    assert [side.embed_positions is None for side in sides] == [replaces, replaces]
    (placed,) = (layer.positions for layer in classifier.modules() if hasattr(layer, "positions"))
    assert placed is not replaces


@pytest.mark.parametrize("name", ["san", "rope", "cross", "ffn"])
def test_a_users_mechanism_has_a_name_of_its_own(build_model, monkeypatch, name):
    monkeypatch.setitem(MECHANISMS, name, Builder(DotProductAttention))
    with pytest.raises(UsageError, match=f"replaces '{name}'; give your mechanism another name"):
        build_model("posattn_transformer", JOINT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_parameter_is_trained(build_model, name, dtype):
    """A parameter without a gradient stops distributed training."""
    stack = "san" if name in ENCODER_ONLY else name
    source = "san" if name in DECODER_ONLY else name
    flags = ["--encoder-sublayers", f"{source},ffn", "--decoder-sublayers", f"{stack},cross,ffn"]
    model = build_model("posattn_transformer", JOINT, *flags).to(dtype)
    output = scores(model, sentences(9, 7), sentences(6, 8, seed=1))
    output[..., 5].float().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name
        assert parameter.grad.isfinite().all(), name


def test_activation_checkpointing_changes_no_gradient(build_model):
    flags = ["--dropout", "0", "--attention-dropout", "0", "--activation-dropout", "0"]
    plain = randomise(build_model("dman_wmt_en_de", *flags))
    checkpointed = randomise(build_model("dman_wmt_en_de", *flags, "--checkpoint-activations"))
    for model in (plain, checkpointed):
        model.load_state_dict(plain.state_dict())
        scores(model, sentences(9, 7), sentences(6, 8, seed=1))[..., 5].sum().backward()
    for ours, theirs in zip(checkpointed.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("config", [PosAttnTransformerConfig, SentenceEncoderConfig])
def test_help_names_the_sublayers_of_an_encoder(config):
    words = config.__dataclass_fields__["encoder_sublayers"].metadata["help"].split()
    named = {word.rstrip(",;") for word in words} & {*MECHANISMS}
    assert named == MECHANISMS.keys() - {*DECODER_ONLY}


OTHER_WIDTH = "--decoder-output-dim 10: embeddings of 16 features"


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        *((f"--decoder-sublayers {name},cross,ffn", "decoder") for name in ENCODER_ONLY),
        *((f"--encoder-sublayers {name},ffn", f"{name} attention is c") for name in DECODER_ONLY),
        ("--encoder-sublayers t5,ffn --t5-max-distance 8", "--t5-max-distance 8: too small"),
        ("--share-all-embeddings --decoder-output-dim=10", OTHER_WIDTH),
        ("--share-decoder-input-output-embed --decoder-output-dim=10", OTHER_WIDTH),
        ("--encoder-sublayers dmam,ffn", "--encoder-sublayers dmam,ffn: unknown sublayer 'dmam'"),
        ("--encoder-sublayers dmam,ffn", "masked, ffn, and those of --user-dir"),
        ("--encoder-sublayers ffn,san", "ffn,san: the last sublayer must be ffn"),
        ("--encoder-sublayers san,cross,ffn", "san,cross,ffn: an encoder has no cross attention"),
        ("--decoder-sublayers san,ffn", "san,ffn: cross must occur once, not 0 times"),
        ("--decoder-sublayers cross,cross,ffn", "cross must occur once, not 2 times"),
        ("--encoder-attention-heads 3", "16 features cannot be divided among 3 heads"),
        ("--sman-radius two --encoder-sublayers sman,ffn", "--sman-radius two: must be"),
        ("--attention-masks passed --encoder-sublayers masked,ffn", "--attention-masks passed: "),
        ("--attention-masks past,past,past --encoder-sublayers masked,ffn", "2 heads cannot be"),
        ("--decoder-sublayers future,cross,ffn", "--decoder-sublayers future: mask 'future' looks"),
        ("--decoder-sublayers mtsa,cross,ffn", "--mtsa-masks past,future: mask 'future' looks"),
        ("--encoder-sublayers mtsa,ffn --mtsa-source-layers 3", "--mtsa-source-layers 3: choose"),
        ("--encoder-sublayers mtsa,ffn --mtsa-source input", "--mtsa-source input: needs --mtsa-"),
    ],
)
def test_wrong_flags_are_one_line(build_model, flags, complaint):
    with pytest.raises(UsageError) as error:
        build_model("posattn_transformer", *flags.split())
    assert complaint in str(error.value) and "\n" not in str(error.value)
    with pytest.raises(UsageError, match="fairseq-preprocess --joined-dictionary"):
        build_model("dman_summarization", words=20, target_words=30)


@pytest.mark.parametrize("impl", ["auto", "reference"])
def test_masks_are_computed_again_for_a_batch_in_the_same_memory(build_model, impl):
    model = build_model("posattn_transformer", f"--attention-impl={impl}").eval()
    tokens = torch.tensor([[4, 5, 6, 2], [7, 2, PAD, PAD]])
    model(tokens, None, tokens)
    tokens[1] = torch.tensor([7, 8, 2, PAD])
    alone = tokens[1:, :3]
    torch.testing.assert_close(
        model(tokens, None, tokens)[0][1, :3], model(alone, None, alone)[0][0]
    )
