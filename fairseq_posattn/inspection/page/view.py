"""The contents of the page: plain lists and dictionaries for each sentence."""

import contextlib
import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.compat.checkpoints.settings import saved_group
from fairseq_posattn.inference import prediction, translation
from fairseq_posattn.inference.stream import LineNotes
from fairseq_posattn.inference.tokens import UnknownTokens, token_ids
from fairseq_posattn.inference.trained_model import TrainedModel, load
from fairseq_posattn.inspection import attention_layers
from fairseq_posattn.inspection.attention_layers import AttentionCall, AttentionLayer, watching
from fairseq_posattn.inspection.inputs import token_labels
from fairseq_posattn.inspection.page import mechanism_plots
from fairseq_posattn.model.sentence_batches import strip_eos
from fairseq_posattn.scoring.lengths import length_of
from fairseq_posattn.text.languages import is_language
from fairseq_posattn.text.lines import file_lines, parallel_lines
from fairseq_posattn.text.subwords import whole_words
from fairseq_posattn.text.words import RULES

Data = dict[str, Any]
TRIED, LONGEST_EXAMPLE = 50, 20  # lines of a test set, and words of a line
START = "(start)"  # shown for the decoder's first input
SHOWN_OF_LAYERS = ("part", "layer", "name", "query", "key")


class TooMuchError(UsageError):
    """A sentence with more weights than fit."""


class View:
    """A model and its attention layers, ``chosen`` as by :func:`.attention_layers.choose`."""

    about: str  # what it does, in a few words
    writes = False  # translates or summarizes
    takes_pairs = False  # a text is a pair of sentences, separated by a TAB
    unknown: UnknownTokens
    notes: Callable[[], LineNotes]  # an empty record of texts that are cut
    test_files: Sequence[str]  # of the test set's text, within the folder of the data

    def __init__(self, trained: TrainedModel, layers: Sequence[AttentionLayer], *chosen: Any):
        self.trained, self.layers = trained, attention_layers.choose(layers, *chosen)
        self.languages: dict[str, str] = {}  # of rows of words
        self._notes: dict[int, dict[str, Any]] = {}

    def __call__(self, text: str, target: str | None = None, room: int | None = None) -> Data:
        """Translate or classify a text, or take a translation, and record the attention.

        Return ``text``; ``outcome``, the translation or prediction; ``rows`` of words, by name;
        ``attention``, each layer's ``weights`` in thousandths and :func:`.mechanism_plots.of_call`;
        ``size``, the number of weights (over ``room``: :class:`TooMuchError`); ``notice`` of a cut.
        """
        raise NotImplementedError

    def description(self) -> dict[str, Any]:
        """Return what all sentences share: model and layers, which have notes after a sentence."""
        layers = []
        for index, layer in enumerate(self.layers):
            shown = {name: getattr(layer, name) for name in SHOWN_OF_LAYERS}
            plot = mechanism_plots.of_layer(layer)
            layers.append({**shown, **self._notes.get(index, {}), "plot": plot})
        checkpoint = "/".join(Path(self.trained.path).parts[-2:])
        known = {row: code for row, code in self.languages.items() if is_language(code)}
        tags = {row: code.replace("_", "-") for row, code in known.items()}
        common = {"checkpoint": checkpoint, "about": self.about, "languages": tags}
        return {**common, "layers": layers}

    def example(self) -> list[dict[str, Any]]:
        """Return what to show at first: a short text of the model's test set, or nothing."""
        settings = saved_group(read_checkpoint(self.trained.path, "meta"), "task")
        for data in (self.trained.task.cfg.data, settings.get("data")):
            folder = str(data).split(os.pathsep)[0]
            files = {name: Path(folder, name) for name in self.test_files}
            if all(file.is_file() for file in files.values()):
                rows = parallel_lines(**{name: file_lines(file) for name, file in files.items()})
                with contextlib.suppress(OSError, UsageError):
                    for texts in itertools.islice(rows, TRIED):
                        if all(1 < length_of(text) <= LONGEST_EXAMPLE for text in texts):
                            return [self("\t".join(texts))]
        return []

    def notice(self, is_cut: bool) -> dict[str, str]:
        """Return the notice of a text that is longer than the model reads; empty for others."""
        return {"notice": f"cut to the {self.notes().read} that the model reads"} if is_cut else {}

    @torch.inference_mode()
    def _watch(self, run: Callable[[], object], room: int | None) -> tuple[dict[str, Any], Any]:
        """Return the layers' weights in a run of the model, and the result of the run."""
        attention: list[dict[str, Any]] = [{} for _ in self.layers]
        size = 0

        def observe(index: int, call: AttentionCall) -> None:
            nonlocal size
            shown = call.layer.weights(call.result)[0]
            if not shown.isfinite().all():
                raise UsageError(f"{self.trained.path}: attention is NaN or infinite; use another")
            size += shown.numel()
            if room is not None and size > room:
                raise TooMuchError("the page has no room for all its weights; shorten the text")
            weights = mechanism_plots.thousandths(shown)
            attention[index] = {"weights": weights, **mechanism_plots.of_call(call)}
            heads = list(map(call.layer.head_note, range(len(shown))))
            self._notes[index] = {"heads": heads, "note": call.layer.note(call.result)}

        with watching(self.layers, observe):
            result = run()
        return {"attention": attention, "size": size}, result


class TranslationView(View):
    """A view of a model that translates or summarizes."""

    writes = True

    def __init__(self, trained: TrainedModel, *chosen: Any, **decoding: Any):
        super().__init__(trained, attention_layers.of_translator(trained), *chosen)
        self.translator = translation.translator_of([trained], device="cpu", **decoding)
        self.unknown = self.translator.lines.unknown
        self.notes = self.translator.lines.notes
        source, target = trained.languages
        self.about, self.test_files = f"{source} to {target}", [f"test.{source}"]
        written = dict.fromkeys((attention_layers.TARGET, attention_layers.WRITTEN), target)
        self.languages = {attention_layers.SOURCE: source, **written}

    def __call__(self, text: str, target: str | None = None, room: int | None = None) -> Data:
        lines, task = self.translator.lines, self.translator.task
        line = lines.encode(text)
        source = line.tokens
        if not len(source):
            raise UsageError("there are no words in it")
        if target is None:
            (translated,) = self.translator.translate([line])
            best, is_longest = translated.hypotheses[0], translated.is_longest
            outcome = {"text": best.text, "score": round(best.score, 3), "longest": is_longest}
            subwords = best.pieces
        else:
            outcome, subwords = {"text": target, "given": True}, lines.split_target(target)
        dictionary = task.target_dictionary
        words = token_ids(subwords.split(), dictionary)
        written = torch.cat([words, torch.tensor([dictionary.eos()])])
        longest = self.trained.model.max_decoder_positions()
        if len(written) > longest:
            has = f"has {len(written)} subwords"
            raise UsageError(f"the translation {has}; the model writes {longest} at most")
        before = torch.cat([written[-1:], written[:-1]])  # the end stands for the start
        batch = {"src_tokens": source[None], "src_lengths": torch.tensor([len(source)])}
        batch["prev_output_tokens"] = before[None]
        watched, _ = self._watch(lambda: self.trained.model(**batch), room)
        target_words = token_labels(written, dictionary, lines.manifest)
        rows = {
            attention_layers.SOURCE: token_labels(source, task.source_dictionary, lines.manifest),
            attention_layers.TARGET: target_words,
            attention_layers.WRITTEN: [START, *target_words[:-1]],
        }
        return {"text": text, "outcome": outcome, "rows": rows, **watched, **self.notice(line.cut)}


class ClassifierView(View):
    """A view of a model that predicts a label or a score."""

    def __init__(self, trained: TrainedModel, *chosen: Any):
        super().__init__(trained, attention_layers.of_classifier(trained), *chosen)
        self.predictor = predictor = prediction.classifier_of(trained, device="cpu")
        predictor.words = RULES[predictor.rule_of_text()]
        self.notes, self.unknown = predictor.new_notes, predictor.unknown
        self.takes_pairs = predictor.expects_pairs
        inputs = range(2 if self.takes_pairs else 1)
        self.test_files = [f"text/test.input{number}" for number in inputs]
        cfg: Any = trained.config
        self.about = f"{cfg.encoder}, {cfg.pooling} pooling"

    def example(self) -> list[dict[str, Any]]:
        predictor = self.predictor
        kept = predictor.words, predictor.split
        predictor.words, predictor.split = RULES["spaces"], str  # the file has tokens
        try:
            examples = super().example()
        finally:
            predictor.words, predictor.split = kept
        kind = predictor.rules.subwords if predictor.rules else None
        for shown in examples:
            parts = (whole_words(part, kind) for part in shown["text"].split("\t"))
            shown["text"] = "\t".join(parts)
        return examples

    def __call__(self, text: str, target: str | None = None, room: int | None = None) -> Data:
        notes = self.notes()
        encoded = self.predictor.encode(text, notes=notes)
        watched, (result,) = self._watch(lambda: self.predictor.predict([encoded]), room)
        dictionary, rows = self.predictor.dictionary, {}
        first, second = attention_layers.FIRST, attention_layers.SECOND
        names = (first, second) if self.trained.encodes_pairs else (attention_layers.WORDS,)
        for name, tokens in zip(names, encoded, strict=True):
            (words,) = strip_eos(tokens[None], dictionary.pad(), dictionary.eos())
            rows[name] = token_labels(words, dictionary)
        outcome = {
            "label": result.label,
            "score": result.score and round(result.score, 3),
            "probabilities": {name: round(p, 3) for name, p in result.probabilities.items()},
        }
        notice = self.notice(notes.count("cut") > 0)
        return {"text": text, "outcome": outcome, "rows": rows, **watched, **notice}


def open_view(
    checkpoint: str,
    data: str | None = None,
    *,
    layers: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    **decoding: Any,
) -> View:
    """Return a view of a model's chosen layers and sublayers; ``decoding`` are search settings."""
    trained = load(checkpoint, data)
    if trained.translates:
        return TranslationView(trained, layers, names, **decoding)
    return ClassifierView(trained, layers, names)
