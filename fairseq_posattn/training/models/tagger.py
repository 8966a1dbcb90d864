"""``posattn_tagger``: semantic roles, a tag per word (MTSA, section 4.2 and appendix B)."""

import math
from argparse import Namespace
from dataclasses import dataclass
from typing import Any, cast

import torch
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from fairseq_posattn.attention import Mechanism, TensorizedAttention
from fairseq_posattn.attention.cpu import Linear
from fairseq_posattn.common.errors import as_usage_error
from fairseq_posattn.common.flags import flag
from fairseq_posattn.model.encoders import ENCODERS
from fairseq_posattn.model.feed_forward import Dropout
from fairseq_posattn.training.flags import SentenceEncoderConfig
from fairseq_posattn.training.models.registration import LogitsModel, all_options
from fairseq_posattn.training.models.word_vectors import UNKNOWN_RANGE, build_embedding

NORM_EPSILON = 1e-6  # of the released code's layer norms


@dataclass
class PosAttnTaggerConfig(SentenceEncoderConfig):
    """Flags of the taggers in addition to those of their encoders."""

    predicate_embed_dim: int = flag(
        100, "features of the embedding that marks the predicate", at_least=1
    )
    input_dropout: float = flag(0.0, "dropout probability of the encoder's input")
    start: ChoiceEnum(["glorot_normal", "glorot_uniform"]) = flag(
        "glorot_normal",
        "initialization of linear layers: glorot_normal for weights and biases, as in the "
        "released code, or glorot_uniform for weights and zero for biases, as in the paper",
        free=True,
    )
    start_input_bias: bool = flag(
        False,
        "initialize the input's bias as --start does those of linear layers, not to zero, as in "
        "MTSA's released code",
        free=True,
    )


class PosAttnTagger(LogitsModel):
    """Tagger: word and predicate embeddings, scaled, plus a bias, encoded to ``num_tags``."""

    tasks = ("sequence_tagging",)

    def __init__(self, cfg: Namespace, dictionary: Any, num_tags: int) -> None:
        super().__init__()
        self.padding = dictionary.pad()
        self.embed_tokens = build_embedding(dictionary, cfg)
        self.embed_predicate = nn.Embedding(2, cfg.predicate_embed_dim)
        dim = cfg.encoder_embed_dim + cfg.predicate_embed_dim
        self.bias = nn.Parameter(torch.zeros(dim))
        self.input_dropout = Dropout(cfg.input_dropout)
        self.encoder = ENCODERS[str(cfg.encoder)](cfg, dim)
        self.output = Linear(cast(int, self.encoder.output_dim), num_tags)
        for module in self.encoder.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = NORM_EPSILON
        self._initialize(cfg)

    def _initialize(self, cfg: Namespace) -> None:
        """Initialize as ``--start``, except recurrent networks and convolutions.

        Mechanisms initialize themselves, but for MTSA's: as in the released code, ``--start``
        applies, except to a bias with a flag.
        """
        is_uniform, predicate = str(cfg.start) == "glorot_uniform", self.embed_predicate.weight
        mechanisms = [m for m in self.encoder.modules() if isinstance(m, Mechanism)]
        others = (m for m in mechanisms if not isinstance(m, TensorizedAttention))
        initialized = {part for mechanism in others for part in mechanism.modules()}

        def initialize_bias(bias: Tensor) -> None:
            nn.init.normal_(bias, std=0.0 if is_uniform else bias.numel() ** -0.5)

        for module in (*self.encoder.modules(), self.output):
            if isinstance(module, nn.Linear) and module not in initialized:
                (nn.init.xavier_uniform_ if is_uniform else nn.init.xavier_normal_)(module.weight)
                if module.bias is not None:
                    initialize_bias(module.bias)
        for mechanism in mechanisms if cfg.mtsa_source_bias else ():
            if (layer := getattr(mechanism, "source_input", None)) is not None:
                nn.init.constant_(layer.bias, cfg.mtsa_source_bias)
        if is_uniform:
            nn.init.xavier_uniform_(predicate)
        else:
            nn.init.normal_(predicate, std=predicate.size(1) ** -0.5)
            nn.init.normal_(self.output.weight, std=self.output.in_features**-0.5)
        if not cfg.encoder_embed_path:
            with torch.no_grad():
                self.embed_tokens.weight.uniform_(-UNKNOWN_RANGE, UNKNOWN_RANGE)
                self.embed_tokens.weight[self.padding] = 0
        if cfg.start_input_bias:
            initialize_bias(self.bias)

    @classmethod
    @as_usage_error()
    def build_model(cls, cfg: Any, task: Any) -> "PosAttnTagger":
        """Build the model; raise UsageError for invalid options or files."""
        cfg = all_options(cfg, PosAttnTaggerConfig)
        if not isinstance(cfg.max_positions, int):  # there is no config of the task
            cfg.max_positions = task.max_positions()
        return cls(cfg, task.source_dictionary, len(task.tag_names))

    def forward(self, src_tokens: Tensor, predicate: Tensor, **unused: Any) -> tuple[Tensor, None]:
        """Return logits ``[B, T, K]`` of tokens padded on the right; ``predicate`` is 1 there."""
        parts = [self.embed_tokens(src_tokens), self.embed_predicate(predicate)]
        x = torch.cat(parts, dim=-1)  # [B, T, C]
        x = self.input_dropout(x * math.sqrt(x.size(-1)) + self.bias)
        return self.output(self.encoder(x, src_tokens.eq(self.padding))), None
