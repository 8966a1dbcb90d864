"""Settings of checkpoints that would run code, open files or fill the memory.

``SETTINGS[name](state, canary, folder)`` changes a good checkpoint; ``folder`` is for what it
refers to. The good checkpoint is a translation model, unless the name ends in ``_of_classifier``.
"""

import argparse
import os

SETTINGS = {}


def collected(function):
    SETTINGS[function.__name__] = function
    return function


def code(canary):
    return f"[open({str(canary)!r}, 'w')] and [(512, 3)]"


def architecture(name, **settings):
    """A model that reads its settings by evaluating them, as settings of old and of today."""

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


@collected
def attention_of_xformers(state, canary, folder):
    state["cfg"]["model"] = {"_name": "transformer", "xformers_att_config": code(canary)}


@collected
def criterion(state, canary, folder):
    state["cfg"]["criterion"] = {"_name": "ctc", "wer_args": code(canary)}


@collected
def file_written_by_criterion(state, canary, folder):
    """The criterion opens it for writing."""
    state["cfg"]["criterion"] = {
        **{"_name": "sentence_ranking", "ranking_head_name": "x"},
        "save_predictions": str(canary),
    }


@collected
def optimizer(state, canary, folder):
    state["cfg"]["optimizer"] = {"_name": "adam", "adam_betas": code(canary)}


@collected
def user_directory(state, canary, folder):
    plugin = folder / "hostile_plugin"
    plugin.mkdir(exist_ok=True)
    (plugin / "__init__.py").write_text(f"open({str(canary)!r}, 'w')")
    state["cfg"]["common"]["user_dir"] = str(plugin)
    state["cfg"]["model"]["user_dir"] = str(plugin)


@collected
def target(state, canary, folder):
    state["cfg"]["model"] = {"_target_": "os.system", "_args_": [f"touch {canary}"]}


@collected
def target_within(state, canary, folder):
    state["cfg"]["task"]["eval_wer_config"] = {"_target_": "os.system"}


@collected
def environment(state, canary, folder):
    state["cfg"]["task"]["data"] = "${oc.env:SECRET}"


@collected
def environment_in_arguments(state, canary, folder):
    state["args"] = argparse.Namespace(task="translation", data="${oc.env:SECRET}", arch="lstm")
    state["cfg"] = None


@collected
def environment_in_a_key(state, canary, folder):
    state["cfg"]["task"]["${oc.env:SECRET}"] = 1


@collected
def environment_in_hydras_words(state, canary, folder):
    """Quoted so as to end the string that fairseq puts it into."""
    text = "\\',a:${oc.env:SECRET}"
    state["args"] = argparse.Namespace(task="translation", data=text, arch="transformer")
    state["cfg"] = None


@collected
def file_of_hydras(state, canary, folder):
    """A registry's name is a file's name, too."""
    state["args"] = argparse.Namespace(task="translation", data="data", bpe=f"../../../{folder}/x")
    state["cfg"] = None


def _fifo(folder):
    """Whoever opens it waits for ever."""
    path = folder / "fifo"
    if not path.exists():
        os.mkfifo(path)
    return str(path)


@collected
def embeddings_elsewhere(state, canary, folder):
    """fairseq-validate read them again; they are in the checkpoint."""
    state["cfg"]["model"]["encoder_embed_path"] = _fifo(folder)
    state["cfg"]["model"]["decoder_embed_path"] = _fifo(folder)


@collected
def embeddings_elsewhere_of_classifier(state, canary, folder):
    state["cfg"]["model"]["encoder_embed_path"] = _fifo(folder)


@collected
def files_of_subwords(state, canary, folder):
    state["cfg"]["bpe"] = {"_name": "sentencepiece", "sentencepiece_model": _fifo(folder)}
    state["cfg"]["generation"]["replace_unk"] = _fifo(folder)


@collected
def files_of_speech(state, canary, folder):
    state["cfg"]["model"] = {"_name": "wav2vec_ctc", "w2v_path": _fifo(folder)}


@collected
def another_checkpoint(state, canary, folder):
    architecture_settings = {"pretrained": "True", "pretrained_checkpoint": _fifo(folder)}
    model = argparse.Namespace(_name="fconv_self_att", **architecture_settings)
    state["cfg"]["model"] = model


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


@collected
def repeated_in_a_literal(state, canary, folder):
    model = argparse.Namespace(_name="fconv", encoder_layers="[(512, 3)] * 10 ** 9")
    state["cfg"]["model"] = model


TEN_TIMES = ",".join(["*a{0}"] * 10)
# Ten lines of references to the line before: a billion words, to who reads it as YAML.
YAML_BOMB = f"a0: &a0 [{','.join('x' * 10)}]\n" + "".join(
    f"a{line}: &a{line} [{TEN_TIMES.format(line - 1)}]\n" for line in range(1, 10)
)


@collected
def yaml_bomb(state, canary, folder):
    state["cfg"] = YAML_BOMB


@collected
def yaml_bomb_as_a_section(state, canary, folder):
    state["cfg"]["model"] = YAML_BOMB
