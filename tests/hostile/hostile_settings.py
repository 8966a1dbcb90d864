"""Settings of checkpoints that would run code, open files or fill the memory.

``SETTINGS[name](state, canary, folder)`` changes a good checkpoint; ``folder`` is for what it
refers to. The good checkpoint is a translation model, unless the name ends in ``_of_classifier``.
"""

import argparse
import os

SETTINGS = {}


def code(canary):
    return f"[open({str(canary)!r}, 'w')] and [(512, 3)]"


def architecture(name, **settings):
    """Add settings that a model of fairseq evaluates, in its older and its present form."""

    def as_arguments(state, canary, folder):
        values = {key: value(canary) for key, value in settings.items()}
        task = {"task": "translation", "data": state["cfg"]["task"]["data"]}
        task |= {"max_source_positions": 16, "max_target_positions": 16}
        languages = {"source_lang": "de", "target_lang": "en", "criterion": "cross_entropy"}
        state["args"] = argparse.Namespace(arch=name, **task, **languages, **values)
        state["cfg"] = None

    def as_configuration(state, canary, folder):
        as_arguments(state, canary, folder)
        model, state["args"] = state["args"], None
        model._name = name
        state["cfg"] = GOOD(state) | {"model": model}

    SETTINGS[f"{name}_{'_'.join(settings)}_args"] = as_arguments
    SETTINGS[f"{name}_{'_'.join(settings)}"] = as_configuration


def GOOD(state):
    return {
        "task": {"_name": "translation", "data": "data", "source_lang": "de", "target_lang": "en"}
    }


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


TEN_TIMES = ",".join(["*a{0}"] * 10)
# Ten lines of references to the line before: a billion words, for a YAML parser.
YAML_BOMB = f"a0: &a0 [{','.join('x' * 10)}]\n" + "".join(
    f"a{line}: &a{line} [{TEN_TIMES.format(line - 1)}]\n" for line in range(1, 10)
)


def fifo(folder):
    """Return the path of a FIFO; reading it blocks."""
    path = folder / "fifo"
    if not path.exists():
        os.mkfifo(path)
    return str(path)


def plugin(canary, folder):
    path = folder / "hostile_plugin"
    path.mkdir(exist_ok=True)
    (path / "__init__.py").write_text(f"open({str(canary)!r}, 'w')")
    return str(path)


# New values of groups of settings, by the name of the group.
GROUPS = {
    "attention_of_xformers": lambda canary, folder: {
        "model": {"_name": "transformer", "xformers_att_config": code(canary)}
    },
    "criterion": lambda canary, folder: {"criterion": {"_name": "ctc", "wer_args": code(canary)}},
    "file_written_by_criterion": lambda canary, folder: {
        "criterion": {
            **{"_name": "sentence_ranking", "ranking_head_name": "x"},
            "save_predictions": str(canary),
        }
    },
    "optimizer": lambda canary, folder: {
        "optimizer": {"_name": "adam", "adam_betas": code(canary)}
    },
    "target": lambda canary, folder: {
        "model": {"_target_": "os.system", "_args_": [f"touch {canary}"]}
    },
    "files_of_subwords": lambda canary, folder: {
        "bpe": {"_name": "sentencepiece", "sentencepiece_model": fifo(folder)},
        "generation": {"replace_unk": fifo(folder)},
    },
    "files_of_speech": lambda canary, folder: {
        "model": {"_name": "wav2vec_ctc", "w2v_path": fifo(folder)}
    },
    "another_checkpoint": lambda canary, folder: {
        "model": argparse.Namespace(
            _name="fconv_self_att", pretrained="True", pretrained_checkpoint=fifo(folder)
        )
    },
    "repeated_in_a_literal": lambda canary, folder: {
        "model": argparse.Namespace(_name="fconv", encoder_layers="[(512, 3)] * 10 ** 9")
    },
    "yaml_bomb_as_a_section": lambda canary, folder: {"model": YAML_BOMB},
}
# Values in groups that stay otherwise: name of the group, and its changes.
VALUES = {
    "user_directory": lambda canary, folder: ("common", {"user_dir": plugin(canary, folder)}),
    "user_directory_of_a_model": lambda canary, folder: (
        *("model", {"user_dir": plugin(canary, folder)}),
    ),
    "target_within": lambda canary, folder: (
        "task",
        {"eval_wer_config": {"_target_": "os.system"}},
    ),
    "environment": lambda canary, folder: ("task", {"data": "${oc.env:SECRET}"}),
    "environment_in_a_key": lambda canary, folder: ("task", {"${oc.env:SECRET}": 1}),
    # they are in the checkpoint
    "embeddings_elsewhere": lambda canary, folder: (
        "model",
        {"encoder_embed_path": fifo(folder), "decoder_embed_path": fifo(folder)},
    ),
    "embeddings_elsewhere_of_classifier": lambda canary, folder: (
        *("model", {"encoder_embed_path": fifo(folder)}),
    ),
}
# Settings as fairseq wrote them before it had groups.
ARGUMENTS = {
    "environment_in_arguments": lambda folder: {"data": "${oc.env:SECRET}", "arch": "lstm"},
    # quoted so as to end the string that fairseq puts it into
    "environment_in_hydras_words": lambda folder: {
        "data": "\\',a:${oc.env:SECRET}",
        "arch": "transformer",
    },
    # the name of a registered class is a file's name, too
    "file_of_hydras": lambda folder: {"data": "data", "bpe": f"../../../{folder}/x"},
}


def _groups(values):
    def edit(state, canary, folder):
        state["cfg"].update(values(canary, folder))

    return edit


def _values(values):
    def edit(state, canary, folder):
        group, changes = values(canary, folder)
        state["cfg"][group].update(changes)

    return edit


def _arguments(values):
    def edit(state, canary, folder):
        state["args"] = argparse.Namespace(task="translation", **values(folder))
        state["cfg"] = None

    return edit


def _yaml(state, canary, folder):
    state["cfg"] = YAML_BOMB


for _table, _edit in ((GROUPS, _groups), (VALUES, _values), (ARGUMENTS, _arguments)):
    SETTINGS |= {name: _edit(values) for name, values in _table.items()}
SETTINGS["yaml_bomb"] = _yaml


def sized(name, **settings):
    def edit(state, canary, folder):
        state["cfg"]["model"].update(settings)

    SETTINGS[name] = edit


sized("layers", encoder_layers=10**7)
sized("features", encoder_embed_dim=10**6, decoder_embed_dim=10**6, decoder_output_dim=10**6)
sized("features_of_ffn", encoder_ffn_embed_dim=10**10)
sized("heads", encoder_attention_heads=10**9)
sized("positions", max_source_positions=10**9)
sized("learned_positions", max_source_positions=10**9, encoder_learned_pos=True)
sized("beyond_all_numbers", encoder_layers=10**70)
sized("layers_in_words", encoder_sublayers="san," * 10**6 + "ffn")
sized("distances", dman_max_distance=10**10)
sized("distances_of_rpr", encoder_sublayers="rpr,ffn", rpr_max_distance=10**10)
