"""Small untrained models to look into."""

import functools
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_posattn.inference import prediction, translation
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.inference.trained_model import load as load_checkpoint
from fairseq_posattn.inspection import places
from fairseq_posattn.inspection.page.view import ClassifierView, TranslationView
from fairseq_posattn.training.models import PosAttnClassifier, PosAttnTransformer

FIXTURES = Path(__file__).parents[2] / "fixtures"


@functools.cache
def classification_task():
    folder = FIXTURES / "classification"
    return load_checkpoint(str(folder / "checkpoint.pt"), str(folder / "data")).task


def classifier_view(pairs=False, **flags):
    """Over the words and labels of the classification fixture: a to e, back and forth."""
    task = classification_task()
    torch.manual_seed(1)
    cfg = Namespace(encoder_embed_dim=8, encoder_attention_heads=2, max_positions=16, **flags)
    model = PosAttnClassifier.build_model(cfg, task)
    model.encodes_pairs = pairs
    model.register_classification_head("sentence_classification_head", num_classes=2)
    trained = TrainedModel("folder/checkpoint.pt", model.eval(), model.cfg, task)
    predictor = prediction.predictor_of(trained, device="cpu")
    predictor.encodes_apart = predictor.expects_pairs = pairs
    sublayers = places.of_classifier(trained, predictor.encodes_apart)
    return ClassifierView(trained, predictor, sublayers)


def translation_view(tmp_path, source="a b c d e", target="A B C D E", **flags):
    """Over these words, in layers of DMAN if not by the flags."""
    dictionaries = []
    for words in (source, target):
        dictionary = Dictionary()
        dictionary.encode_line(words)
        dictionary.finalize()
        dictionaries.append(dictionary)
    languages = {"source_lang": "xx", "target_lang": "yy"} | {
        name: flags.pop(name) for name in ("source_lang", "target_lang") if name in flags
    }
    task = TranslationTask(TranslationConfig(data=str(tmp_path), **languages), *dictionaries)
    sizes = {
        f"{side}_{name}": number
        for side in ("encoder", "decoder")
        for name, number in (("embed_dim", 16), ("ffn_embed_dim", 16), ("layers", 2))
    }
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
    sublayers = {
        "encoder_sublayers": "dman,san,ffn",
        "decoder_sublayers": "dman,san,cross,ffn",
    }
    torch.manual_seed(1)
    cfg = Namespace(**(sizes | heads | sublayers | flags))
    model = PosAttnTransformer.build_model(cfg, task).eval()
    trained = TrainedModel("folder/checkpoint.pt", model, cfg, task)
    translator = translation.translator_of([trained], device="cpu", beam=2, max_len_b=8)
    return TranslationView(trained, translator, places.of_translation(trained))


@pytest.fixture
def classifier():
    """``classifier(encoder="mpsan", pooling="source2token")``"""
    return classifier_view


@pytest.fixture
def translator(tmp_path):
    """``translator(encoder_sublayers="da,ffn")``"""

    def build(*words, **flags):
        return translation_view(tmp_path, *words, **flags)

    return build
