"""GPT (Radford et al., 2018) below a classifier, with the auxiliary loss of a language model.

Each sentence is read alone, between a start and an end token whose vectors are learned from random
ones (section 3.2 of the paper). The token vectors are the last layer's.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import OpenAIGPTConfig, OpenAIGPTModel

from fairseq_posattn.errors import UsageError
from fairseq_posattn.networks.classifier import Marks
from fairseq_posattn.preparation.text import gpt

# Settings of config.json that the model depends on; the vocabulary is the dictionary's.
SETTINGS = ("n_positions", "n_embd", "n_layer", "n_head", "afn", "layer_norm_epsilon")
SETTINGS += ("initializer_range", "resid_pdrop", "embd_pdrop", "attn_pdrop")
# Symbols whose vectors are learned from random ones; fairseq's tasks of sentences add the last.
LEARNED = ("<s>", "<pad>", "</s>", "<mask>")
_PREFIX = "transformer."  # of weights that were saved with a head
_NO_DICT = (TypeError, ValueError)


def read_config(folder: str) -> str:
    """Return the settings of a folder's language model as JSON, for the checkpoint.

    Raises:
        UsageError: a file is missing, or ``config.json`` is another model's.
    """
    gpt.check_folder(folder)
    path = Path(folder) / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if config["model_type"] == OpenAIGPTConfig.model_type:
            return json.dumps({name: config[name] for name in SETTINGS if name in config})
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise UsageError(
        f"{path}: no configuration with model_type {OpenAIGPTConfig.model_type!r}; take the folder "
        "of Hugging Face's openai-gpt"
    )


class PretrainedLanguageModel(nn.Module):
    """GPT over the symbols of a fairseq dictionary, with random weights.

    Args:
        config: see :func:`read_config`.
        vocab_size: V, symbols of the dictionary.
        marks: indices of its special symbols.

    Attributes:
        output_dim: C, features of a token. longest: tokens of a sentence, its end included.

    Raises:
        UsageError: the settings are those of no model.
    """

    def __init__(self, config: str, vocab_size: int, marks: Marks):
        super().__init__()
        try:
            known = {name: value for name, value in json.loads(config).items() if name in SETTINGS}
            self.gpt = OpenAIGPTModel(OpenAIGPTConfig(vocab_size=vocab_size, **known))
        except Exception as error:  # transformers validates settings with exceptions of its own
            reason = " ".join(str(error).split())
            raise UsageError(f"--language-model-config {config[:200]}: {reason}") from error
        self.marks = marks
        self.output_dim = self.gpt.config.n_embd
        self.longest = self.gpt.config.n_positions - 1

    @property
    def embed_tokens(self) -> nn.Embedding:
        return self.gpt.tokens_embed

    def forward(self, words: Tensor, losses: list[Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Encode sentences.

        Args:
            words: ``[N, L]``, padded on the right, without start and end tokens.
            losses: list to which the losses ``[N]`` are appended: the negative log-likelihood of
                a sentence's tokens, the end included, averaged over them.

        Returns:
            vectors ``[N, L + 2, C]`` of start, words and end, and where they are padding,
            bool ``[N, L + 2]``.
        """
        marks = self.marks
        tokens = F.pad(F.pad(words, (1, 0), value=marks.bos), (0, 1), value=marks.pad)
        ends = tokens.ne(marks.pad).sum(1, keepdim=True)
        tokens = tokens.scatter(1, ends, marks.eos)
        padding = tokens.eq(marks.pad)
        # No mask of padding: attention is causal, and padding comes last.
        hidden = self.gpt(inputs_embeds=self.embed_tokens(tokens)).last_hidden_state
        if losses is not None:
            losses.append(self._losses(hidden[:, :-1], tokens[:, 1:], ~padding[:, 1:]))
        return hidden, padding

    def _losses(self, hidden: Tensor, targets: Tensor, real: Tensor) -> Tensor:
        logits = F.linear(hidden[real], self.embed_tokens.weight)
        each = F.cross_entropy(logits.float(), targets[real], reduction="none")
        return each.new_zeros(real.shape).masked_scatter(real, each).sum(1) / real.sum(1)

    @torch.no_grad()
    def load(self, folder: str, symbols: Sequence[str]) -> None:
        """Read the pre-trained weights; special symbols but ``<unk>`` keep random vectors.

        Args:
            folder: of Hugging Face's ``openai-gpt``. Nothing is downloaded, and no code is run.
            symbols: V symbols of the dictionary, in their order.

        Raises:
            UsageError: the weights or the dictionary do not belong to this model.
        """
        rows = gpt.read_vocabulary(folder)
        shared = [number for number, symbol in enumerate(symbols) if symbol not in LEARNED]
        foreign = [symbols[number] for number in shared if symbols[number] not in rows]
        if foreign:
            raise UsageError(
                f"--language-model {folder}: the dictionary has {foreign[0]!r}, which its "
                f"vocab.json lacks; prepare the data with --language-model {folder}"
            )
        path, weights = _read_weights(Path(folder))
        weights = {str(name).removeprefix(_PREFIX): tensor for name, tensor in weights.items()}
        vectors = self.embed_tokens.weight.normal_(std=self.gpt.config.initializer_range)
        vectors[self.marks.pad] = 0
        wanted = dict(self.gpt.named_parameters())
        words = "tokens_embed.weight"
        expected = {name: weight.shape for name, weight in wanted.items()}
        expected[words] = torch.Size([len(rows), self.output_dim])
        for name, shape in expected.items():
            got = getattr(weights.get(name), "shape", "none")
            if got != shape:
                expect = list(shape)
                raise UsageError(
                    f"{path}: {name} has shape {got if got == 'none' else list(got)}, not {expect} "
                    "as config.json and vocab.json say; copy the folder again"
                )
        for name, weight in wanted.items():
            if name != words:
                weight.copy_(weights[name])
        chosen = [rows[symbols[number]] for number in shared]
        vectors[shared] = weights[words][chosen].to(vectors)
        if not all(math.isfinite(weight.sum()) for weight in wanted.values()):
            raise UsageError(f"{path}: a weight is no number; copy the file again")


def _read_weights(folder: Path) -> tuple[Path, dict[str, Tensor]]:
    path = next(folder / name for name in gpt.WEIGHTS if (folder / name).is_file())
    try:
        if path.suffix == ".safetensors":
            return path, load_file(path)
        return path, dict(torch.load(path, map_location="cpu", weights_only=True))
    except (OSError, SafetensorError, UnpicklingError, RuntimeError, EOFError, *_NO_DICT) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"{path}: cannot be read ({reason}); copy the file again") from None
