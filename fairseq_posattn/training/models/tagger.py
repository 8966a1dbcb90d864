"""``posattn_tagger``: semantic roles, a tag for each word (MTSA, section 4.2 and appendix B)."""

import math
from argparse import Namespace
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from fairseq.dataclass import ChoiceEnum
from fairseq.models import BaseFairseqModel, register_model
from torch import Tensor, nn

from fairseq_posattn.attention.cpu.linear import Linear
from fairseq_posattn.common.errors import UsageError, as_usage_error
from fairseq_posattn.model.dropout import Dropout
from fairseq_posattn.model.encoders import ENCODERS
from fairseq_posattn.training.models.encoder_config import SentenceEncoderConfig
from fairseq_posattn.training.models.registration import all_options
from fairseq_posattn.training.models.word_vectors import UNKNOWN_RANGE, build_embedding

NORM_EPSILON = 1e-6  # of the published layer norms


@dataclass
class PosAttnTaggerConfig(SentenceEncoderConfig):
    """The flags of the taggers beside those of their encoders."""

    predicate_embed_dim: int = field(
        default=100, metadata={"help": "features that tell which word is the predicate"}
    )
    input_dropout: float = field(
        default=0.0, metadata={"help": "dropout probability of the encoder's input"}
    )
    start: ChoiceEnum(["glorot_normal", "glorot_uniform"]) = field(
        default="glorot_normal",
        metadata={
            "help": "what maps start from: glorot_normal for weights and biases, as in the "
            "published code, or glorot_uniform for weights and zero for biases, as in the text"
        },
    )
    start_input_bias: bool = field(
        default=False,
        metadata={
            "help": "initialize the bias of the input as --start does the biases of linear layers "
            "(MTSA's released code), not to zero"
        },
    )


@register_model("posattn_tagger", dataclass=PosAttnTaggerConfig)
class PosAttnTagger(BaseFairseqModel):
    """A tagger for ``--task sequence_tagging``.

    A word's vector and that of whether it is the predicate stand side by side, times the root of
    their width, plus a learned bias; then come an encoder and an affine map to the tags.

    Args:
        cfg: see :class:`PosAttnTaggerConfig`.
        dictionary: of the words.
        num_tags: K.

    Raises:
        ValueError: the options contradict each other.
        UsageError: the file of word vectors does not serve.
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
        self._start(str(cfg.start), has_vectors=bool(cfg.encoder_embed_path))
        if cfg.start_input_bias:
            _start_bias(self.bias, str(cfg.start))

    def _start(self, how: str, has_vectors: bool):
        """The published start; recurrent encoders and convolutions keep their own."""
        for module in self.encoder.modules():
            if isinstance(module, nn.Linear):
                _start_linear(module, how)
        _start_linear(self.output, how)
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
        """Build the model of a config, see :class:`PosAttnTaggerConfig`.

        Raises:
            UsageError: the options contradict each other, a file does not serve, or the task does
                not tag.
        """
        cfg = all_options(cfg, PosAttnTaggerConfig)
        if not isinstance(cfg.max_positions, int):  # built without a config of its task
            cfg.max_positions = task.max_positions()
        if not hasattr(task, "tag_names"):
            raise UsageError("a tagger needs --task sequence_tagging")
        return cls(cfg, task.source_dictionary, len(task.tag_names))

    def forward(self, src_tokens: Tensor, predicate: Tensor, **unused) -> tuple[Tensor, None]:
        """Tag sentences.

        Args:
            src_tokens: ``[B, T]``, padded on the right.
            predicate: ``[B, T]``, 1 at the predicate's word and 0 elsewhere.

        Returns:
            scores ``[B, T, K]``, and None.
        """
        parts = [self.embed_tokens(src_tokens), self.embed_predicate(predicate)]
        x = torch.cat(parts, dim=-1)  # [B, T, C]
        x = self.input_dropout(x * math.sqrt(x.size(-1)) + self.bias)
        return self.output(self.encoder(x, src_tokens.eq(self.padding))), None

    def get_normalized_probs(self, net_output, log_probs: bool, sample=None) -> Tensor:
        """Probabilities of the tags, or their logarithms, in float32: ``[B, T, K]``."""
        normalise = F.log_softmax if log_probs else F.softmax
        return normalise(net_output[0].float(), dim=-1)

    def max_positions(self):
        """As many words as the task allows."""
        return None


def _start_linear(linear: nn.Linear, how: str):
    is_uniform = how == "glorot_uniform"
    (nn.init.xavier_uniform_ if is_uniform else nn.init.xavier_normal_)(linear.weight)
    if linear.bias is not None:
        _start_bias(linear.bias, how)


def _start_bias(bias: nn.Parameter, how: str):
    nn.init.normal_(bias, std=0.0 if how == "glorot_uniform" else bias.numel() ** -0.5)
