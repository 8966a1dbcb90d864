"""Models built as fairseq-train builds them, on dictionaries of numbered words."""

import argparse
from types import SimpleNamespace

import pytest
from classifier_builder import dictionary_of
from fairseq import models
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_posattn.training.plugin import register

register()

TINY = [
    f"--{side}-{option}"
    for side in ("encoder", "decoder")
    for option in ("embed-dim=16", "ffn-embed-dim=16", "layers=2", "attention-heads=2")
]


def dictionary(size):
    return dictionary_of(*(f"word{word}" for word in range(size - 4)))  # and special symbols


@pytest.fixture
def build_model():
    """``build_model(arch, *flags)``; ``tiny`` for two layers of 16 features.

    ``words`` is the source's dictionary or its size, ``target_words`` the size of the target's,
    without which the dictionary is joint.
    """

    def build(arch, *flags, tiny=True, words=20, target_words=None):
        parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
        ARCH_MODEL_REGISTRY[arch].add_args(parser)
        cfg = parser.parse_args([*(TINY if tiny else ()), *flags])
        cfg.arch = arch
        source = dictionary(words) if isinstance(words, int) else words
        target = source if target_words is None else dictionary(target_words)
        task = SimpleNamespace(source_dictionary=source, target_dictionary=target)
        return models.build_model(cfg, task)

    return build
