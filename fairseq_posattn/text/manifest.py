"""``preparation.json`` beside binarized data: how its text was made, and what it contains."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath, read_limited, write_json

NAME = "preparation.json"
RECORD = ".stages.json"  # of the stages of a preparation, with the sizes of their files
# Metrics to minimize
LOWER_IS_BETTER = frozenset(("loss", "nll_loss", "ppl", "mse", "rmse", "mae", "ter", "skipped"))
FIX = "prepare the data again"
LIKE = "prepare it with posattn prepare ... own --like"
SIDES = ("source", "target")  # languages of summaries
KIND_OF_TASK = {
    "sentence_prediction": "classification",
    "sentence_pair_prediction": "classification",
    "sequence_tagging": "tagging",
    "news_recommendation": "recommendation",
}


def or_like(task: str | None, path: str = "") -> str:
    """Return the advice to prepare data like that of a model, if its task has data of your own."""
    has_own = KIND_OF_TASK.get(str(task), task) in ("translation", "classification")
    return f", or {LIKE} {path}".rstrip() if has_own else ""


@dataclass(frozen=True)
class Manifest:
    """Description of binarized data and of how its text was made."""

    corpus: str  # its name, such as ``sst5``
    task: str  # fairseq's
    word_rule: str  # tokenization: a key of RULES in text.words or, of translations, in text.moses
    lower: bool = False  # the text is lower-cased
    subwords: str | None = None  # ``subword_nmt``, ``sentencepiece``, ``wordpiece`` or ``gpt``
    languages: tuple[str, ...] = ()  # source and target, for translation and summarization
    versions: dict[str, str] = field(default_factory=dict)  # of packages; empty if unknown
    # WordPiece kept capitals and accents. Older manifests lack it: kept unless ``lower``.
    cased: bool = False
    longest: int | None = None  # maximum subwords per line, the rest is cut off; None if unknown
    metric: str | None = None  # the corpus's first metric, such as ``bleu`` or ``accuracy``
    criterion: str | None = None  # fairseq's or the plugin's
    examples: dict[str, int] = field(default_factory=dict)  # number of examples by split
    classes: int | None = None  # value of ``--num-classes``, for classification
    joined: bool = False  # both sides share one dictionary, for translation and summarization
    longest_text: int | None = None  # words of the longest text, for classification
    normalize: str | None = None  # Unicode form that text is brought to first: ``nfc`` or ``nfkc``
    # Of each side, for translation and summarization: share of the lines that come back from their
    # subwords, BLEU and chrF of what comes back.
    round_trip: dict[str, dict[str, float]] = field(default_factory=dict)
    # WordPiece keeps joiners and, uncased, accents. Older manifests lack it: removed.
    accents: bool = False
    features: int | None = None  # dimensions of the word vectors in ``glove.txt``, if any

    @property
    def kind(self) -> str:
        """Return the KIND of ``posattn prepare``."""
        pairs = "summarization" if self.languages == SIDES else "translation"
        return KIND_OF_TASK.get(self.task, pairs)


def write(folder: StrPath, manifest: Manifest) -> None:
    write_json(Path(folder, NAME), asdict(manifest), indent=1)


def read(folder: StrPath) -> Manifest | None:
    """Return the manifest of a folder, or None if there is none; UsageError if it is damaged."""
    path = Path(folder) / NAME
    try:
        content = json.loads(read_limited(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: not in JSON format; {FIX}") from None
    if not isinstance(content, dict) or not content.keys() >= {"corpus", "task", "word_rule"}:
        raise UsageError(f"{path}: lacks corpus, task or word_rule; {FIX}")
    known = {entry.name: entry.type for entry in fields(Manifest)}  # a newer version may write more
    content = {name: value for name, value in content.items() if name in known}
    for name, value in content.items():
        if not _fits(value, known[name]) or (type(value) is int and value < 1):
            raise UsageError(f"{path}: {name} is {value!r}; {FIX}")
    return Manifest(**{**content, "languages": tuple(content.get("languages", ()))})


def check_size(file: StrPath) -> None:
    """Raise UsageError if a prepared file has another size than its preparation recorded."""
    path = Path(file)
    for folder in (*path.parents,)[:3]:  # a fold has folders of columns
        try:
            stages = json.loads(read_limited(folder / RECORD)).values()
            sizes = {name: size for stage in stages for name, size in stage["files"].items()}
        except (OSError, ValueError, AttributeError, KeyError, TypeError):
            continue
        size = sizes.get(path.relative_to(folder).as_posix())
        if size is not None and path.exists() and path.stat().st_size != size:
            actual = path.stat().st_size
            raise UsageError(f"{path}: has {actual:,} bytes, its preparation {size:,}; {FIX}")


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value from JSON is of a field's type."""
    parts = get_args(kind)
    if isinstance(kind, UnionType):
        return any(_fits(value, part) for part in parts)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(_fits(item, parts[1]) for item in value.values())
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(_fits(item, parts[0]) for item in value)
    return type(value) is kind or (kind is float and type(value) is int)
