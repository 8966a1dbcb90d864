"""A tiny random language model, and pairs prepared in its subwords, for ``--tiny``."""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

from fairseq_posattn.files import write_json, write_text
from fairseq_posattn.preparation.corpora.nli import LABELS, MULTINLI_FILES, SNLI_FILES

FILES = {"snli_gpt": SNLI_FILES, "multinli_gpt": MULTINLI_FILES}
SIZES = {"n_positions": 64, "n_embd": 12, "n_layer": 2, "n_head": 2}


def write_language_model(folder: Path, words: Iterable[str]) -> None:
    """Write a folder as Hugging Face's ``openai-gpt``: a subword for each two-letter word.

    Longer words are split into characters.
    """
    import torch  # only here: the recipe's process needs none of it
    from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

    words = sorted(words)
    characters = sorted(set("".join(words)))
    pairs = [word for word in words if len(word) == 2]
    ends = [f"{character}</w>" for character in characters]
    subwords = ["<unk>", *characters, *ends, *(f"{pair}</w>" for pair in pairs)]
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        config = OpenAIGPTConfig(vocab_size=len(subwords), **SIZES)
        OpenAIGPTLMHeadModel(config).save_pretrained(folder)
    write_json(folder / "vocab.json", {one: row for row, one in enumerate(subwords)})
    merges = "".join(f"{first} {second}</w>\n" for first, second in pairs)
    write_text(folder / "merges.txt", f"#version: 0.2\n{merges}")


def make_transfer(
    name: str, folder: Path, model: Path, pairs: dict[str, list[tuple[int, str, str]]]
) -> None:
    """Prepare made-up pairs of SNLI or MultiNLI with a language model.

    Args:
        name: key of :data:`FILES`.
        pairs: label's number, premise and hypothesis, by split.
    """
    from fairseq_posattn.preparation.__main__ import prepare  # only here: it reads everything

    with tempfile.TemporaryDirectory() as source:
        for split, file in FILES[name].items():
            keys = ("gold_label", "sentence1_binary_parse", "sentence2_binary_parse")
            lines = [
                json.dumps(dict(zip(keys, (LABELS[label], *texts), strict=True))) + "\n"
                for label, *texts in pairs[split]
            ]
            write_text(Path(source, file), "".join(lines))
        options = ["--source", source, "--dest", str(folder), "--language-model", str(model)]
        if prepare("classification", [name.removesuffix("_gpt"), *options, "--jobs", "1"]):
            raise RuntimeError("the made-up pairs could not be prepared")
