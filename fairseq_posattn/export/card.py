"""The model card of an exported folder: how to load it, what it is, its data and metrics."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedConfig

from fairseq_posattn.common.files import write_text
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.compat.checkpoints.settings import saved_group
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.model.mechanisms import MECHANISMS, PACKAGED
from fairseq_posattn.model.transformer_layer import split_sublayers
from fairseq_posattn.text.manifest import Manifest

NAME = "README.md"
CODE = re.compile(r"[a-z]{2,3}([-_][A-Za-z0-9]{2,8})*")  # not the sides of summaries
CARD = """---
library_name: transformers
pipeline_tag: {pipeline}
{language}tags: [fairseq-posattn]
---
# {name}

A model for {pipeline}, exported from a fairseq checkpoint by
[fairseq-posattn](https://github.com/fairseq-posattn/fairseq-posattn). To load it:

```python
import fairseq_posattn.hugging_face  # registers the model; pip install 'fairseq-posattn[export]'
{imported}from transformers import {auto}, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = {auto}.from_pretrained("{name}")
inputs = tokenizer({text}, return_tensors="pt")
print({result})
```
"""


def write(
    folder: Path,
    trained: TrainedModel,
    config: PreTrainedConfig,
    tokenizer: Any,
    rules: Manifest | None,
) -> None:
    """Write the card of the exported model in ``folder``; ``rules`` describe its data if known."""
    languages, text = [], '"A sentence."'
    if config.is_encoder_decoder:
        languages = [*trained.languages]
        is_summary = "source" in languages or "rouge" in str(rules and rules.metric)
        pipeline = "summarization" if is_summary else "translation"
        auto = "AutoModelForSeq2SeqLM"
        result = "tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True)"
    else:
        text += ', "Another one."' if config.encodes_pairs else ""
        pipeline, auto = "text-classification", "AutoModelForSequenceClassification"
        result = "model.config.id2label, model(**inputs).logits.softmax(-1)"
        if trained.task.cfg.regression_target:
            result = "model(**inputs).logits.item()"
            if config.num_labels != 1:
                scores = "model(**inputs).logits.softmax(-1)[0].tolist()"
                result = f"sum(score * p for score, p in enumerate({scores}, start=1))"
    names = {"name": folder.name, "auto": auto, "text": text, "result": result}
    names["imported"] = _import_line(config.options, trained.path)
    card = CARD.format(pipeline=pipeline, language=language_line(languages), **names)
    data: dict[str, str | None] = {"languages": " to ".join(languages)}
    words = getattr(tokenizer, "words", rules and rules.word_rule) or "tokens separated by spaces"
    is_lower = getattr(tokenizer, "lower", rules and rules.lower)
    data["tokenization"] = words + (", lower-cased" if is_lower else "")
    if rules is not None:
        counts = (f"{count:,} {name}" for name, count in rules.examples.items())
        data |= {"corpus": rules.corpus, "examples": ", ".join(counts)}
        data["subwords"] = rules.subwords
    sections = {"Model": _model(trained, config), "Data": data, "Metrics": _metrics(trained.path)}
    for title, rows in sections.items():
        lines = [f"| {name} | {value} |" for name, value in rows.items() if value]
        if lines:
            card += "\n".join([f"\n## {title}", "", "| | |", "|---|---|", *lines, ""])
    (folder / NAME).write_text(card, encoding="utf-8")


def add_section(folder: Path, title: str, lines: Sequence[str]) -> None:
    card = (folder / NAME).read_text(encoding="utf-8")
    write_text(folder / NAME, "\n".join([card, f"## {title}", "", *lines, ""]))


def language_line(names: Sequence[str]) -> str:
    """Return the card's line of languages by BCP 47, of names such as ``de`` and ``zh_TW``."""
    codes = [name.replace("_", "-") for name in names if CODE.fullmatch(name)]
    return f"language: {json.dumps(codes)}\n" if codes else ""  # quoted: no is false in YAML


def _import_line(options: Mapping[str, Any], path: str) -> str:
    """Return the line that imports the folder of ``--user-dir`` if a mechanism is a user's."""
    sides = (str(options.get(f"{side}_sublayers", "")) for side in ("encoder", "decoder"))
    used = {name for side in sides for name in split_sublayers(side)} & MECHANISMS.keys()
    name = Path(saved_group(read_checkpoint(path, "meta"), "common").get("user_dir") or "").name
    is_own = name and used - PACKAGED.keys()
    return f"import {name}  # the folder of --user-dir, for its mechanisms\n" if is_own else ""


def _model(trained: TrainedModel, config: Any) -> dict[str, Any]:
    options = config.options
    count = sum(parameter.numel() for parameter in trained.model.parameters())
    rows = {"architecture": getattr(trained.config, "_name", None), "parameters": f"{count:,}"}
    if not config.is_encoder_decoder:
        rows |= {name: options[name] for name in ("encoder", "pooling")}
        return rows | {"classes": config.num_labels > 1 and ", ".join(config.id2label.values())}
    for side in ("encoder", "decoder"):
        rows[side] = f"{options[f'{side}_layers']} layers of {options[f'{side}_sublayers']}"
    return rows


def _metrics(path: str) -> dict[str, Any]:
    """Return the updates and the validation metric that the checkpoint stores."""
    state = read_checkpoint(path, "meta")
    settings = saved_group(state, "checkpoint")
    rows = {"updates": (state.get("optimizer_history") or [{}])[-1].get("num_updates")}
    if (value := (state.get("extra_state") or {}).get("val_loss")) is not None:
        rows[f"validation {settings.get('best_checkpoint_metric', 'loss')}"] = f"{value:.4g}"
    return rows
