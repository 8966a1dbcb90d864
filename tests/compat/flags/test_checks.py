"""Settings that are looked at before a training begins."""

import pytest

from fairseq_posattn.training.plugin import register

register()

from fairseq_posattn.common.errors import UsageError  # noqa: E402
from fairseq_posattn.compat.flags import settings  # noqa: E402


def test_validation_asks_a_decoder_for_weights():
    sdpa = {"attention_impl": "sdpa"}
    with pytest.raises(UsageError, match="--attention-impl sdpa .* give auto.*disable-validation"):
        settings.check_weights({**sdpa, "decoder_sublayers": "san,cross,ffn"})
    settings.check_weights(sdpa)  # of a classifier
    settings.check_weights({"attention_impl": "auto", "decoder_sublayers": "san,cross,ffn"})


def test_windows_are_of_words_alone():
    """Over n-grams they would reach from a sentence's words, or from the padding, into them."""
    windows = {"pooling": "window_max"}
    with pytest.raises(UsageError, match="--word-ngrams 2: --pooling window_max .* give --pooling"):
        settings.check_windows({**windows, "word_ngrams": 2})
    settings.check_windows({**windows, "word_ngrams": 1})
    settings.check_windows({"pooling": "mean", "word_ngrams": 2})


@pytest.mark.parametrize(
    "name, told",
    [
        ("tensorboard_logdir", "--tensorboard-logdir runs: TensorBoard"),
        ("wandb_project", "--wandb-project runs: Weights & Biases"),
    ],
)
def test_what_a_training_is_tracked_with_must_be_installed(monkeypatch, name, told):
    monkeypatch.setattr(settings, "find_spec", lambda package: None)
    with pytest.raises(UsageError, match=f"{told} is not installed: pip install .*tracking"):
        settings.check_trackers({name: "runs"})
    settings.check_trackers({name: None})
    monkeypatch.setattr(settings, "find_spec", lambda package: package)
    settings.check_trackers({name: "runs"})


def test_subsets_that_are_joined_have_one_name():
    with pytest.raises(UsageError, match="--combine-val joins .* --valid-subset valid,test must"):
        settings.check_subsets({"combine_valid_subsets": True, "valid_subset": "valid,test"})
    settings.check_subsets({"combine_valid_subsets": True, "valid_subset": "valid"})
    settings.check_subsets({"combine_valid_subsets": None, "valid_subset": "valid,test"})


@pytest.mark.parametrize("name", ["fp16", "amp"])
def test_half_precision_without_a_gpu_says_what_to_change(name):
    with pytest.raises(UsageError, match=rf"--{name}: .* \(in YAML: common.{name}=false\)"):
        settings.check_devices({name: True, "cpu": True})


@pytest.mark.parametrize(
    "interactive, given, told",
    [
        (False, {"print_alignment": "soft"}, " needs --print-alignment hard"),
        (False, {"bpe": "subword_nmt"}, ": --bpe joins the pieces"),
        (False, {"tokenizer": "moses"}, ": --tokenizer joins the pieces"),
        (True, {"post_process": "subword_nmt"}, ": --post-process joins the pieces"),
    ],
)
def test_an_unknown_word_is_looked_up_among_pieces(interactive, given, told):
    """They are joined before by all of these but fairseq-generate's --post-process."""
    good = dict.fromkeys(("bpe", "tokenizer", "post_process")) | {"print_alignment": "hard"}
    settings.check_replacing(good, interactive)
    with pytest.raises(UsageError, match=f"^--replace-unk{told}"):
        settings.check_replacing(good | given, interactive)
    settings.check_replacing(good | {"post_process": "subword_nmt"}, interactive=False)
    settings.check_replacing(good | {"bpe": "subword_nmt"}, interactive=True)
