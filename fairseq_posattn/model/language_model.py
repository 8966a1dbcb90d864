"""GPT (Radford et al., 2018) below a classifier, with the auxiliary loss of a language model.

Each sentence is encoded between a start and an end token, whose embeddings are initialized at
random (section 3.2). The result is the hidden states of the last layer.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import OpenAIGPTConfig, OpenAIGPTModel

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.model.classifier import Marks
from fairseq_posattn.text import gpt

# Keys of config.json that define the network; the vocabulary is the dictionary's.
SETTINGS: tuple[str, ...] = ("n_positions", "n_embd", "n_layer", "n_head", "afn", "embd_pdrop")
SETTINGS += ("layer_norm_epsilon", "initializer_range", "resid_pdrop", "attn_pdrop")
# Symbols with randomly initialized embeddings; fairseq's sentence tasks add the last.
LEARNED = ("<s>", "<pad>", "</s>", "<mask>")


def read_config(folder: str) -> str:
    """Return the settings of a folder's language model as JSON, for the checkpoint."""
    gpt.check_folder(folder)
    path = Path(folder, "config.json")
    config = json.loads(path.read_text(encoding="utf-8"))
    if config.get("model_type") != OpenAIGPTConfig.model_type:
        raise UsageError(f"{path}: model_type is not openai-gpt; take Hugging Face's openai-gpt")
    return json.dumps({name: config[name] for name in SETTINGS if name in config})


class PretrainedLanguageModel(nn.Module):
    """GPT over the symbols of a fairseq dictionary, with random weights.

    ``config`` is that of :func:`read_config`; ``marks`` are the dictionary's special symbols.
    """

    def __init__(self, config: str, vocab_size: int, marks: Marks):
        super().__init__()
        try:
            known = {name: value for name, value in json.loads(config).items() if name in SETTINGS}
            settings = OpenAIGPTConfig(vocab_size=vocab_size, **known)
        except Exception as error:  # transformers raises various exceptions
            raise UsageError(f"--language-model-config: invalid GPT settings ({error})") from error
        self.gpt = OpenAIGPTModel(settings)
        self.marks = marks
        self.longest = settings.n_positions - 1  # tokens of a sentence, the end included

    @property
    def embed_tokens(self) -> nn.Embedding:
        return self.gpt.tokens_embed

    def forward(self, tokens: Tensor, losses: list[Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return hidden states ``[N, L + 2, C]`` of start, tokens and end, and their padding.

        ``tokens`` are ``[N, L]``, padded on the right, without start and end tokens. The losses
        ``[N]``, the mean negative log-likelihood of tokens and end, are appended to ``losses``.
        """
        pad = self.marks.pad
        tokens = tokens[:, : self.longest - 1]  # a row that was cut has no end
        tokens = F.pad(F.pad(tokens, (1, 0), value=self.marks.bos), (0, 1), value=pad)
        tokens = tokens.scatter(1, tokens.ne(pad).sum(1, keepdim=True), self.marks.eos)
        padding = tokens.eq(pad)
        # No padding mask: attention is causal, and padding is on the right.
        hidden = self.gpt(inputs_embeds=self.embed_tokens(tokens)).last_hidden_state
        if losses is not None:
            real = ~padding[:, 1:]
            logits = F.linear(hidden[:, :-1][real], self.embed_tokens.weight)
            each = F.cross_entropy(logits.float(), tokens[:, 1:][real], reduction="none")
            by_token = each.new_zeros(real.shape).masked_scatter(real, each)
            losses.append(by_token.sum(1) / real.sum(1))
        return hidden, padding

    @torch.no_grad()
    def load(self, folder: str, symbols: Sequence[str]) -> None:
        """Load the pre-trained weights; embeddings of :data:`LEARNED` symbols stay random.

        ``folder`` is a local copy of Hugging Face's ``openai-gpt``; nothing in it is executed.
        ``symbols`` are the dictionary's, in order.
        """
        rows = gpt.read_vocabulary(folder)
        shared = [number for number, symbol in enumerate(symbols) if symbol not in LEARNED]
        if foreign := [symbols[number] for number in shared if symbols[number] not in rows]:
            lacks = f"its vocab.json lacks {foreign[0]!r} of the dictionary; prepare the data with"
            raise UsageError(f"--language-model {folder}: {lacks} --language-model {folder}")
        path = next(Path(folder, name) for name in gpt.WEIGHTS if Path(folder, name).is_file())
        try:
            is_pickle = path.suffix == ".bin"
            read = torch.load(path, "cpu", weights_only=True) if is_pickle else load_file(path)
        except Exception as error:  # PyTorch and safetensors raise various exceptions
            raise UsageError(f"{path}: cannot be read ({error}); copy the file again") from None
        # Models saved with a head have names with a prefix.
        weights = {name.removeprefix("transformer."): weight for name, weight in read.items()}
        vectors = self.embed_tokens.weight
        for name, weight in self.gpt.named_parameters():
            shape = weight.shape if weight is not vectors else (len(rows), weight.size(1))
            if name not in weights or weights[name].shape != shape:
                need = f"{name} of shape {list(shape)}, as config.json and vocab.json require"
                raise UsageError(f"{path}: there is no {need}; copy the folder again")
            if weight is not vectors:
                weight.copy_(weights[name])
        vectors[self.marks.pad] = 0
        chosen = [rows[symbols[number]] for number in shared]
        vectors[shared] = weights["tokens_embed.weight"][chosen].to(vectors)
