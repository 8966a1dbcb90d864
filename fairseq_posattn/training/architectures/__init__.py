"""Named architectures: what each changes of its model's defaults, as data.

``models`` registers them with fairseq; ``recipes`` names by them the folders of runs, so that a
model that has changed since is trained anew.
"""

from collections.abc import Mapping

from fairseq_posattn.training.architectures import classifier, recommender, seq2seq, tagger

# By the name of the model.
ARCHITECTURES: dict[str, Mapping[str, Mapping[str, object]]] = {
    "posattn_transformer": seq2seq.ARCHITECTURES,
    "posattn_classifier": classifier.ARCHITECTURES,
    "posattn_recommender": recommender.ARCHITECTURES,
    "posattn_tagger": tagger.ARCHITECTURES,
}


def preset(name: str) -> Mapping[str, object]:
    """The options that an architecture changes; none of one that is not here."""
    named = {name: options for all_of in ARCHITECTURES.values() for name, options in all_of.items()}
    return named.get(name, {})
