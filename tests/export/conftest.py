"""Checkpoints of small untrained models; every weight affects the output."""

from pathlib import Path

import pytest
import torch
from classifier_builder import dictionary_of
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from fairseq_posattn.training.plugin import register

register()

WORDS = [f"word{number}" for number in range(20)]


def untrained(folder: Path, task, arch, *flags):
    """Write ``checkpoint.pt`` beside the dictionaries; return its path and the model."""
    words = [str(folder), "--task", task, "--arch", arch, *flags]
    args = options.parse_args_and_arch(options.get_training_parser(task), words)
    cfg = convert_namespace_to_omegaconf(args)
    made = tasks.setup_task(cfg.task)
    torch.manual_seed(1)
    model = made.build_model(cfg.model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
                module.weight[module.padding_idx] = 0
    path = folder / "checkpoint.pt"
    state = {"cfg": OmegaConf.to_container(cfg, resolve=False, enum_to_str=True), "args": None}
    state |= {"model": model.state_dict(), "extra_state": {}, "task_state": {}}
    history = [{"num_updates": 0, "lr_scheduler_state": {}}]
    torch.save({**state, "optimizer_history": history}, path)
    return path, model.eval()


@pytest.fixture
def classifier(tmp_path):
    """Return ``classifier(arch, *flags)``: a checkpoint of four classes, and its model."""

    def make(arch, *flags, task="sentence_prediction", classes=4, words=WORDS):
        symbols = {"input0": words, "label": [f"class{number}" for number in range(classes)]}
        if task == "sentence_pair_prediction":
            symbols["input1"] = words
        for part, names in symbols.items():
            (tmp_path / part).mkdir()
            dictionary_of(*names).save(str(tmp_path / part / "dict.txt"))
        sizes = ("--num-classes", str(classes), "--max-positions", "64")
        sizes += ("--criterion", "sentence_classification")
        return untrained(tmp_path, task, arch, *sizes, *flags)

    return make


@pytest.fixture
def translator(tmp_path):
    """Return ``translator(arch, *flags)``: a checkpoint, and its model."""

    def make(arch, *flags, joined=True, words=WORDS, task="translation"):
        for language, known in (("de", words), ("en", words if joined else words[3:])):
            dictionary_of(*known).save(str(tmp_path / f"dict.{language}.txt"))
        pair = ("--source-lang", "de", "--target-lang", "en")
        return untrained(tmp_path, task, arch, *pair, *flags)

    return make
