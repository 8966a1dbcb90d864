"""Attention sublayers of a model, and what the page shows of each."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from fairseq_posattn.attention import DirectionalBlock, Source2TokenPooling, TensorizedAttention
from fairseq_posattn.attention.mechanism import AttentionFunction, Mechanism
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.inspection.heatmap import note_on_head
from fairseq_posattn.inspection.sublayers import AttentionSublayer, sublayers_of
from fairseq_posattn.model.multihead import MultiheadCrossAttention
from fairseq_posattn.model.pooling import MultiQueryPooling

# Rows of words.
SOURCE, TARGET, WRITTEN = "source", "target", "written"
WORDS, FIRST, SECOND = "words", "first", "second"
POOLING = "pooling"


@dataclass(frozen=True)
class Place:
    """An attention module of a model, as shown on the page.

    Attributes:
        part: of the model, ``encoder``, ``decoder``, ``cross attention`` or, of a classifier,
            ``words`` and ``pooling``.
        layer: counted from 1.
        name: of the sublayer.
        module: what is watched, see :func:`fairseq_posattn.inspection.collect.watching`.
        owner: what has the parameters or masks of it: often the module itself.
        query, key: the rows of words that attend and that are attended to; there is no query where
            the words are pooled.
        call: which of the module's calls it is: of a pair of sentences, the second sees the second.
    """

    part: str
    layer: int
    name: str
    module: nn.Module
    owner: nn.Module
    query: str | None
    key: str
    call: int = 0

    def weights(self, found: Tensor) -> Tensor:
        """Return the weights to show: ``[H, query, key]``, or ``[H, key]`` for pooling.

        Args:
            found: as the module returned it, of one sentence.
        """
        if isinstance(self.owner, Source2TokenPooling):
            return found[0].mean(-1)[None]  # of [1, T, C]
        if isinstance(self.owner, DirectionalBlock):
            return found.mean(1)  # of [1, C, T, T]
        if found.dim() == 5:
            return found[0].mean(1)  # MPSAN, of [1, K, S, T, T]
        return found[0]

    def note(self, found: Tensor) -> str:
        """Return how several weights of a pair are combined, or another note."""
        if isinstance(self.owner, TensorizedAttention):
            return (
                "Shown is the weight of each pair of words (token2token). For each feature the "
                "model multiplies it by a weight of the word attended to (source2token)."
            )
        if isinstance(self.owner, Source2TokenPooling):
            return _mean_of("word", found.size(-1))
        if isinstance(self.owner, DirectionalBlock):
            return _mean_of("pair of words", found.size(1))
        if found.dim() == 5 and found.size(2) > 1:
            return _mean_of("pair of words", found.size(2))
        return ""

    def heads(self, count: int) -> list[str]:
        """Return a note on each head."""
        return [note_on_head(self.owner, head) for head in range(count)]


def _mean_of(whom, features):
    return (
        f"The model has a weight for each {whom} and each of {features} features: shown is the "
        "mean over the features."
    )


def of_translation(trained: TrainedModel) -> list[Place]:
    """Return the places of a model that generates: encoder, decoder, and decoder to encoder."""
    places = [
        *_of_sublayers("encoder", sublayers_of(trained, "encoder"), SOURCE, SOURCE),
        *_of_sublayers("decoder", sublayers_of(trained, "decoder"), TARGET, WRITTEN),
    ]
    cross = sublayers_of(trained, "decoder", MultiheadCrossAttention)
    return places + _of_sublayers("cross attention", cross, TARGET, SOURCE)


def of_classifier(trained: TrainedModel, apart: bool) -> list[Place]:
    """Return the places of a classifier, of each sentence of a pair if they are encoded apart.

    Raises:
        UsageError: no words attend in it, or what does is none of a row of words.
    """
    encoder = trained.model.encoder
    if encoder.sentences is not None:
        raise UsageError(
            f"{trained.path} reads documents a sentence at a time: the page shows models that read "
            "all words at once"
        )
    rows = [(FIRST, "first sentence, "), (SECOND, "second sentence, ")] if apart else [(WORDS, "")]
    places = [
        place
        for call, (row, prefix) in enumerate(rows)
        for place in _of_words(trained, row, prefix, call)
    ]
    if not places or encoder.ngrams is not None:
        raise UsageError(
            f"{trained.path}: --encoder {trained.config.encoder} with --pooling "
            f"{trained.config.pooling} has no attention between words to look at"
        )
    return places


def _of_sublayers(
    part: str, sublayers: Sequence[AttentionSublayer], query: str, key: str, call: int = 0
) -> list[Place]:
    return [
        Place(part, one.layer, one.name, one.mechanism, one.mechanism, query, key, call)
        for one in sublayers
    ]


def _of_words(trained, row, prefix, call):
    """Return the places that one sentence passes."""
    words = trained.model.encoder.words
    part = f"{prefix}words"
    if trained.model.encoder.layers:
        places = _of_sublayers(part, sublayers_of(trained, "encoder"), row, row, call)
    else:
        found = list(_attending(words.encoder))
        if len(found) == 1:
            found = [(str(trained.config.encoder), *found[0][1:])]
        places = [
            Place(part, 1, name, module, owner, row, row, call) for name, module, owner in found
        ]
    pooling = words.pooling
    if isinstance(pooling, MultiQueryPooling | Source2TokenPooling):
        watched = getattr(pooling, "attend", pooling)
        name = str(trained.config.pooling)
        part = f"{prefix}{POOLING}"
        places.append(Place(part, 1, name, watched, pooling, None, row, call))
    return places


def _attending(encoder: nn.Module):
    """Return name, module and owner of attention in an encoder without sublayers."""
    modules = dict(encoder.named_modules())
    for path, module in modules.items():
        if isinstance(module, Mechanism):
            yield path, module, module
        elif isinstance(module, AttentionFunction):
            owner = modules[path.rpartition(".")[0]]
            is_block = isinstance(owner, DirectionalBlock)
            yield owner.masks.names[0] if is_block else path.replace("_", " "), module, owner
