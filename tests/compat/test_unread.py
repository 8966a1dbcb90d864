"""Options that a model has no part to read."""

from argparse import Namespace
from dataclasses import fields

import pytest
from omegaconf import OmegaConf

from fairseq_posattn.compat import command_line
from fairseq_posattn.compat.command_line import parts_of, unread
from fairseq_posattn.model.encoders import ENCODERS
from fairseq_posattn.model.mechanisms import MECHANISMS
from fairseq_posattn.training.models import PosAttnClassifierConfig
from fairseq_posattn.training.models.registration import all_options


def test_an_option_of_a_missing_part_is_reported():
    own = {"arch": "dman_iwslt_de_en", "dman_max_distance": 3, "dropout": 0.3}
    assert not list(unread(own))
    assert list(unread({**own, "mtsa_masks": "none"})) == [
        "--mtsa-masks none changes nothing: it is for mtsa, and this model has "
        "cross, dman, ffn, san"
    ]
    lines = list(unread({"arch": "mpsan_classifier", "encoder_attention_heads": 8}))
    assert [line.partition(", and")[0] for line in lines] == [
        "--encoder-attention-heads 8 changes nothing: it is for transformer, attention, mtsa"
    ]
    assert not list(unread({"arch": "multi_head_classifier", "encoder_attention_heads": 8}))
    assert not list(unread({"arch": "transformer", "encoder_attention_heads": 8}))


def test_defaults_of_the_architecture_are_not_reported():
    """A YAML file gives all options; what its architecture has is not what somebody gave."""
    preset = {"arch": "cspan_classifier", "pooling": "mean", "pooling_queries": 16}
    assert not list(unread(preset))
    assert len(list(unread({**preset, "pooling_queries": 8}))) == 1


def test_learned_positions_that_a_mechanism_replaces_are_reported():
    """Of its side alone, and not where the architecture has both."""
    learned = {"arch": "posattn_transformer", "encoder_learned_pos": True}
    assert not list(unread(learned))
    assert not list(unread({**learned, "decoder_sublayers": "rpr,cross,ffn"}))
    assert list(unread({**learned, "encoder_sublayers": "san,rpr,ffn"})) == [
        "--encoder-learned-pos True changes nothing: --encoder-sublayers has rpr, and no position "
        "embeddings are added"
    ]
    assert len(list(unread({**learned, "no_token_positional_embeddings": True}))) == 1
    assert not list(unread({"arch": "da_transformer_summarization"}))


def test_training_reports_it(caplog):
    """Whether its settings are from a command line or from a YAML file."""
    model = {"_name": "posattn_transformer", "encoder_sublayers": "san,ffn", "sman_radius": "2"}
    cfg = OmegaConf.create({"model": model})
    command_line.check_config(lambda cfg: None, cfg)
    assert "--sman-radius 2 changes nothing: it is for sman" in caplog.text


# A layer is described with these, whoever takes a part of it.
OF_LAYERS = {"encoder_ffn_embed_dim", "encoder_normalize_before", "activation_fn"}
OF_LAYERS |= {"activation_dropout"}
MADE = [("encoder", name) for name in ENCODERS if name != "transformer"]
MADE += [("encoder_sublayers", f"{name},ffn") for name in MECHANISMS]


@pytest.mark.parametrize("option, value", MADE)
def test_options_that_an_encoder_reads_are_never_reported(option, value):
    """The helps name it at all that is its own and is read of it."""
    read = set()

    class Watched(Namespace):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    options = {"encoder": "transformer", "max_positions": 16, option: value}
    cfg = Watched(**vars(all_options(Namespace(**options), PosAttnClassifierConfig)))
    ENCODERS[cfg.encoder](cfg, dim=48)
    readers = {
        option.name: option.metadata.get("readers", ())
        for option in fields(PosAttnClassifierConfig)
    }
    own = {name for name in read - OF_LAYERS if readers.get(name)}
    assert all(parts_of(options).intersection(readers[name]) for name in own), own
