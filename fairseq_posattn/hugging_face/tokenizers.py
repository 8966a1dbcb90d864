"""From plain text to the numbers of its pieces and back, by the code of preparation.

The files of a tokeniser are ``vocab.json`` (and ``target_vocab.json``, where the words written are
others than those read), and of models that write ``preparation.json`` and what it names.
"""

import json
import shutil
from pathlib import Path

from transformers import PreTrainedTokenizer

from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import CODES, joiner, splitter
from fairseq_posattn.text.subwords import whole_words
from fairseq_posattn.text.words import RULES

MARKS = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}


class DictionaryTokenizer(PreTrainedTokenizer):
    """What both kinds share: a vocabulary that was fairseq's dictionary.

    Args:
        vocab_file: numbers of the pieces that are read, in JSON.
        kwargs: as ``transformers`` has them.
    """

    vocab_files_names = {"vocab_file": "vocab.json"}
    padding_side = "right"
    marks = frozenset(MARKS.values())  # no piece of text is one

    def __init__(self, vocab_file: str, **kwargs):
        self.folder = Path(vocab_file).parent
        self.numbers = json.loads(Path(vocab_file).read_text(encoding="utf-8"))
        self.written = self.numbers
        self.reads = True  # and does not write: what is tokenised is source, not target
        self._name_pieces()
        super().__init__(**{**MARKS, **kwargs})

    def _name_pieces(self):
        self.pieces = {number: piece for piece, number in self.written.items()}

    @property
    def vocab_size(self) -> int:
        return len(self.numbers)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.numbers)

    def split(self, text: str) -> str:
        """The pieces of a text, with spaces between."""
        raise NotImplementedError

    def tokenize(self, text: str, **unused) -> list[str]:
        """The pieces of a text; what looks like a mark in it is an unknown word, as in training."""
        unknown = MARKS["unk_token"]
        return [unknown if piece in self.marks else piece for piece in self.split(text).split()]

    def _convert_token_to_id(self, token: str) -> int:
        numbers = self.numbers if self.reads else self.written
        return numbers.get(token, numbers[MARKS["unk_token"]])

    def _convert_id_to_token(self, index: int) -> str:
        return self.pieces.get(index, MARKS["unk_token"])

    def convert_ids_to_tokens(self, ids, skip_special_tokens: bool = False):
        """Pieces; an unknown word is skipped by nobody: the model wrote it."""
        if isinstance(ids, int):
            return self._convert_id_to_token(ids)
        skipped = {self.bos_token_id, self.pad_token_id, self.eos_token_id}
        numbers = [int(number) for number in ids]
        return [
            self._convert_id_to_token(number)
            for number in numbers
            if not (skip_special_tokens and number in skipped)
        ]

    def build_inputs_with_special_tokens(self, token_ids_0, token_ids_1=None) -> list[int]:
        """Each sentence with ``</s>`` after it."""
        second = [] if token_ids_1 is None else [*token_ids_1, self.eos_token_id]
        return [*token_ids_0, self.eos_token_id, *second]

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple:
        """Copy the files that it was made of."""
        saved = []
        for name in self.vocab_files_names.values():
            source, target = self.folder / name, Path(save_directory, name)
            if source.is_file():
                if source.resolve() != target.resolve():
                    shutil.copyfile(source, target)
                saved.append(str(target))
        return tuple(saved)


class PosAttnClassifierTokenizer(DictionaryTokenizer):
    """Sentences, or pairs of them, as ``posattn predict`` reads them.

    Args:
        words: the rule by which text becomes words.
        lower: capitals become small.
        apart: the sentences of a pair are told apart by ``token_type_ids``.
        before: numbers of what stands before each sentence, None for nothing.
    """

    marks = DictionaryTokenizer.marks | {"<mask>"}

    def __init__(
        self,
        vocab_file: str,
        words: str = "spaces",
        lower: bool = False,
        apart: bool = False,
        before: tuple[int | None, ...] = (None, None),
        **kwargs,
    ):
        self.words, self.lower, self.apart, self.before = words, lower, apart, tuple(before)
        names = ["input_ids", "attention_mask", *(["token_type_ids"] if apart else [])]
        kwargs["model_input_names"] = names
        settings = {"words": words, "lower": lower, "apart": apart, "before": list(before)}
        super().__init__(vocab_file, **settings, **kwargs)

    def split(self, text: str) -> str:
        words = RULES[self.words](text)
        return words.lower() if self.lower else words

    def prepare_for_model(self, ids, pair_ids=None, truncation=False, max_length=None, **kwargs):
        """As ``transformers`` has it, but what is told apart is cut apart, as in training."""
        whole = self.apart and pair_ids is not None and max_length == self.model_max_length
        if whole and truncation == "longest_first":  # what truncation=True is by now
            ids, pair_ids = ids[: max_length - 1], pair_ids[: max_length - 1]  # and the ends
            truncation = False
        return super().prepare_for_model(
            ids, pair_ids, truncation=truncation, max_length=max_length, **kwargs
        )

    def build_inputs_with_special_tokens(self, token_ids_0, token_ids_1=None) -> list[int]:
        """Each sentence with ``</s>`` after it, and what the task puts before."""
        sentences = [token_ids_0] if token_ids_1 is None else [token_ids_0, token_ids_1]
        joined = []
        for mark, sentence in zip(self.before, sentences, strict=False):
            joined += [*([] if mark is None else [mark]), *sentence, self.eos_token_id]
        return joined


class PosAttnSeq2SeqTokenizer(DictionaryTokenizer):
    """Lines to be translated or summarised, and what becomes of them, as ``posattn translate``.

    Args:
        source_lang, target_lang: the languages, for the rules that differ by them.
    """

    vocab_files_names = {
        "vocab_file": "vocab.json",
        "target_vocab_file": "target_vocab.json",
        "manifest_file": manifest.NAME,
        **{f"{kind}_file": name for kind, name in CODES.items()},
    }
    model_input_names = ["input_ids", "attention_mask"]

    def __init__(
        self,
        vocab_file: str,
        target_vocab_file: str | None = None,
        source_lang: str = "",
        target_lang: str = "",
        **kwargs,
    ):
        folder = Path(vocab_file).parent
        told = manifest.read(folder)
        self.target_lang = target_lang
        self.to_pieces = {True: str.strip, False: str.strip}
        self.subwords, self.join = None, str
        if told is not None:
            languages = {True: source_lang, False: target_lang}
            self.to_pieces = {
                side: splitter(folder, told, language) for side, language in languages.items()
            }
            self.subwords, self.join = told.subwords, joiner(told, target_lang)
        super().__init__(vocab_file, source_lang=source_lang, target_lang=target_lang, **kwargs)
        if target_vocab_file is not None:
            self.written = json.loads(Path(target_vocab_file).read_text(encoding="utf-8"))
            self._name_pieces()

    def split(self, text: str) -> str:
        return self.to_pieces[self.reads](text)

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return self.join(whole_words(" ".join(tokens), self.subwords))

    def _switch_to_input_mode(self):
        self.reads = True

    def _switch_to_target_mode(self):
        self.reads = False
