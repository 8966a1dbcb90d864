"""Small untrained models whose attention the tests inspect."""

import copy
import functools
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from classifier_builder import dictionary_of
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_posattn.inference.trained_model import TrainedModel, load
from fairseq_posattn.inspection import attention_layers
from fairseq_posattn.inspection.page.view import ClassifierView, TranslationView
from fairseq_posattn.training.models import PosAttnClassifier, PosAttnTransformer
from fairseq_posattn.training.plugin import register

register()

FIXTURES = Path(__file__).parents[1] / "fixtures"
SIZES = {"embed_dim": 16, "ffn_embed_dim": 16, "layers": 2, "attention_heads": 2}


def transformer(task, encoder, decoder, **flags):
    """Return a model of two layers and two heads with these sublayers."""
    for side, names in (("encoder", encoder), ("decoder", decoder)):
        sizes = {f"{side}_{name}": number for name, number in SIZES.items()}
        flags = {**sizes, f"{side}_sublayers": names, **flags}
    torch.manual_seed(1)
    cfg = Namespace(**flags)
    return PosAttnTransformer.build_model(cfg, task).eval(), cfg


@pytest.fixture
def build():
    """Return ``build("dman,san,ffn")``: an encoder of two layers and its attention layers."""

    def build(encoder, decoder="san,cross,ffn", side="encoder", **flags):
        dictionary = dictionary_of(*"abcdefghij")
        task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
        chosen = getattr(transformer(task, encoder, decoder, **flags)[0], side)
        names = {"encoder": encoder, "decoder": decoder}[side].split(",")
        return chosen, attention_layers.of_stack(chosen.layers, names)

    return build


@pytest.fixture
def translator(tmp_path):
    """Return ``translator(encoder_sublayers="da,ffn")``: a view of a model."""

    def build(source="a b c d e", target="A B C D E", **flags):
        languages = {name: flags.pop(name, "xx") for name in ("source_lang", "target_lang")}
        settings = TranslationConfig(data=str(tmp_path), **languages)
        task = TranslationTask(
            settings, *(dictionary_of(*text.split()) for text in (source, target))
        )
        encoder = flags.pop("encoder_sublayers", "dman,san,ffn")
        model, cfg = transformer(task, encoder, "dman,san,cross,ffn", **flags)
        trained = TrainedModel("folder/checkpoint.pt", model, cfg, task)
        return TranslationView(trained, beam=2, max_len_b=8)

    return build


@functools.cache
def classification_task():
    folder = FIXTURES / "classification"
    return load(str(folder / "checkpoint.pt"), str(folder / "data")).task


@pytest.fixture
def classifier():
    """Return ``classifier(encoder="mpsan")``: a view of a model of the words a to e."""

    def build(pairs=False, **flags):
        task = copy.copy(classification_task())
        task.encodes_pairs = pairs
        torch.manual_seed(1)
        cfg = Namespace(encoder_embed_dim=8, encoder_attention_heads=2, max_positions=16, **flags)
        model = PosAttnClassifier.build_model(cfg, task)
        model.register_classification_head("sentence_classification_head", num_classes=2)
        trained = TrainedModel("folder/checkpoint.pt", model.eval(), model.cfg, task)
        return ClassifierView(trained)

    return build


@pytest.fixture
def sentences():
    """Return sentences of several lengths; one length repeats."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(4, 14, (length,), generator=generator) for length in (5, 3, 7, 5, 1, 5)]
