from types import SimpleNamespace

import pytest
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.inspection.page.view import START, ClassifierView, TooMuchError
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest


def indices_of(view, **wanted):
    """Return the indices of the attention layers with these attributes."""
    return [
        index
        for index, layer in enumerate(view.layers)
        if all(getattr(layer, name) == value for name, value in wanted.items())
    ]


def weights(sentence, index):
    return torch.tensor(sentence["attention"][index]["weights"]) / 1000


def silence_words(view):
    """Set queries to zero: only the positional part of attention is left."""
    for module in view.trained.model.modules():
        for projection in ("qkv_proj", "query_proj"):
            if hasattr(module, projection):
                linear = getattr(module, projection)
                linear.weight.data.chunk(linear.parts)[0].zero_()
                linear.bias.data.zero_()
                linear.__dict__.pop("product", None)  # a matmul with a packed copy of the weight


def by_distance(plot, sentence, index, head):
    """Return the function of an attention layer laid out over the sentence, as the page does it."""
    line = torch.tensor(plot["lines"][head])
    length, furthest = len(sentence["attention"][index]["weights"][0]), len(line) // 2
    position = torch.arange(length)
    values = line[position - position[:, None] + furthest]
    if plot["sigmoid"]:
        terms = torch.tensor(sentence["attention"][index]["terms"])
        values = torch.sigmoid(values + terms[:, None])
    return values


def test_every_sublayer_of_a_translation_is_shown(translator):
    view = translator()
    sentence = view("a b c")
    described = view.description()["layers"]
    shown = [(entry["part"], entry["layer"], entry["name"]) for entry in described]
    expected = [("encoder", layer, name) for layer in (1, 2) for name in ("dman", "san")]
    expected += [("decoder", layer, name) for layer in (1, 2) for name in ("dman", "san")]
    assert shown == expected + [("cross attention", layer, "cross") for layer in (1, 2)]
    rows = sentence["rows"]
    assert rows["source"] == ["a", "b", "c", "</s>"]
    assert rows["written"] == [START, *rows["target"][:-1]]
    for entry, attention in zip(described, sentence["attention"], strict=True):
        shape = (len(entry["heads"]), len(rows[entry["query"]]), len(rows[entry["key"]]))
        assert torch.tensor(attention["weights"]).shape == shape
        sums = torch.tensor(attention["weights"]).sum(-1)
        assert ((sums - 1000).abs() <= shape[-1] / 2 + 1).all()


def test_words_are_shown_without_escapes_of_moses(translator, tmp_path):
    words = "l&apos; eau &amp;"
    manifest.write(tmp_path, Manifest("own", "translation", "moses-escaped"))
    view = translator(words, words, source_lang="fr", target_lang="fr")
    rows = view("l'eau &", target="& eau")["rows"]
    assert rows["source"] == ["l'", "eau", "&", "</s>"]
    assert rows["target"] == ["&", "eau", "</s>"]
    manifest.write(tmp_path, Manifest("own", "translation", "spaces"))
    view = translator(words, words, source_lang="fr", target_lang="fr")
    assert view("&amp;")["rows"]["source"] == ["&amp;", "</s>"]


def test_the_target_is_the_models_or_the_callers(translator):
    view = translator()
    sentence = view("a b c")
    (translated,) = view.translator(["a b c"])
    assert sentence["outcome"]["text"] == translated.text
    assert sentence["rows"]["target"] == [*translated.hypotheses[0].pieces.split(), "</s>"]
    sentence = view("a b c", "C B A B")
    assert sentence["rows"]["target"] == ["C", "B", "A", "B", "</s>"]
    assert sentence["outcome"] == {"text": "C B A B", "given": True}


def test_weights_equal_the_decoders_cross_attention(translator):
    view = translator()
    sentence = view("a b c", "C B A")
    model, dictionary = view.trained.model, view.translator.task.target_dictionary
    written = dictionary.encode_line("C B A", add_if_not_exist=False).long()
    source = view.translator.lines.encode("a b c").tokens[None]
    before = torch.cat([written[-1:], written[:-1]])[None]
    for layer in model.decoder.layers:
        layer.make_generation_fast_(need_attn=True)
    with torch.no_grad():
        encoded = model.encoder(source, torch.tensor([4]))
        _, extra = model.decoder(before, encoder_out=encoded)
    (last,) = indices_of(view, name="cross", layer=2)
    torch.testing.assert_close(
        weights(sentence, last).mean(0), extra["attn"][0][0], atol=1e-3, rtol=0
    )


def test_a_decoder_looks_back_only(translator):
    view = translator()
    sentence = view("a b c", "C B A")
    for index in indices_of(view, part="decoder"):
        assert (weights(sentence, index).triu(1) == 0).all()
    plot = view.description()["layers"][indices_of(view, part="decoder", name="dman")[0]]["plot"]
    furthest = len(plot["lines"][0]) // 2
    assert plot["lines"][0][furthest] is not None
    assert plot["lines"][0][furthest + 1 :] == [None] * furthest


@pytest.mark.parametrize(
    "name, flags",
    [
        ("dman", {}),
        ("masked", {"attention_masks": "past+scaled_distance,window:2"}),
        ("sman", {"sman_radius": "1"}),
        ("da", {"da_adjustment": "early_add"}),
        ("gaussian", {}),
    ],
)
def test_without_words_attention_is_the_positional_part(translator, name, flags):
    view = translator(encoder_sublayers=f"{name},ffn", **flags)
    silence_words(view)
    sentence = view("a b c d e")
    (index, _) = indices_of(view, part="encoder", name=name)
    plot = view.description()["layers"][index]["plot"]
    for head, actual in enumerate(weights(sentence, index)):
        if name == "gaussian":
            values = torch.tensor(sentence["attention"][index]["factors"][head]) / 1000
        else:
            values = by_distance(plot, sentence, index, min(head, len(plot["lines"]) - 1))
        values = values.exp() if name == "da" else values
        expected = values / values.sum(-1, keepdim=True).clamp(min=1e-9)
        torch.testing.assert_close(actual, expected, atol=3e-3, rtol=0)


def test_da_names_its_parameters(translator):
    view = translator(encoder_sublayers="da,ffn")
    view("a b")
    layer = view.description()["layers"][0]
    mechanism = view.layers[0].module
    w, v = mechanism.distance_weight[1].item(), mechanism.sigmoid_shift[1].item()
    assert layer["plot"]["parameters"][1] == f"w = {w:.2f}, v = {v:.2f}"


def test_a_sentence_that_is_too_large(translator):
    view = translator()
    size = view("a b c", "A B")["size"]
    assert view("a b c", "A B", room=size)["size"] == size
    with pytest.raises(TooMuchError):
        view("a b c", "A B", room=size - 1)


def test_nan_and_long_targets_are_refused(translator):
    view = translator(max_target_positions=4)
    with pytest.raises(UsageError, match="has 5 subwords; the model writes 4"):
        view("a", "A B C D")
    view.trained.model.encoder.embed_tokens.weight.data.fill_(float("nan"))
    with pytest.raises(UsageError, match="NaN or infinite"):
        view("a b", "A")


@pytest.mark.parametrize(
    "flags, expected",
    [
        ("mpsan source2token", "mpsan 4, source2token 1"),
        ("cspan multi_query", "semantic attention 1, positional attention 1, multi_query 3"),
        ("cspan max cspan_fusion=relative_position", "cspan 1"),
        ("mtsa mean", "mtsa 2"),
        ("disan mean", "past 1, future 1"),
        ("attention attention", "attention 2, attention 1"),
        ("bilstm attention", "attention 1"),
        ("bi_blosan source2token", "source2token 1"),
        ("transformer mean encoder_sublayers=dman,san,ffn", "dman 2, san 2"),
    ],
)
def test_layers_and_weights_of_classifiers(classifier, flags, expected):
    encoder, pooling, *more = flags.split()
    more = {"pooling_queries": 3, "encoder_layers": 1, **dict(flag.split("=") for flag in more)}
    view = classifier(encoder=encoder, pooling=pooling, **more)
    sentence = view("a b d e")
    described = view.description()["layers"]
    assert ", ".join(f"{entry['name']} {len(entry['heads'])}" for entry in described) == expected
    assert sentence["rows"] == {"words": ["a", "b", "d", "e"]}
    for entry, attention in zip(described, sentence["attention"], strict=True):
        actual = torch.tensor(attention["weights"])
        assert actual.shape[1:] == ((4, 4) if entry["query"] else (4,))
        sums = actual.sum(-1)
        nothing = sums == 0  # the first word has no past
        assert ((sums - 1000).abs() <= 3)[~nothing].all() and nothing.sum() <= 2


def test_both_sentences_of_a_pair_are_shown(classifier):
    view = classifier(pairs=True, encoder="mpsan", pooling="source2token")
    pair = view("a b d\tc e")
    assert pair["rows"] == {"first": ["a", "b", "d"], "second": ["c", "e"]}
    single = classifier(encoder="mpsan", pooling="source2token")
    attention = [*single("a b d")["attention"], *single("c e")["attention"]]
    assert [x["weights"] for x in pair["attention"]] == [x["weights"] for x in attention]
    parts = [layer["part"] for layer in view.description()["layers"]]
    sentences = ("first sentence", "second sentence")
    assert parts == [f"{text}, {part}" for text in sentences for part in ("words", "pooling")]


def test_the_label_is_the_prediction_after_other_texts_too(classifier):
    view = classifier(encoder="mpsan")
    first = view("a b d e")
    (result,) = view.predictor(["a b d e"])
    assert first["outcome"]["label"] == result.label
    assert first["outcome"]["probabilities"] == pytest.approx(result.probabilities, abs=1e-3)
    view("e e e e")
    assert view("a b d e") == first


@pytest.mark.parametrize(
    "flags, features",
    [
        ({"encoder": "mpsan", "mpsan_multi_dimensional": True}, 8),
        ({"encoder": "disan", "encoder_hidden_dim": 12}, 6),
    ],
)
def test_weights_for_each_feature_are_shown_as_their_mean(classifier, flags, features):
    view = classifier(**flags, pooling="source2token")
    recorded, module = [], view.layers[0].module
    function = module.function

    def watched(*args, **kwargs):
        result = function(*args, **kwargs)
        recorded.append(result[1])
        return result

    module.function = watched
    sentence = view("a b d e")
    (by_feature,) = recorded[0]  # [C, T, T], and of each mask [K, C, T, T]
    mean = by_feature.mean(-3).view(-1, 4, 4)
    torch.testing.assert_close(weights(sentence, 0), mean, atol=1e-3, rtol=0)
    described = view.description()["layers"]
    assert f"each of {features} features: shown is the mean" in described[0]["note"]
    assert "a weight for each word and each of" in described[-1]["note"]


def test_mtsa_shows_its_source2token_weights(classifier):
    view = classifier(encoder="mtsa", pooling="mean")
    words = torch.tensor(view("a b d e")["attention"][0]["words"])
    assert words.shape == (2, 4) and ((words.sum(-1) - 1000).abs() <= 2).all()
    assert "source2token" in view.description()["layers"][0]["note"]
    view = classifier(encoder="mtsa", pooling="mean", mtsa_source_layers=0)
    assert "words" not in view("a b d e")["attention"][0]
    assert not view.description()["layers"][0]["note"]


def test_models_without_attention_are_refused(classifier):
    with pytest.raises(UsageError, match="--encoder none with --pooling max has no attention"):
        classifier(encoder="none", pooling="max")
    with pytest.raises(UsageError, match="reads documents a sentence at a time"):
        classifier(encoder="mpsan", hierarchical=True, sentence_ends="a")
    with pytest.raises(UsageError, match="there is no page for a Linear; choose a translator"):
        ClassifierView(TrainedModel("m.pt", torch.nn.Linear(1, 1), None, SimpleNamespace()))
