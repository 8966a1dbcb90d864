"""Tokenizers of exported models, with the text processing of ``posattn prepare``."""

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizer

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import CODES, cutter, joiner, splitter
from fairseq_posattn.text.subwords import whole_words
from fairseq_posattn.text.words import RULES

# Files of the training data's tokenization.
RULES_FILES = {"manifest_file": manifest.NAME}
RULES_FILES |= {f"{kind}_file": name for kind, name in CODES.items()}
MARKS = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}


def _read_json(path: str) -> dict[str, int]:
    numbers: dict[str, int] = json.loads(Path(path).read_text(encoding="utf-8"))
    return numbers


class DictionaryTokenizer(PreTrainedTokenizer):
    """Base of the tokenizers; a subclass's ``split`` returns subwords with spaces between."""

    vocab_files_names = {"vocab_file": "vocab.json"}
    padding_side = "right"
    marks = frozenset(MARKS.values())  # special symbols, never produced from text
    before: tuple[int | None, ...] = (None, None)  # indices of the symbols before each sentence

    def __init__(self, vocab_file: str, target_vocab_file: str | None = None, **kwargs: Any):
        self.folder = Path(vocab_file).parent
        self.numbers, self.written = map(_read_json, (vocab_file, target_vocab_file or vocab_file))
        self.pieces = {number: piece for piece, number in self.written.items()}
        self.reads = True  # whether text is source, not target
        super().__init__(**{**MARKS, **kwargs})

    @property
    def vocab_size(self) -> int:
        return len(self.numbers)

    def get_vocab(self) -> dict[str, int]:
        return dict(self.numbers)

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        """Mark known tokens; raise UsageError for others, which no text would become."""
        for token in map(str, new_tokens):
            if token not in self.numbers:
                fix = "prepare data with it, and train on that"
                raise UsageError(f"{token}: an exported vocabulary takes no more tokens; {fix}")
        return super()._add_tokens(new_tokens, special_tokens)

    def tokenize(self, text: str, *unused: Any, **options: Any) -> list[str]:
        """Return the subwords of a text; special symbols in it become unknown, as in training."""
        unknown = MARKS["unk_token"]
        return [unknown if piece in self.marks else piece for piece in self.split(text).split()]

    def _convert_token_to_id(self, token: str) -> int:
        numbers = self.numbers if self.reads else self.written
        return numbers.get(token, numbers[MARKS["unk_token"]])

    def _convert_id_to_token(self, index: int) -> str:
        return self.pieces.get(index, MARKS["unk_token"])

    def convert_ids_to_tokens(  # type: ignore[override]
        self, ids: int | Iterable[int], skip_special_tokens: bool = False
    ) -> str | list[str]:
        """Return subwords; ``<unk>`` is never skipped, since the model generated it."""
        if isinstance(ids, int):
            return self._convert_id_to_token(ids)
        marks = {self.bos_token_id, self.pad_token_id, self.eos_token_id}
        skipped = marks if skip_special_tokens else ()
        return [self._convert_id_to_token(index) for index in map(int, ids) if index not in skipped]

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Append ``</s>`` to each sentence and prepend the task's symbols."""
        sentences = [token_ids_0] if token_ids_1 is None else [token_ids_0, token_ids_1]
        joined = []
        for mark, sentence in zip(self.before, sentences, strict=False):
            joined += [*([] if mark is None else [mark]), *sentence, self.eos_token_id]
        return joined

    def save_vocabulary(
        self, save_directory: str, filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Copy the tokenizer's files and return their paths."""
        saved = []
        for name in self.vocab_files_names.values():
            source, target = self.folder / name, Path(save_directory, name)
            if source.is_file():
                if source.resolve() != target.resolve():
                    shutil.copyfile(source, target)
                saved.append(str(target))
        return tuple(saved)


class PosAttnClassifierTokenizer(DictionaryTokenizer):
    """Tokenizer by the rule ``words``; with ``apart`` pairs have ``token_type_ids``."""

    marks = DictionaryTokenizer.marks | {"<mask>"}
    vocab_files_names = DictionaryTokenizer.vocab_files_names | RULES_FILES

    def __init__(
        self,
        vocab_file: str,
        words: str = "spaces",
        lower: bool = False,
        apart: bool = False,
        before: tuple[int | None, ...] = (None, None),
        **kwargs: Any,
    ):
        self.words, self.lower, self.apart, self.before = words, lower, apart, tuple(before)
        names = ["input_ids", "attention_mask", *(["token_type_ids"] if apart else [])]
        settings = {"words": words, "lower": lower, "apart": apart, "before": list(before)}
        folder = Path(vocab_file).parent
        prepared = manifest.read(folder)
        self.cut = cutter(folder, prepared) if prepared else str
        super().__init__(vocab_file, **{**kwargs, **settings, "model_input_names": names})

    def split(self, text: str) -> str:
        words = RULES[self.words](text.replace("\t", " "))  # as in training
        return self.cut(words.lower() if self.lower else words)

    def prepare_for_model(  # type: ignore[override]  # the others are by name
        self,
        ids: list[int],
        pair_ids: list[int] | None = None,
        truncation: bool | str = False,
        max_length: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Prepare as ``transformers``, but truncate the sentences of pairs separately."""
        longest = self.model_max_length
        truncates = truncation == "longest_first" and max_length == longest  # truncation=True
        if self.apart and truncates and pair_ids is not None:
            ids, pair_ids = ids[: longest - 1], pair_ids[: longest - 1]  # </s> follows
            truncation = False
        kwargs |= {"truncation": truncation, "max_length": max_length}
        return super().prepare_for_model(ids, pair_ids, **kwargs)


class PosAttnSeq2SeqTokenizer(DictionaryTokenizer):
    """Tokenizer of translation and summarization, as in ``posattn translate``."""

    vocab_files_names = {"vocab_file": "vocab.json", "target_vocab_file": "target_vocab.json"}
    vocab_files_names |= RULES_FILES
    model_input_names = ["input_ids", "attention_mask"]

    def __init__(
        self,
        vocab_file: str,
        target_vocab_file: str | None = None,
        source_lang: str = "",
        target_lang: str = "",
        **kwargs: Any,
    ):
        folder, sides = Path(vocab_file).parent, (target_lang, source_lang)
        self.target_lang = target_lang
        self.to_pieces: list[Callable[[str], str]] = [str.strip, str.strip]  # of target and source
        self.subwords: str | None = None
        self.join: Callable[[str], str] = str
        if prepared := manifest.read(folder):
            encode = cutter(folder, prepared)
            self.to_pieces = [splitter(folder, prepared, side, encode) for side in sides]
            self.subwords, self.join = prepared.subwords, joiner(prepared, target_lang)
        kwargs |= {"source_lang": source_lang, "target_lang": target_lang}
        super().__init__(vocab_file, target_vocab_file, **kwargs)

    def split(self, text: str) -> str:
        return self.to_pieces[self.reads](text)

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return self.join(whole_words(" ".join(tokens), self.subwords))

    def _switch_to_input_mode(self) -> None:
        self.reads = True

    def _switch_to_target_mode(self) -> None:
        self.reads = False
