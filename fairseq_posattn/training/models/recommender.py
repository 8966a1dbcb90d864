"""``posattn_recommender``: news encoded from titles, users from clicked news.

DA-Transformer, section 4 (Table 5), in the architecture of NRMS (Wu et al., 2019): an encoder over
the words of a title and another over the news of a history, each with additive attention pooling.
The score is the dot product of news and user.
"""

from argparse import Namespace
from dataclasses import dataclass
from typing import Any, cast

import torch
from fairseq.models import BaseFairseqModel
from omegaconf import II
from torch import Tensor, nn

from fairseq_posattn.common.errors import as_usage_error
from fairseq_posattn.common.flags import flag
from fairseq_posattn.model.encoders import ENCODERS, get_input_dropout
from fairseq_posattn.model.feed_forward import Dropout
from fairseq_posattn.model.pooling import AdditivePooling
from fairseq_posattn.model.sentence_batches import encode_groups
from fairseq_posattn.training.flags import SentenceEncoderConfig
from fairseq_posattn.training.models.registration import all_options
from fairseq_posattn.training.models.word_vectors import build_embedding

TITLES_PER_BATCH = 1024  # in evaluation


@dataclass
class PosAttnRecommenderConfig(SentenceEncoderConfig):
    """Flags of the recommenders in addition to those of their two encoders."""

    pooling_dim: int = flag(200, "hidden features of the additive attention pooling")
    max_positions: int = II("task.title_length")  # differs by level


class Level(nn.Module):
    """Dropout, encoder, dropout and pooling: ``[B, T, dim]`` to ``[B, output_dim]``."""

    def __init__(self, cfg: Namespace, dim: int, longest: int) -> None:
        super().__init__()
        cfg = Namespace(**{**vars(cfg), "max_positions": longest})
        self.input_dropout = Dropout(get_input_dropout(cfg))
        self.dropout = Dropout(cfg.dropout)
        self.encoder = ENCODERS[str(cfg.encoder)](cfg, dim)
        self.output_dim = cast(int, self.encoder.output_dim)
        self.pooling = AdditivePooling(self.output_dim, cfg.pooling_dim)

    def forward(self, vectors: Tensor, padding: Tensor) -> Tensor:
        hidden = self.encoder(self.input_dropout(vectors), padding)
        return self.pooling(self.dropout(hidden), padding)


class PosAttnRecommender(BaseFairseqModel):
    """Recommender; users without clicks have a learned vector, news with an empty title zero."""

    tasks = ("news_recommendation",)

    def __init__(
        self, cfg: Namespace, dictionary: Any, title_length: int, max_history: int
    ) -> None:
        super().__init__()
        self.padding = dictionary.pad()
        self.embed_tokens = build_embedding(dictionary, cfg)
        self.words = Level(cfg, cfg.encoder_embed_dim, title_length)
        self.clicks = Level(cfg, self.words.output_dim, max_history)
        news, users = self.words.output_dim, self.clicks.output_dim
        if news != users:
            differ = f"gives news {news} features and users {users}, which must be equal"
            fix = "disan, bi_blosan: --encoder-hidden-dim; mpsan: an --mpsan-fusion other than gate"
            raise ValueError(f"--encoder {cfg.encoder!s} {differ}; give {fix}")
        self.no_history = nn.Parameter(torch.empty(self.clicks.output_dim).normal_(std=0.02))
        # In evaluation all titles and their vectors.
        self.catalogue: tuple[Tensor, Tensor] | None = None

    @property
    def levels(self) -> dict[str, nn.Module]:
        """Return the encoders by level."""
        return {"words": self.words.encoder, "clicks": self.clicks.encoder}

    @classmethod
    @as_usage_error()
    def build_model(cls, cfg: Any, task: Any) -> "PosAttnRecommender":
        """Build the model; raise UsageError for invalid options or files."""
        cfg = all_options(cfg, PosAttnRecommenderConfig)
        return cls(cfg, task.source_dictionary, task.cfg.title_length, task.cfg.max_history)

    def train(self, mode: bool = True) -> "PosAttnRecommender":
        """Set the mode; training discards the cached title vectors, which it changes."""
        if mode or self.training:  # fairseq calls eval() before each batch
            self.catalogue = None
        return super().train(mode)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load weights, and discard the cached title vectors."""
        self.catalogue = None
        return super().load_state_dict(*args, **kwargs)

    def encode_titles(self, titles: Tensor) -> Tensor:
        """Encode titles ``[U, L]`` to ``[U, D]``."""
        if titles.is_cpu:
            return encode_groups(
                self._encode, titles, self.padding, self.embed_tokens.embedding_dim
            )
        return self._encode(titles)

    def _encode(self, titles: Tensor) -> Tensor:
        return self.words(self.embed_tokens(titles), titles.eq(self.padding))

    def encode_users(self, clicked: Tensor, padding: Tensor) -> Tensor:
        """Encode clicked news ``[B, T, D]`` to ``[B, D]``; ``padding`` is bool ``[B, T]``."""
        users = self.clicks(clicked, padding)
        return torch.where(padding.all(1, keepdim=True), self.no_history.to(users), users)

    def forward(self, titles: Tensor, history: Tensor, candidates: Tensor) -> Tensor:
        """Score candidates ``[B, C]``; they and ``history`` [B, T] index ``titles`` [U, L]."""
        vectors = self.encode_titles(titles)  # [U, D]
        users = self.encode_users(vectors[history], history.eq(0))  # [B, D]
        return torch.einsum("bcd,bd->bc", vectors[candidates], users)

    @torch.no_grad()
    def rank(self, titles: Tensor, history: Tensor, users: Tensor, candidates: Tensor) -> Tensor:
        """Score candidates ``[B, C]``; in evaluation each title is encoded once.

        ``titles`` are those of all news, ``[1 + N, L]``, on any device; ``users`` ``[B]`` are the
        rows of ``history`` ``[U, T]`` by impression.
        """
        if self.catalogue is None or self.catalogue[0] is not titles:
            batches = (some.long().to(history.device) for some in titles.split(TITLES_PER_BATCH))
            encoded = torch.cat([self.encode_titles(batch) for batch in batches])
            self.catalogue = titles, encoded
        news = self.catalogue[1]
        vectors = self.encode_users(news[history], history.eq(0))[users]  # [B, D]
        return torch.einsum("bcd,bd->bc", news[candidates], vectors)
