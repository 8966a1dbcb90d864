"""Settings of checkpoints that would run code, open files or fill the memory.

``SETTINGS[name](state, canary, folder)`` changes a good checkpoint; ``prepare(canary, folder)``
makes what settings refer to. The good checkpoint is a translation model, unless the name ends in
``_of_classifier``.
"""

import argparse
import os
from functools import partial
from pathlib import Path

SETTINGS = {}


def prepare(canary, folder):
    """Make a FIFO, which blocks its readers, and a plugin in a folder."""
    os.mkfifo(folder / "fifo")
    (folder / "plugin").mkdir()
    (folder / "plugin" / "__init__.py").write_text(f"open({str(canary)!r}, 'w')")


def code(canary):
    return f"[open({str(canary)!r}, 'w')] and [(512, 3)]"


SMALL = dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim", "decoder_out_embed_dim"), 4)
SMALL |= dict.fromkeys(("encoder_layers", "decoder_layers"), "[(4, 3)]")


def architecture(name, **settings):
    """Add settings that a model of fairseq evaluates, in its older and its present form."""

    def as_arguments(state, canary, folder):
        values = dict(SMALL) if name.startswith("fconv") else {}
        values |= {key: value(canary) for key, value in settings.items()}
        task = {"task": "translation", "data": state["cfg"]["task"]["data"]}
        task |= {"max_source_positions": 16, "max_target_positions": 16}
        task |= {"source_lang": "de", "target_lang": "en", "criterion": "cross_entropy"}
        state["args"] = argparse.Namespace(arch=name, **task, **values)
        state["cfg"] = None

    def as_configuration(state, canary, folder):
        as_arguments(state, canary, folder)
        model, state["args"] = state["args"], None
        model._name = name
        task = {"_name": "translation", "data": "data", "source_lang": "de", "target_lang": "en"}
        state["cfg"] = {"task": task, "model": model}

    SETTINGS[f"{name}_{'_'.join(settings)}_args"] = as_arguments
    SETTINGS[f"{name}_{'_'.join(settings)}"] = as_configuration


architecture("fconv", encoder_layers=code)
architecture("fconv", decoder_layers=code)
architecture("fconv", decoder_attention=code)
architecture("fconv_self_att", pretrained=code)
architecture("fconv_self_att", encoder_layers=code, pretrained=lambda canary: "False")
architecture("lstm", decoder_attention=code)
architecture("lstm", adaptive_softmax_cutoff=code)
architecture("transformer", adaptive_softmax_cutoff=code)
architecture("lightconv", encoder_kernel_size_list=code)
architecture("wav2vec2", conv_feature_layers=code)
architecture("hubert", conv_feature_layers=code)
architecture("wav2vec", conv_feature_layers=code)
architecture("transformer_lm", character_filters=code, character_embeddings=lambda canary: True)
architecture("fconv_lm", decoder_layers=code)


WIDTHS, LEARNED = (
    ("encoder_embed", "decoder_embed", "decoder_output"),
    {"encoder_learned_pos": True},
)
TEN_TIMES = ",".join(["*a{0}"] * 10)
# Ten lines of references to the line before: a billion words, for a YAML parser.
YAML_BOMB = f"a0: &a0 [{','.join('x' * 10)}]\n" + "".join(
    f"a{line}: &a{line} [{TEN_TIMES.format(line - 1)}]\n" for line in range(1, 10)
)


def groups(canary, folder):
    """Return new values of groups of settings, by the name of the group."""
    run, pipe, model = code(canary), str(folder / "fifo"), argparse.Namespace
    subwords = {"_name": "sentencepiece", "sentencepiece_model": pipe}
    ranking = {"_name": "sentence_ranking", "ranking_head_name": "x"}
    pretrained = {"pretrained": "True", "pretrained_checkpoint": pipe}
    return {
        "attention_of_xformers": {"model": {"_name": "transformer", "xformers_att_config": run}},
        "criterion": {"criterion": {"_name": "ctc", "wer_args": run}},
        "file_written_by_criterion": {"criterion": ranking | {"save_predictions": str(canary)}},
        "optimizer": {"optimizer": {"_name": "adam", "adam_betas": run}},
        "target": {"model": {"_target_": "os.system", "_args_": [f"touch {canary}"]}},
        "files_of_subwords": {"bpe": subwords, "generation": {"replace_unk": pipe}},
        "files_of_speech": {"model": {"_name": "wav2vec_ctc", "w2v_path": pipe}},
        "another_checkpoint": {"model": model(_name="fconv_self_att", **pretrained)},
        "repeated_in_a_literal": {
            "model": model(_name="fconv", encoder_layers="[(512, 3)] * 10 ** 9")
        },
        "yaml_bomb_as_a_section": {"model": YAML_BOMB},
    }


def values(canary, folder):
    """Return changes of groups that stay otherwise."""
    plugin, pipe = {"user_dir": str(folder / "plugin")}, str(folder / "fifo")
    embeddings = {"encoder_embed_path": pipe, "decoder_embed_path": pipe}
    return {
        "user_directory": {"common": plugin},
        "user_directory_of_a_model": {"model": plugin},
        "target_within": {"task": {"eval_wer_config": {"_target_": "os.system"}}},
        "environment": {"task": {"data": "${oc.env:SECRET}"}},
        "environment_in_a_key": {"task": {"${oc.env:SECRET}": 1}},
        "embeddings_elsewhere": {"model": embeddings},  # they are in the checkpoint
        "embeddings_elsewhere_of_classifier": {"model": {"encoder_embed_path": pipe}},
        "layers": {"model": {"encoder_layers": 10**7}},
        "features": {"model": {f"{width}_dim": 10**6 for width in WIDTHS}},
        "features_of_ffn": {"model": {"encoder_ffn_embed_dim": 10**10}},
        "heads": {"model": {"encoder_attention_heads": 10**9}},
        "positions": {"model": {"max_source_positions": 10**9}},
        "learned_positions": {"model": {"max_source_positions": 10**9} | LEARNED},
        "beyond_all_numbers": {"model": {"encoder_layers": 10**70}},
        "layers_in_words": {"model": {"encoder_sublayers": "san," * 10**6 + "ffn"}},
        "positions_in_a_string": {"model": {"max_source_positions": "1000000000"}},
        "multiple_of_lengths": {"task": {"required_seq_len_multiple": 20_000_000}},
        "multiple_in_a_string": {"task": {"required_seq_len_multiple": "20000000"}},
        "buckets": {"task": {"num_batch_buckets": 10**8}},
        "beam": {"task": {"eval_bleu": True, "eval_bleu_args": '{"beam": 1000000}'}},
        "dropout_below_zero": {"model": {"attention_dropout": -1}},
        "distances": {"model": {"dman_max_distance": 10**10}},
        "distances_of_rpr": {"model": {"encoder_sublayers": "rpr,ffn", "rpr_max_distance": 10**10}},
    }


def arguments(canary, folder):
    """Return settings as fairseq wrote them before it had groups."""
    return {
        "environment_in_arguments": {"data": "${oc.env:SECRET}", "arch": "lstm"},
        # quoted so as to end the string that fairseq puts it into
        "environment_in_hydras_words": {"data": "\\',a:${oc.env:SECRET}", "arch": "transformer"},
        # the name of a registered class is a file's name, too
        "file_of_hydras": {"data": "data", "bpe": f"../../../{folder}/x"},
    }


def change(name, state, canary, folder):
    for group, settings in groups(canary, folder).get(name, {}).items():
        state["cfg"][group] = settings
    for group, settings in values(canary, folder).get(name, {}).items():
        state["cfg"][group].update(settings)
    if older := arguments(canary, folder).get(name):
        state["args"] = argparse.Namespace(task="translation", **older)
        state["cfg"] = None
    if name == "yaml_bomb":
        state["cfg"] = YAML_BOMB


for _name in (*groups("", Path()), *values("", Path()), *arguments("", Path()), "yaml_bomb"):
    SETTINGS[_name] = partial(change, _name)
