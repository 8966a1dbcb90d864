"""``posattn_tagger``: semantic roles, a tag per word (MTSA, section 4.2 and appendix B)."""

import math
from argparse import Namespace
from dataclasses import dataclass

import torch
from fairseq.dataclass import ChoiceEnum
from torch import Tensor, nn

from fairseq_posattn.attention.cpu import Linear
from fairseq_posattn.common.errors import UsageError, as_usage_error
from fairseq_posattn.model.encoders import ENCODERS
from fairseq_posattn.model.feed_forward import Dropout
from fairseq_posattn.training.flags import SentenceEncoderConfig, flag
from fairseq_posattn.training.models.registration import LogitsModel, all_options
from fairseq_posattn.training.models.word_vectors import UNKNOWN_RANGE, build_embedding

NORM_EPSILON = 1e-6  # of the released code's layer norms


@dataclass
class PosAttnTaggerConfig(SentenceEncoderConfig):
    """Flags of the taggers in addition to those of their encoders."""

    predicate_embed_dim: int = flag(100, "features of the embedding that marks the predicate")
    input_dropout: float = flag(0.0, "dropout probability of the encoder's input")
    start: ChoiceEnum(["glorot_normal", "glorot_uniform"]) = flag(
        "glorot_normal",
        "initialization of linear layers: glorot_normal for weights and biases, as in the "
        "released code, or glorot_uniform for weights and zero for biases, as in the paper",
    )
    start_input_bias: bool = flag(
        False,
        "initialize the bias of the input as --start does those of linear layers, as in MTSA's "
        "released code, instead of to zero",
    )


class PosAttnTagger(LogitsModel):
    """Tagger for ``--task sequence_tagging``.

    The encoder's input is the concatenation of word and predicate embedding, times the square root
    of its features, plus a learned bias. A linear layer maps its output to K = ``num_tags`` tags.

    Raises:
        ValueError: the options contradict each other.
        UsageError: the file of word vectors is invalid.
    """

    def __init__(self, cfg: Namespace, dictionary, num_tags: int):
        super().__init__()
        self.padding = dictionary.pad()
        self.embed_tokens = build_embedding(
            dictionary, cfg.encoder_embed_dim, cfg.encoder_embed_path, cfg.freeze_embeddings
        )
        self.embed_predicate = nn.Embedding(2, cfg.predicate_embed_dim)
        dim = cfg.encoder_embed_dim + cfg.predicate_embed_dim
        self.bias = nn.Parameter(torch.zeros(dim))
        self.input_dropout = Dropout(cfg.input_dropout)
        self.encoder = ENCODERS[str(cfg.encoder)](cfg, dim)
        self.output = Linear(self.encoder.output_dim, num_tags)
        for module in self.encoder.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = NORM_EPSILON
        self._initialize(str(cfg.start), has_vectors=bool(cfg.encoder_embed_path))
        if cfg.start_input_bias:
            _initialize_bias(self.bias, str(cfg.start))

    def _initialize(self, how: str, has_vectors: bool):
        """Initialize as ``--start``, except recurrent networks and convolutions."""
        for module in self.encoder.modules():
            if isinstance(module, nn.Linear):
                _initialize_linear(module, how)
        _initialize_linear(self.output, how)
        if how == "glorot_normal":
            nn.init.normal_(
                self.embed_predicate.weight, std=self.embed_predicate.embedding_dim**-0.5
            )
            nn.init.normal_(self.output.weight, std=self.output.in_features**-0.5)
        else:
            nn.init.xavier_uniform_(self.embed_predicate.weight)
        if not has_vectors:
            with torch.no_grad():
                self.embed_tokens.weight.uniform_(-UNKNOWN_RANGE, UNKNOWN_RANGE)
                self.embed_tokens.weight[self.padding] = 0

    @classmethod
    @as_usage_error()
    def build_model(cls, cfg, task):
        """Build the model; raise UsageError for invalid options, files or tasks."""
        cfg = all_options(cfg, PosAttnTaggerConfig)
        if not isinstance(cfg.max_positions, int):  # there is no config of the task
            cfg.max_positions = task.max_positions()
        if not hasattr(task, "tag_names"):
            raise UsageError("--arch: a tagger needs --task sequence_tagging")
        return cls(cfg, task.source_dictionary, len(task.tag_names))

    def forward(self, src_tokens: Tensor, predicate: Tensor, **unused) -> tuple[Tensor, None]:
        """Tag sentences.

        Args:
            src_tokens: ``[B, T]``, padded on the right.
            predicate: ``[B, T]``, 1 at the predicate and 0 elsewhere.

        Returns:
            logits ``[B, T, K]``, and None.
        """
        parts = [self.embed_tokens(src_tokens), self.embed_predicate(predicate)]
        x = torch.cat(parts, dim=-1)  # [B, T, C]
        x = self.input_dropout(x * math.sqrt(x.size(-1)) + self.bias)
        return self.output(self.encoder(x, src_tokens.eq(self.padding))), None

    def max_positions(self):
        """Return None: the task limits the words."""
        return None


def _initialize_linear(linear: nn.Linear, how: str):
    is_uniform = how == "glorot_uniform"
    (nn.init.xavier_uniform_ if is_uniform else nn.init.xavier_normal_)(linear.weight)
    if linear.bias is not None:
        _initialize_bias(linear.bias, how)


def _initialize_bias(bias: nn.Parameter, how: str):
    nn.init.normal_(bias, std=0.0 if how == "glorot_uniform" else bias.numel() ** -0.5)
