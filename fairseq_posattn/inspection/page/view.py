"""Data of the page for a sentence: plain lists and dictionaries."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.generation import UnknownWords, word_numbers
from fairseq_posattn.inference import prediction, translation
from fairseq_posattn.inference.trained_model import TrainedModel, load
from fairseq_posattn.inference.translation import Translator
from fairseq_posattn.inspection.collect import watching
from fairseq_posattn.inspection.page import mechanism_plots, places
from fairseq_posattn.inspection.page.places import Place
from fairseq_posattn.inspection.sentences import token_labels
from fairseq_posattn.inspection.sublayers import choose
from fairseq_posattn.model.sentence_batches import strip_eos
from fairseq_posattn.text.words import RULES

START = "(start)"  # what a decoder is given in place of a first word


class TooMuchError(UsageError):
    """A sentence with more weights than fit."""


class View:
    """A model and its attention modules; called with a text, it returns what to show.

    Attributes:
        trained: the model.
        places: those that are shown.
        about: what it does, in a few words.
        languages: of rows of words, where they are known.
        writes: whether it translates or summarises.
        takes_pairs: whether a text is a pair of sentences, with a TAB between.
        unknown: counts the words that its dictionary lacks.
    """

    about: str
    writes = False
    takes_pairs = False
    unknown: UnknownWords
    languages: ClassVar[dict[str, str]] = {}

    def __init__(self, trained: TrainedModel, shown: Sequence[Place]):
        self.trained = trained
        self.places = list(shown)
        self._notes: dict[int, dict] = {}

    def __call__(self, text: str, target: str | None = None, room: int | None = None) -> dict:
        """Translate or classify a text and record its attention.

        Args:
            text: plain.
            target: a translation, plain; None for the model's own.
            room: how many weights may be kept.

        Returns:
            ``text``; ``outcome``, what the model says of it; ``rows`` of words, by name;
            ``attention``, of each place ``weights`` in thousandths and what :func:`.own.of_call`
            returned; ``size``, how many weights that are; and ``notice`` if the text was cut.

        Raises:
            UsageError: the text cannot be taken; :class:`TooMuchError`: it needs more room.
        """
        raise NotImplementedError

    def description(self) -> dict:
        """Return the model and what is equal for all sentences; call it after the first."""
        return {
            "checkpoint": "/".join(Path(self.trained.path).parts[-2:]),
            "about": self.about,
            "languages": self.languages,
            "places": [
                {
                    **{"part": place.part, "layer": place.layer, "name": place.name},
                    **{"query": place.query, "key": place.key},
                    **self._notes[index],
                    "own": mechanism_plots.of_place(place),
                }
                for index, place in enumerate(self.places)
            ],
        }

    @torch.inference_mode()
    def _watch(self, run: Callable[[], object], room: int | None) -> tuple[dict, object]:
        """Return the places' weights in a run of the model, and the result of the run."""
        modules = list(dict.fromkeys(place.module for place in self.places))
        calls = [0] * len(modules)
        found: list[dict] = [{} for _ in self.places]
        size = 0

        def observe(number, module, args, weights):
            nonlocal size
            for index, place in enumerate(self.places):
                if place.module is module and place.call == calls[number]:
                    shown = place.weights(weights)
                    if not shown.isfinite().all():
                        raise UsageError(
                            f"{self.trained.path}: what the model gives is no number (NaN or "
                            "infinite)"
                        )
                    size += shown.numel()
                    if room is not None and size > room:
                        raise TooMuchError("the page has no room for all its weights")
                    found[index] = {
                        "weights": mechanism_plots.thousandths(shown),
                        **mechanism_plots.of_call(place, args, weights),
                    }
                    notes = {"heads": place.heads(len(shown)), "note": place.note(weights)}
                    self._notes.setdefault(index, notes)
            calls[number] += 1

        with watching(modules, observe):
            result = run()
        return {"attention": found, "size": size}, result


class TranslationView(View):
    """A view of a model that translates or summarizes."""

    writes = True

    def __init__(self, trained: TrainedModel, translator: Translator, shown: Sequence[Place]):
        super().__init__(trained, shown)
        self.translator = translator
        self.unknown = translator.lines.unknown
        cfg = translator.task.cfg
        self.about = f"{cfg.source_lang} to {cfg.target_lang}"
        sides = {places.SOURCE: cfg.source_lang}
        sides |= dict.fromkeys((places.TARGET, places.WRITTEN), cfg.target_lang)
        self.languages = {row: name for row, name in sides.items() if len(name) in (2, 3)}

    def __call__(self, text, target=None, room=None):
        lines = self.translator.lines
        cut = lines.cut
        line = lines.encode(text)
        source = line.tokens
        if not len(source):
            raise UsageError("there are no words in it")
        if target is None:
            (translated,) = self.translator.translate([line])
            if not translated.hypotheses:
                raise UsageError("the model finds no translation of it")
            best = translated.hypotheses[0]
            outcome, pieces = {"text": best.text, "score": round(best.score, 3)}, best.pieces
        else:
            outcome = {"text": target, "given": True}
            pieces = self.translator.lines.split_target(target)
        dictionary = self.translator.task.target_dictionary
        words = word_numbers(pieces.split(), dictionary)
        written = torch.cat([words, torch.tensor([dictionary.eos()])])
        longest = self.trained.model.max_decoder_positions()
        if len(written) > longest:
            raise UsageError(
                f"the translation has {len(written)} pieces, and the model writes {longest} at most"
            )
        before = torch.cat([written[-1:], written[:-1]])  # the end stands for the start
        watched, _ = self._watch(
            lambda: self.trained.model(
                src_tokens=source[None],
                src_lengths=torch.tensor([len(source)]),
                prev_output_tokens=before[None],
            ),
            room,
        )
        target_words = token_labels(written, dictionary)
        rows = {
            places.SOURCE: token_labels(source, self.translator.task.source_dictionary),
            places.TARGET: target_words,
            places.WRITTEN: [START, *target_words[:-1]],
        }
        if lines.cut > cut:
            watched["notice"] = f"cut to the {lines.longest:,} subwords that the model reads"
        return {"text": text, "outcome": outcome, "rows": rows, **watched}


class ClassifierView(View):
    """A view of a model that predicts a label or a score."""

    def __init__(self, trained: TrainedModel, predictor, shown: Sequence[Place]):
        super().__init__(trained, shown)
        self.predictor = predictor
        self.unknown, self.takes_pairs = predictor.unknown, predictor.expects_pairs
        self.about = f"{trained.config.encoder}, {trained.config.pooling} pooling"

    def __call__(self, text, target=None, room=None):
        encoded = self.predictor.encode(text.split("\t"))
        watched, (found,) = self._watch(lambda: self.predictor.predict([encoded]), room)
        dictionary = self.predictor.dictionary
        names = (places.FIRST, places.SECOND) if self.predictor.encodes_apart else (places.WORDS,)
        rows = {
            name: token_labels(
                strip_eos(tokens[None], dictionary.pad(), dictionary.eos())[0], dictionary
            )
            for name, tokens in zip(names, encoded, strict=True)
        }
        outcome = {
            "label": found.label,
            "score": found.score and round(found.score, 3),
            "probabilities": {name: round(p, 3) for name, p in found.probabilities.items()},
        }
        return {"text": text, "outcome": outcome, "rows": rows, **watched}


def open_view(
    checkpoint: str,
    data: str | None = None,
    *,
    layers: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    **decoding,
) -> View:
    """Load a model onto the CPU and return its view.

    Args:
        checkpoint, data: see :func:`fairseq_posattn.inference.translation.load`.
        layers, names: of sublayers, to be shown alone.
        decoding: of a model that translates.

    Raises:
        UsageError: the model cannot be loaded, or has nothing to show.
    """
    trained = load(checkpoint, data)
    if translation.translates(trained):
        shown = places.of_translation(trained)
        translator = translation.translator_of([trained], device="cpu", **decoding)
        return TranslationView(trained, translator, choose(shown, layers, names))
    predictor = prediction.predictor_of(trained, device="cpu")
    if not isinstance(predictor, prediction.Predictor):
        raise UsageError(
            f"{checkpoint} tags the roles of a predicate: the page shows models that translate, "
            "summarise or classify"
        )
    predictor.words = RULES[predictor.rule_of_text()]
    shown = places.of_classifier(trained, predictor.encodes_apart)
    return ClassifierView(trained, predictor, choose(shown, layers, names))
