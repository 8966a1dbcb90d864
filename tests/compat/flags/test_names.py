"""Architectures that a task or a criterion cannot take are refused before training."""

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags.names import check_names


@pytest.mark.parametrize(
    "kind, name, arch",
    [
        ("task", "multilingual_translation", "multilingual_transformer"),
        ("task", "language_modeling", "transformer_lm"),
        ("criterion", "nat_loss", "levenshtein_transformer"),
    ],
)
def test_a_task_or_criterion_has_its_own_models(kind, name, arch):
    settings = {"task": "translation", "criterion": "cross_entropy", kind: name}
    check_names({**settings, "arch": arch})
    for other in ("dman_iwslt_de_en", "transformer_iwslt_de_en"):
        with pytest.raises(UsageError, match=f"--{kind} {name} is for models .* not for {other}"):
            check_names({**settings, "arch": other})


@pytest.mark.parametrize(
    "kind, name, tasks",
    [
        ("arch", "mpsan_classifier", "sentence_prediction or sentence_pair_prediction"),
        ("arch", "posattn_tagger", "sequence_tagging"),
        ("arch", "posattn_recommender", "news_recommendation"),
        ("criterion", "relatedness", "sentence_prediction or sentence_pair_prediction"),
        ("criterion", "sequence_tagging", "sequence_tagging"),
        ("criterion", "news_recommendation", "news_recommendation"),
    ],
)
def test_a_model_or_criterion_has_its_own_tasks(kind, name, tasks):
    settings = {"arch": "transformer_iwslt_de_en", "criterion": "cross_entropy", kind: name}
    for task in tasks.split(" or "):
        check_names({**settings, "task": task})
    with pytest.raises(UsageError, match=f"^--{kind} {name}: .* --task translation .*{tasks}$"):
        check_names({**settings, "task": "translation"})
