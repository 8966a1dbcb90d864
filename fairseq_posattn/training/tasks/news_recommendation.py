"""``--task news_recommendation``: which of the news shown will a user click."""

from dataclasses import dataclass, field

from fairseq.data import Dictionary
from fairseq.dataclass import FairseqDataclass
from fairseq.tasks import FairseqTask, register_task
from omegaconf import II, MISSING

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.columns import list_symbols, read_column, read_dictionary
from fairseq_posattn.training.data.news import (
    ClickDataset,
    Impressions,
    RankingDataset,
    title_table,
)

CLICKED = "1"


@dataclass
class NewsRecommendationConfig(FairseqDataclass):
    data: str = field(
        default=MISSING,
        metadata={
            "help": "folder of the binarised data, as `posattn prepare recommendation` makes"
        },
    )
    title_length: int = field(
        default=30, metadata={"help": "words of a title that are read, the first ones"}
    )
    max_history: int = field(
        default=50, metadata={"help": "clicks of a user that are read, the last ones"}
    )
    negatives: int = field(
        default=4, metadata={"help": "news of its impression that a click is told from in training"}
    )
    train_subset: str = II("dataset.train_subset")
    seed: int = II("common.seed")


@register_task("news_recommendation", dataclass=NewsRecommendationConfig)
class NewsRecommendationTask(FairseqTask):
    """News and clicks; see :mod:`fairseq_posattn.training.data.news` for what a batch is.

    Attributes:
        titles: words of all titles, ``[1 + N, --title-length]``, no news in row 0.
    """

    def __init__(self, cfg, words: Dictionary, news: Dictionary, labels: Dictionary):
        super().__init__(cfg)
        self.words, self.news, self.labels = words, news, labels
        rows, named = read_column(cfg.data, "titles", "all", words), len(list_symbols(news))
        if len(rows) != named:
            raise UsageError(
                f"{cfg.data}: titles of {len(rows)} news, but news.txt names {named}: prepare the "
                "data again"
            )
        self.titles = title_table(rows, cfg.title_length, words.pad())

    @classmethod
    def setup_task(cls, cfg, **unused):
        """Read the dictionaries and the titles.

        Raises:
            UsageError: one is not there, or a number is out of range.
        """
        for flag in ("title_length", "max_history", "negatives"):
            if getattr(cfg, flag) < 1:
                raise UsageError(
                    f"--{flag.replace('_', '-')} {getattr(cfg, flag)}: must be 1 or more"
                )
        dictionaries = (
            read_dictionary(cfg.data, column, cls.load_dictionary, "recommendation")
            for column in ("titles", "history", "labels")
        )
        return cls(cfg, *dictionaries)

    def load_dataset(self, split, combine=False, **unused):
        """Load a split (``train``, ``valid``, ``test``): that of training by its clicks.

        Raises:
            UsageError: it is not there.
        """
        impressions = Impressions(
            read_column(self.cfg.data, "history", split, self.news),
            read_column(self.cfg.data, "candidates", split, self.news),
            read_column(self.cfg.data, "labels", split, self.labels),
            first_news=self.news.nspecial,
            clicked=self.labels.index(CLICKED),
            longest=self.cfg.max_history,
        )
        if split == self.cfg.train_subset:
            cfg = self.cfg
            found = ClickDataset(impressions, self.titles, cfg.negatives, cfg.seed)
        else:
            found = RankingDataset(impressions)
        self.datasets[split] = found
        return found

    def max_positions(self):
        return None

    @property
    def source_dictionary(self):
        return self.words

    @property
    def target_dictionary(self):
        return None
