"""Companions, conflicts, packages and devices, by the tables of checks."""

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags import checks

TRAIN = {"max_tokens": 100, "optimizer": "adam", "save_dir": "checkpoints", "cpu": True}
SEARCH = {"beam": 5, "nbest": 1, "print_alignment": "hard", "replace_unk": "@@ "}
CASES = [
    (checks.TRAINING, TRAIN, {"decoder_attention_heads": 2, "decoder_embed_dim": 4}),
    (checks.TRAINING, TRAIN, {"pooling": "window_max", "word_ngrams": 1}),
    (checks.TRAINING, TRAIN, {"pooling": "mean", "word_ngrams": 2}),
    (checks.VALIDATION, {}, {"attention_impl": "sdpa"}),
    (checks.VALIDATION, {}, {"attention_impl": "auto", "decoder_sublayers": "san,cross,ffn"}),
    (checks.VALIDATION, {}, {"combine_valid_subsets": True, "valid_subset": "valid"}),
    (checks.VALIDATION, {}, {"combine_valid_subsets": None, "valid_subset": "valid,test"}),
    (checks.SEARCH_OF_FILES, SEARCH, {"post_process": "subword_nmt"}),
    (checks.SEARCH_OF_INPUT, SEARCH, {"bpe": "subword_nmt"}),
]
MISTAKES = [
    (
        checks.TRAINING,
        TRAIN,
        {"decoder_attention_heads": 3, "decoder_embed_dim": 4},
        "3: .*-dim 4",
    ),
    (checks.TRAINING, TRAIN, {"pooling": "window_max", "word_ngrams": 2}, "--word-ngrams 2: --po"),
    (checks.TRAINING, TRAIN, {"fp16": True}, r"--fp16: .* \(in YAML: common.fp16=false"),
    (checks.TRAINING, TRAIN, {"amp": True}, "--amp: .* common.amp=false"),
    (
        checks.TRAINING,
        TRAIN,
        {"distributed_rank": 2, "distributed_world_size": 2},
        "--distributed-rank 2: it must be less",
    ),
    (
        checks.VALIDATION,
        {},
        {"attention_impl": "sdpa", "decoder_sublayers": "san,cross,ffn"},
        "--attention-impl sdpa: .* give auto.*disable-validation",
    ),
    (
        checks.VALIDATION,
        {},
        {"combine_valid_subsets": True, "valid_subset": "valid,test"},
        "--combine-val joins .* --valid-subset valid,test must",
    ),
    (checks.SEARCH_OF_FILES, SEARCH, {"print_alignment": "soft"}, "--replace-unk: it needs --pr"),
    (checks.SEARCH_OF_FILES, SEARCH, {"bpe": "subword_nmt"}, "--replace-unk: --bpe joins the sub"),
    (checks.SEARCH_OF_FILES, SEARCH, {"tokenizer": "moses"}, "--replace-unk: --tokenizer joins"),
    (checks.SEARCH_OF_FILES, SEARCH, {"retain_iter_history": True}, "--task translation_lev"),
    (checks.SEARCH_OF_INPUT, SEARCH, {"post_process": "x"}, "--replace-unk: --post-process joins"),
]


@pytest.mark.parametrize("rules, good, given", CASES)
def test_good_settings(rules, good, given):
    checks.check_rules(rules, good | given)


@pytest.mark.parametrize("rules, good, given, words", MISTAKES)
def test_mistakes_are_one_line(rules, good, given, words):
    with pytest.raises(UsageError, match=words):
        checks.check_rules(rules, good | given)


@pytest.mark.parametrize("name, words", [(name, row[1]) for name, row in checks.PACKAGES.items()])
def test_a_package_must_be_installed(monkeypatch, name, words):
    monkeypatch.setattr(checks, "find_spec", lambda package: None)
    with pytest.raises(UsageError, match=f" needs {words}: pip install "):
        checks.check_packages({name: "runs"})
    checks.check_packages({name: None})
    monkeypatch.setattr(checks, "find_spec", lambda package: package)
    checks.check_packages({name: "runs"})
