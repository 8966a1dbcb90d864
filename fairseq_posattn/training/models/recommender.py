"""``posattn_recommender``: news by their titles, users by the news they clicked.

DA-Transformer, section 4 (Table 5), in the frame of NRMS (Wu et al., 2019): an encoder over the
words of a title, another over the news of a history, each followed by additive attention; a score
is a dot product.
"""

from argparse import Namespace
from dataclasses import dataclass, field

import torch
from fairseq.models import BaseFairseqModel, register_model
from omegaconf import II
from torch import Tensor, nn

from fairseq_posattn.attention.call import context_of
from fairseq_posattn.attention.cpu.linear import Linear
from fairseq_posattn.common.errors import UsageError, as_usage_error
from fairseq_posattn.model.dropout import Dropout
from fairseq_posattn.model.encoders import ENCODERS, input_dropout_of
from fairseq_posattn.model.multi_query import multi_query_attention
from fairseq_posattn.training.models.encoder_config import SentenceEncoderConfig
from fairseq_posattn.training.models.registration import all_options
from fairseq_posattn.training.models.word_vectors import build_embedding

TITLES_AT_ONCE = 1024


@dataclass
class PosAttnRecommenderConfig(SentenceEncoderConfig):
    """The flags of the recommenders beside those of their two encoders, which are alike."""

    pooling_dim: int = field(
        default=200, metadata={"help": "features within the additive attention that pools"}
    )
    max_positions: int = II("task.title_length")  # of each level its own


class AdditivePooling(nn.Module):
    """``softmax(v' tanh(W h + b))`` weighs the positions (NRMS).

    Args:
        dim: features of a position.
        hidden_dim: rows of W.
    """

    def __init__(self, dim: int, hidden_dim: int):
        super().__init__()
        self.hidden = Linear(dim, hidden_dim)
        self.query = nn.Linear(hidden_dim, 1, bias=False)

    def forward(self, hidden: Tensor, padding: Tensor) -> Tensor:
        """``[B, T, C]`` to ``[B, C]``, zero where all is padded; ``padding`` bool ``[B, T]``."""
        keys = torch.tanh(self.hidden(hidden))  # [B, T, hidden_dim]
        found = multi_query_attention(hidden, keys, self.query.weight, key_padding_mask=padding)
        return context_of(found).squeeze(1)


class Level(nn.Module):
    """A sequence of vectors to one: dropout, encoder, dropout, pooling.

    Attributes:
        output_dim: features of the result.
    """

    def __init__(self, cfg: Namespace, dim: int, longest: int):
        super().__init__()
        cfg = Namespace(**{**vars(cfg), "max_positions": longest})
        self.input_dropout = Dropout(input_dropout_of(cfg))
        self.dropout = Dropout(cfg.dropout)
        self.encoder = ENCODERS[str(cfg.encoder)](cfg, dim)
        self.output_dim = self.encoder.output_dim
        self.pooling = AdditivePooling(self.output_dim, cfg.pooling_dim)

    def forward(self, vectors: Tensor, padding: Tensor) -> Tensor:
        """``[B, T, dim]`` to ``[B, output_dim]``; ``padding`` bool ``[B, T]``."""
        hidden = self.encoder(self.input_dropout(vectors), padding)
        return self.pooling(self.dropout(hidden), padding)


@register_model("posattn_recommender", dataclass=PosAttnRecommenderConfig)
class PosAttnRecommender(BaseFairseqModel):
    """A recommender for ``--task news_recommendation``.

    A user who has clicked nothing has a learned vector; news whose title has no words have zero.

    Args:
        cfg: see :class:`PosAttnRecommenderConfig`.
        dictionary: of the words.
        title_length, max_history: the longest title and history.

    Raises:
        ValueError: the options contradict each other.
        UsageError: the file of word vectors does not serve.
    """

    def __init__(self, cfg: Namespace, dictionary, title_length: int, max_history: int):
        super().__init__()
        self.padding = dictionary.pad()
        self.embed_tokens = build_embedding(
            dictionary, cfg.encoder_embed_dim, cfg.encoder_embed_path, cfg.freeze_embeddings
        )
        self.words = Level(cfg, cfg.encoder_embed_dim, title_length)
        self.clicks = Level(cfg, self.words.output_dim, max_history)
        news, users = self.words.output_dim, self.clicks.output_dim
        if news != users:
            raise ValueError(
                f"--encoder {cfg.encoder!s} gives news {news} features and users {users}, but a "
                "score is their dot product: give disan and bi_blosan an --encoder-hidden-dim, and "
                "mpsan another --mpsan-fusion than gate"
            )
        self.no_history = nn.Parameter(torch.empty(self.clicks.output_dim).normal_(std=0.02))
        self.catalogue = None  # all titles' vectors while evaluating

    @property
    def levels(self) -> dict[str, nn.Module]:
        """The encoder of either level, by its name."""
        return {"words": self.words.encoder, "clicks": self.clicks.encoder}

    @classmethod
    @as_usage_error()
    def build_model(cls, cfg, task):
        """Build the model of a config, see :class:`PosAttnRecommenderConfig`.

        Raises:
            UsageError: the options contradict each other, a file does not serve, or the task does
                not recommend.
        """
        cfg = all_options(cfg, PosAttnRecommenderConfig)
        if not hasattr(task, "titles"):
            raise UsageError("a recommender needs --task news_recommendation")
        return cls(cfg, task.source_dictionary, task.cfg.title_length, task.cfg.max_history)

    def train(self, mode: bool = True):
        """Vectors of titles that were encoded for evaluation are not those of the next update."""
        self.catalogue = None
        return super().train(mode)

    def encode_titles(self, titles: Tensor) -> Tensor:
        """Words ``[U, L]`` to ``[U, D]``."""
        return self.words(self.embed_tokens(titles), titles.eq(self.padding))

    def encode_users(self, clicked: Tensor, padding: Tensor) -> Tensor:
        """Vectors of clicked news ``[B, T, D]`` to ``[B, D]``; ``padding`` bool ``[B, T]``."""
        users = self.clicks(clicked, padding)
        return torch.where(padding.all(1, keepdim=True), self.no_history.to(users), users)

    def forward(self, titles: Tensor, history: Tensor, candidates: Tensor) -> Tensor:
        """Score candidates for users, each title being encoded once.

        Args:
            titles: ``[U, L]``; row 0 is of no news.
            history: ``[B, T]``, rows of ``titles``, 0 where there is none.
            candidates: ``[B, C]``, likewise.

        Returns:
            ``[B, C]``.
        """
        return self._score(self.encode_titles(titles), history, candidates)

    @torch.no_grad()
    def rank(self, titles: Tensor, history: Tensor, users: Tensor, candidates: Tensor) -> Tensor:
        """Score candidates, each title and each user being encoded once while evaluating.

        Args:
            titles: of all news, ``[1 + N, L]``, on any device.
            history: ``[U, T]``, news of each user, 0 where there is none.
            users: ``[B]``, whose impression it is.
            candidates: ``[B, C]``, news.

        Returns:
            ``[B, C]``.
        """
        if self.catalogue is None:
            self.catalogue = torch.cat(
                [
                    self.encode_titles(some.long().to(history.device))
                    for some in titles.split(TITLES_AT_ONCE)
                ]
            )
        vectors = self.encode_users(self.catalogue[history], history.eq(0))[users]  # [B, D]
        return torch.einsum("bcd,bd->bc", self.catalogue[candidates], vectors)

    def _score(self, vectors, history, candidates):
        users = self.encode_users(vectors[history], history.eq(0))  # [B, D]
        return torch.einsum("bcd,bd->bc", vectors[candidates], users)

    def max_positions(self):
        """Titles and histories are cut."""
        return None
