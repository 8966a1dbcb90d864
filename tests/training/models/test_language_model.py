"""Pre-trained language models below the classifier: weights, auxiliary loss, errors."""

import json
import sys
from types import SimpleNamespace

import classifier_builder
import pytest
import torch
from classifier_builder import HEAD, scores
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from transformers import OpenAIGPTLMHeadModel

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.tiny import write_language_model

TEXT = "ba de gi ko lu cue0 cue1"


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a small random language model without dropout."""
    write_language_model(tmp_path / "openai-gpt", TEXT)
    change_config(tmp_path / "openai-gpt", resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    return tmp_path / "openai-gpt"


def change_config(folder, **settings):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))


def dictionary(folder):
    """Return the subwords in another order, with a symbol of fairseq's task."""
    subwords = sorted(json.loads((folder / "vocab.json").read_text()), reverse=True)
    return classifier_builder.dictionary_of(*subwords, "<mask>")


def build(folder, *flags, **options):
    words = dictionary(folder)
    flags = [f"--language-model={folder}", *flags]
    return classifier_builder.build(
        "mtsa_classifier", "--encoder-hidden-dim=12", *flags, words=words, pairs=True, **options
    )


def batch(padded_left=False):
    """Return pairs of sentences of several lengths."""
    sentences = classifier_builder.sentences
    return sentences(7, 2, 4, left_pad=padded_left), sentences(1, 6, 3, seed=1)


def loss_of(model, weight):
    cfg = CRITERION_DATACLASS_REGISTRY["sentence_classification"](language_model_weight=weight)
    task = SimpleNamespace(cfg=SimpleNamespace(num_classes=5), datasets={})
    criterion = CRITERION_REGISTRY["sentence_classification"].build_criterion(cfg, task)
    first, second = batch()
    net_input = {"src_tokens": first, "src_lengths": None, "pair_tokens": second}
    sample = {"id": torch.arange(3), "target": torch.tensor([0, 3, 1]), "ntokens": 9}
    return criterion(model, {**sample, "net_input": net_input})[0]


def test_the_auxiliary_loss_equals_that_of_transformers(folder):
    """Value and gradients in float64, sentence by sentence."""
    model = build(folder).double().train()
    gpt = model.encoder.language_model.gpt
    reference = OpenAIGPTLMHeadModel(gpt.config).double()
    reference.transformer.load_state_dict(gpt.state_dict())
    reference.tie_weights()
    expected = 0
    for tokens in batch():
        for row in tokens:
            ids = torch.cat([torch.tensor([0]), row[row.ne(1)]])[None]
            expected = expected + 0.3 * reference(ids, labels=ids).loss / 2
    expected.backward()
    added = loss_of(model, 0.3) - loss_of(model, 0.0)
    torch.testing.assert_close(added, expected.detach(), check_dtype=False, rtol=1e-6, atol=0)
    added.backward()
    for name, parameter in reference.transformer.named_parameters():
        ours = gpt.get_parameter(name).grad
        torch.testing.assert_close(ours, parameter.grad, rtol=1e-5, atol=1e-8, msg=name)


def test_classification_trains_the_language_model(folder):
    model = build(folder).train()
    loss_of(model, 0.0).backward()
    gradients = [p.grad for p in model.encoder.language_model.gpt.h.parameters()]
    assert all(gradient.abs().sum() > 0 for gradient in gradients)
    model.zero_grad()
    # validation excludes the auxiliary loss
    assert loss_of(model.eval(), 0.3) == loss_of(model, 0.0)


@pytest.mark.parametrize("as_pickle", [False, True])
def test_weights_are_loaded_from_the_folder(folder, as_pickle):
    pretrained = OpenAIGPTLMHeadModel.from_pretrained(folder)
    if as_pickle:
        torch.save(pretrained.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    ours = build(folder).encoder.language_model.gpt.state_dict()
    theirs, words = pretrained.transformer.state_dict(), dictionary(folder)
    ours_by_word, theirs_by_row = (state.pop("tokens_embed.weight") for state in (ours, theirs))
    for subword, row in json.loads((folder / "vocab.json").read_text()).items():
        torch.testing.assert_close(ours_by_word[words.index(subword)], theirs_by_row[row])
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_padding_changes_nothing(folder):
    model = build(folder).double().eval()
    right, left = (scores(model, *batch(padded_left)) for padded_left in (False, True))
    torch.testing.assert_close(left, right)
    alone = scores(model, batch()[0][1:2, :3], batch()[1][1:2])
    torch.testing.assert_close(alone, right[1:2])


def test_a_saved_model_needs_no_folder(folder):
    model = build(folder)
    config = model.cfg.language_model_config
    words = dictionary(folder)
    for path in folder.iterdir():
        path.unlink()
    flags = ["--encoder-hidden-dim=12", f"--language-model-config={config}"]
    loaded = classifier_builder.build("mtsa_classifier", *flags, words=words, pairs=True)
    assert not torch.equal(scores(loaded.eval(), *batch()), scores(model.eval(), *batch()))
    loaded.load_state_dict(model.state_dict())
    torch.testing.assert_close(scores(loaded, *batch()), scores(model, *batch()), rtol=0, atol=0)


def test_a_sentence_longer_than_its_positions_is_refused(folder):
    model = build(folder).eval()
    assert model.max_positions() == 63
    assert scores(model, *[classifier_builder.sentences(62)] * 2).shape == (1, 5)
    with pytest.raises(UsageError, match="64 tokens is longer"):
        scores(model, *[classifier_builder.sentences(63)] * 2)
    cut, short = classifier_builder.sentences(63)[:, :63], classifier_builder.sentences(61)
    torch.testing.assert_close(scores(model, cut, short), scores(model, cut[:, :62], short))


def remove(*names):
    return lambda folder: [(folder / name).unlink() for name in names]


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def set_config(**settings):
    return lambda folder: change_config(folder, **settings)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            remove("merges.txt", "model.safetensors"),
            "there is no merges.txt, no model.safetensors or pytorch_model.bin; put",
        ),
        (set_config(model_type="gpt2"), "config.json: model_type is not openai-gpt"),
        (set_config(n_embd=16), r"there is no tokens_embed.weight of shape .*, 16\], as config"),
        (set_config(n_head=5), "must be divisible"),
        (write("model.safetensors", b"no weights"), "model.safetensors: cannot be read"),
        (write("vocab.json", b'{"<unk>": 0, "a": 2}'), "vocab.json: no vocabulary of GPT"),
    ],
)
def test_unusable_folders_are_refused(folder, spoil, message):
    words = dictionary(folder)
    spoil(folder)
    flags = [f"--language-model={folder}", "--encoder-hidden-dim=12"]
    with pytest.raises(UsageError, match=message):
        classifier_builder.build("mtsa_classifier", *flags, words=words)


def test_without_transformers_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "fairseq_posattn.model.language_model", raising=False)
    with pytest.raises(UsageError, match=r"needs transformers; pip .*\[export\]'$"):
        build(folder)


def test_data_of_another_vocabulary_is_refused(folder):
    with pytest.raises(UsageError, match="lacks 'word0' of the dictionary; prepare the data with"):
        classifier_builder.build("mtsa_classifier", f"--language-model={folder}")


@pytest.mark.parametrize("flag", ["--hierarchical", "--word-ngrams=2", "--encoder-embed-path=x"])
def test_flags_for_word_vectors_are_refused(folder, flag):
    with pytest.raises(UsageError, match=f"^--language-model: .*{flag.partition('=')[0]}"):
        build(folder, flag)


def test_the_weight_without_a_language_model_is_refused():
    model = classifier_builder.build("mtsa_classifier", pairs=True)
    assert HEAD in model.classification_heads
    with pytest.raises(UsageError, match="^--language-model-weight 0.3: needs a model with"):
        loss_of(model.train(), 0.3)
