"""A tiny random language model, and pairs prepared in its subwords, for ``--tiny``."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairseq_posattn.common.files import write_json, write_text
from fairseq_posattn.preparation.corpora.nli import LABELS, MULTINLI_FILES, SNLI_FILES

FILES = {"snli_gpt": SNLI_FILES, "multinli_gpt": MULTINLI_FILES}


def write_language_model(folder: Path, text: str) -> None:
    """Write a folder as Hugging Face's ``openai-gpt``, with subwords of one or two characters."""
    import torch  # only here: the recipe's process needs none of it
    from transformers import OpenAIGPTConfig, OpenAIGPTLMHeadModel

    characters = sorted(set("".join(text.split())))
    pairs = sorted(word for word in set(text.split()) if len(word) == 2)
    ends = [f"{one}</w>" for one in (*characters, *pairs)]
    subwords = ["<unk>", *characters, *ends]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        count = len(subwords)
        sizes = OpenAIGPTConfig(vocab_size=count, n_positions=64, n_embd=12, n_layer=2, n_head=2)
        OpenAIGPTLMHeadModel(sizes).save_pretrained(folder)
    write_json(folder / "vocab.json", {one: row for row, one in enumerate(subwords)})
    merges = "".join(f"{pair[0]} {pair[1]}</w>\n" for pair in pairs)
    write_text(folder / "merges.txt", f"#version: 0.2\n{merges}")


def make_transfer(
    name: str, folder: Path, pairs: Mapping[str, Sequence[tuple[int, str, str]]]
) -> None:
    """Write a language model beside ``folder``, and prepare made-up pairs with it.

    Args:
        name: key of :data:`FILES`.
        pairs: label's number, premise and hypothesis, by split.
    """
    from fairseq_posattn.preparation.kinds import prepare  # slow to import

    model = folder.with_name("openai-gpt")
    texts = [text for rows in pairs.values() for _, *both in rows for text in both]
    write_language_model(model, " ".join(texts))
    keys = ("gold_label", "sentence1_binary_parse", "sentence2_binary_parse")
    with tempfile.TemporaryDirectory() as source:
        for split, file in FILES[name].items():
            rows = [(LABELS[label], *both) for label, *both in pairs[split]]
            lines = [json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows]
            write_text(Path(source, file), "".join(lines))
        options = ["--source", source, "--dest", str(folder), "--language-model", str(model)]
        if prepare("classification", [name.removesuffix("_gpt"), *options, "--jobs", "1"]):
            raise RuntimeError("the made-up pairs could not be prepared")
