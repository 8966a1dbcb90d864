"""Search, unknown words, and from_pretrained, which unpacks safely and translates plain text."""

import inspect
import io
import os
import re
import shutil
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import file_utils, options, scoring, utils
from fairseq.data import Dictionary, data_utils
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.models import FairseqDecoder, FairseqLanguageModel
from fairseq.models.bart import BARTModel
from fairseq.models.nat import FairseqNATModel
from fairseq.models.transformer import TransformerModel
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.scoring.bleu import SacrebleuConfig, SacrebleuScorer
from fairseq.scoring.chrf import ChrFScorer
from fairseq.scoring.wer import WerScorer, WerScorerConfig
from fairseq.search import DiverseBeamSearch, LengthConstrainedBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks.translation import TranslationTask
from small_models import build

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.generation import translate_shard
from fairseq_posattn.inference import translation
from fairseq_posattn.text import manifest
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.moses import RULES
from fairseq_posattn.text.subwords import SentencePieceEncoder, train_sentencepiece

EOS, PAD, VOCABULARY = 2, 1, 9


def forbidden(hypotheses, size, longest=12):
    """Return the tokens that fairseq's module forbids after each hypothesis."""
    step = len(hypotheses[0])
    tokens = torch.full((len(hypotheses), longest), PAD)
    tokens[:, 0] = EOS
    tokens[:, 1 : step + 1] = torch.tensor(hypotheses).view(len(hypotheses), step)
    block = NGramRepeatBlock(size)
    block.use_extension = False
    lprobs = torch.zeros(len(hypotheses), VOCABULARY)
    result = block(tokens, lprobs, len(hypotheses), 1, step)
    assert torch.isin(result, torch.tensor([0.0, -torch.inf])).all()
    return [set(row.isneginf().nonzero().flatten().tolist()) for row in result]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_forbidden_tokens_equal_a_list_of_all_ngrams(size):
    generator = torch.Generator().manual_seed(1)
    for length in range(10):
        hypotheses = torch.randint(4, 6, (6, length), generator=generator).tolist()
        expected = []
        for tokens in hypotheses:
            ngrams = {tuple(tokens[i : i + size]) for i in range(length - size + 1)}
            last = tuple(tokens[length - size + 1 :])
            repeating = {token for token in range(VOCABULARY) if (*last, token) in ngrams}
            expected.append(repeating if length >= size else set())
        assert forbidden(hypotheses, size) == expected


def test_a_prefix_may_repeat_itself():
    hypotheses = torch.tensor([[EOS, 4, 5, 4], [EOS, 4, 5, 4]])
    lprobs = torch.full((2, VOCABULARY), -torch.inf)
    lprobs[0, 5] = lprobs[1, 5] = -3.0
    lprobs[1, 6] = -4.0  # no prefix
    expected = lprobs.clone()
    expected[1, 5] = -torch.inf
    block = NGramRepeatBlock(2)
    block.use_extension = False
    assert block(hypotheses, lprobs, 2, 1, 3).equal(expected)


def test_fairseq_forbids_no_repetition(restore):
    assert forbidden([[4, 5, 4]], 2) == [{5}]
    restore(NGramRepeatBlock, "_no_repeat_ngram")
    assert forbidden([[4, 5, 4]], 2) == [set()]


@pytest.mark.parametrize(
    "subwords, words",
    [
        ("un ##want ##ed guests , run ##ning", "unwanted guests , running"),
        ("##ing ##ing now", "inging now"),  # an untrained model writes it
        ("a _ b", "a _ b"),
        ("", ""),
        ("_un want ed _guests", "unwanted guests"),  # fairseq's own
    ],
)
def test_wordpieces_are_joined(subwords, words):
    assert data_utils.post_process(subwords, "wordpiece") == words
    pieces = "\u2581a <0xE2> <0x98> <0x83> b <0xC2> <0xA0> \u2581c <0x0A>"
    assert data_utils.post_process(pieces, "sentencepiece") == "a\u2603b\u00a0 c"
    assert SentencepieceBPE.decode(None, pieces) == "a\u2603b\u00a0 c"
    fairseqs = data_utils.post_process.__wrapped__
    assert fairseqs("un ##want ##ed guests", "wordpiece") == "un##want##edguests"


@pytest.mark.parametrize("size, has_bytes", [(266, True), (8, False)])
def test_marks_in_the_text_are_split_as_in_training(tmp_path, size, has_bytes):
    learned = {"normalization_rule_name": "identity", "hard_vocab_limit": False}
    learned |= {"model_type": "bpe", "byte_fallback": has_bytes}
    train_sentencepiece(["ab ba"] * 20, size, tmp_path / "spm", **learned)
    bpe = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(tmp_path / "spm.model")))
    text = "ab \u2581ba"
    assert bpe.encode(text) == SentencePieceEncoder(tmp_path / "spm.model")(text)
    assert (bpe.decode(bpe.encode(text)) == text) == has_bytes


def test_moses_reads_codes_with_regions():
    cfg = MosesTokenizerConfig(source_lang="fr_CA", target_lang="fr_CA", moses_no_dash_splits=True)
    tokenizer, text = MosesTokenizer(cfg), "L'eau, d'accord ?"
    assert tokenizer.encode(text) == RULES["moses-escaped"]("fr_CA")(text)
    for line in (text, "क्या यह ठीक है। هل هذا صحيح، نعم؟"):
        assert tokenizer.decode(tokenizer.encode(line)) == line


def test_unknown_words_are_replaced_by_aligned_words():
    with pytest.raises(FileNotFoundError):
        utils.load_align_dict.__wrapped__("@@ ")
    assert utils.load_align_dict("@@ ") == {}  # they are copied without a file
    arguments = ("<unk> b <unk>", "A B C", [(2, 0), (1, 1), (0, 2)], {"A": "a"}, "<unk>")
    with pytest.raises(TypeError):
        utils.replace_unk.__wrapped__(*arguments)
    assert utils.replace_unk(*arguments) == "C b a"


def test_unknown_words_are_replaced_before_subwords_are_joined():
    dictionary = Dictionary()
    tokens = dictionary.encode_line("a@@ b never").int()
    tokens[2] = dictionary.unk()
    alignment = [(0, 0), (2, 1), (1, 2)]
    args = {"hypo_tokens": tokens, "src_str": "A C B", "alignment": alignment, "align_dict": {}}
    args |= {"tgt_dict": dictionary, "extra_symbols_to_ignore": set()}  # as fairseq-generate does
    tokens, text, _ = utils.post_process_prediction(**args, remove_bpe="@@ ")
    assert text == dictionary.string(tokens) == "ab C"
    with pytest.raises(IndexError):
        inspect.unwrap(utils.post_process_prediction)(**args, remove_bpe="@@ ")


def test_diverse_beams_work_in_later_batches():
    generator = torch.Generator().manual_seed(1)
    dictionary = Dictionary()
    for word in "abcdef":
        dictionary.add_symbol(word)
    first, second = (
        torch.randn(count, 4, len(dictionary), generator=generator).log_softmax(-1)
        for count in (3, 2)
    )

    def search(step, numbers):
        numbers = torch.tensor(numbers)
        beams = DiverseBeamSearch(dictionary, 2, 0.5)
        step(beams, 0, first, None, None, numbers)
        return step(beams, 1, second, torch.zeros(2, 4, 1), None, numbers[[0, 2]])

    expected = search(DiverseBeamSearch.step.__wrapped__, [0, 1, 2])
    with pytest.raises(IndexError):
        search(DiverseBeamSearch.step.__wrapped__, [11, 7, 5])
    result = search(DiverseBeamSearch.step, [11, 7, 5])
    assert all(map(torch.equal, result, expected))


def test_diverse_hypotheses_end(folder, restore):
    def ends():
        hub = load(folder)
        tokens = [hub.binarize(text) for text in ("a b c d e", "a a", "b", "c d")]
        options = {"beam": 4, "diverse_beam_groups": 2, "diverse_beam_strength": 0.5}
        outputs = [h["tokens"] for hypos in hub.generate(tokens, **options) for h in hypos]
        return {int((hypothesis == EOS).sum()) for hypothesis in outputs}

    assert ends() == {1}
    restore(DiverseBeamSearch, "__init__")
    assert max(ends()) > 1


# --- from_pretrained ------------------------------------------------------------------------------


def archive(path, members, mode="w:gz"):
    """Write an archive of names with contents."""
    with tarfile.open(path, mode) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def visible(folder):
    return sorted(path.name for path in folder.glob("[!.]*"))


class RefiningModel(FairseqNATModel):
    def __init__(self):
        torch.nn.Module.__init__(self)

    def max_decoder_positions(self):
        return 9


def test_models_that_a_search_cannot_use_are_refused():
    numbered, others = Dictionary(), Dictionary()
    for dictionary, words in ((numbered, "ab"), (others, "ba")):
        for word in words:
            dictionary.add_symbol(word)
    for language_model, words in (
        (torch.nn.Linear(1, 1), "--lm-path: a Linear is no language model"),
        (
            FairseqLanguageModel(FairseqDecoder(others)),
            "--lm-path: its dictionary differs from the target",
        ),
        (None, "give --task translation_lev"),
    ):
        with pytest.raises(UsageError, match=words):
            SequenceGenerator([RefiningModel()], numbered, lm_model=language_model)


def test_output_of_the_source_length_has_as_many_tokens(restore):
    model, dictionary = build(BARTModel, "bart_base")
    net_input = {"src_tokens": torch.tensor([[4, 5, 6, 7, 2], [PAD, PAD, 8, 9, 2]])}
    net_input["src_lengths"] = torch.tensor([5, 3])
    search = LengthConstrainedBeamSearch(dictionary, 1, 0, 1, 0)  # as --match-source-len
    args = {"beam_size": 3, "match_source_len": True, "search_strategy": search}
    generator = SequenceGenerator([model], dictionary, **args)

    def lengths():
        results = generator.generate([model], {"net_input": net_input})
        return [{len(hypothesis["tokens"]) for hypothesis in three} for three in results]

    assert lengths() == [{5}, {3}]
    restore(LengthConstrainedBeamSearch, "step")
    assert lengths()[0] == {6}


@pytest.mark.parametrize("ending, top", [("gz", "model/"), ("xz", ""), ("", "model/")])
def test_a_model_is_unpacked_beside_its_archive(tmp_path, ending, top):
    members = {f"{top}model.pt": b"weights", f"{top}dict/a.txt": b"a 1\n"}
    path = archive(tmp_path / f"model.tar.{ending}", members, f"w:{ending}")
    whole = path.read_bytes()
    stale = tmp_path / f".{path.name}.unpacked.abcdefgh.part"
    (stale / "content").mkdir(parents=True)  # of a killed process
    for _ in range(2):
        folder = Path(file_utils.load_archive_file(str(path)))
        assert str(folder) == f"{path}.unpacked"
        assert (folder / "model.pt").read_bytes() == b"weights"
        assert (folder / "dict" / "a.txt").read_bytes() == b"a 1\n"
    assert path.read_bytes() == whole
    assert visible(tmp_path) == [path.name, f"{path.name}.unpacked"] and not stale.exists()
    for content, age in ((b"new", -10), (b"old", 1000)):  # seconds before the first archive
        archive(path, {"m/model.pt": content}, f"w:{ending}")
        os.utime(path, (folder.stat().st_mtime - age,) * 2)
        assert (Path(file_utils.load_archive_file(str(path))) / "model.pt").read_bytes() == content
    assert file_utils.load_archive_file(str(tmp_path)) == str(tmp_path)
    assert file_utils.load_archive_file(str(tmp_path / "nothing")) is None


@pytest.mark.parametrize("kept", [None, 0, 20, -20])
def test_hostile_and_damaged_archives_write_nothing(tmp_path, kept, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    members = {"model/model.pt": b"weights", "model/../../outside": b"x" * 1000}
    path = archive(tmp_path / "model.tar.gz", members)
    whole = path.read_bytes()[:kept]
    path.write_bytes(whole)
    with pytest.raises(UsageError, match=f"^{path}(: damaged| cannot| is refused)[^\n]*$"):
        file_utils.load_archive_file(str(path))
    assert path.read_bytes() == whole and visible(tmp_path) == [path.name]
    if kept is None and sys.version_info < (3, 14):  # later versions of tarfile refuse it
        inspect.unwrap(file_utils.load_archive_file)(str(path))
        assert (tmp_path / "outside").exists()


FIXTURE = Path(__file__).parents[1] / "fixtures" / "translation"
TEXTS = ["  AB,c ", "d, E"]


@pytest.fixture
def folder(tmp_path):
    """Return a checkpoint with the dictionaries, the manifest and the codes beside it."""
    for file in (FIXTURE / "checkpoint.pt", *(FIXTURE / "data").glob("dict.*.txt")):
        shutil.copy(file, tmp_path)
    rule = {"word_rule": "moses-escaped", "lower": True, "subwords": "subword_nmt"}
    manifest.write(tmp_path, Manifest("own", "translation", **rule, languages=("de", "en")))
    (tmp_path / "bpe.codes").write_text("#version: 0.2\nz z</w>\na b</w>\n")
    return tmp_path


def load(folder, **options):
    return TransformerModel.from_pretrained(str(folder), "checkpoint.pt", **options)


def test_plain_text_is_translated_as_posattn_translate_does(folder, restore):
    expected = [result.text for result in translation.load(folder / "checkpoint.pt")(TEXTS)]
    model = load(folder)
    assert model.apply_bpe(model.tokenize("AB,c")) == "ab , c"
    assert model.translate(TEXTS) == expected
    subwords = model.tgt_dict.encode_line("A@@ B , &apos;s", add_if_not_exist=True)
    assert model.decode(subwords) == "AB,'s"
    assert model.task.cfg.target_lang == "en"
    restore(GeneratorHubInterface, "__init__")
    model = load(folder)
    assert model.apply_bpe(model.tokenize("AB,c")) == "AB,c"
    restore(TranslationTask, "setup_task")
    with pytest.raises(UsageError, match="Could not infer language pair"):
        load(folder)


def test_text_is_not_tokenized_without_a_manifest_or_by_another_tokenizer(folder):
    model = load(folder, tokenizer="space")
    assert model.apply_bpe(model.tokenize("AB,c")) == "AB,c"
    (folder / manifest.NAME).unlink()
    model = load(folder, source_lang="de", target_lang="en")
    assert model.tokenizer is None
    assert model.apply_bpe(model.tokenize("AB,c")) == "AB,c"


def test_named_languages_agree_with_the_files(folder, restore):
    """fairseq replaces both languages, if one of them is missing."""
    (folder / "test.de-en.de.idx").touch()
    for file in (None, folder / manifest.NAME):
        if file:
            file.unlink()
        assert load(folder, source_lang="de").task.cfg.target_lang == "en"
        with pytest.raises(UsageError, match="files do not name this pair of languages; give both"):
            load(folder, source_lang="en")
    restore(TranslationTask, "setup_task")
    assert load(folder, source_lang="en").task.cfg.source_lang == "de"


@pytest.mark.parametrize("has_flag", [True, False])
def test_sacrebleu_selects_the_scorer(has_flag):
    args = ["data", "--path", "model.pt", *["--sacrebleu"] * has_flag]
    args = options.parse_args_and_arch(options.get_generation_parser(), args)
    cfg = convert_namespace_to_omegaconf(args)
    dictionary = Dictionary()
    main = partial(translate_shard, lambda cfg: scoring.build_scorer(cfg.scoring, dictionary))
    assert isinstance(main(cfg), SacrebleuScorer) == has_flag


@pytest.mark.parametrize("kind", [SacrebleuScorer, ChrFScorer])
def test_unknown_words_match_nothing(kind, restore):
    def score(*words):
        scorer = kind(SacrebleuConfig())
        scorer.add_string(*(f"a man in {word} reads the {word} in a park" for word in words))
        return float(re.search(r"= ([\d.]+)", scorer.result_string())[1])

    apart = score("\N{SNOWMAN}", "\N{COMET}")
    assert score("<<unk>>", "<unk>") == apart
    restore(kind, "add_string")
    assert score("<<unk>>", "<unk>") > apart + 1


def test_unknown_words_are_errors_of_words(monkeypatch, restore):
    """``--wer-tokenizer`` splits the marks, too."""
    distance = SimpleNamespace(eval=lambda *words: len(set.symmetric_difference(*map(set, words))))
    monkeypatch.setitem(sys.modules, "editdistance", distance)

    def score():
        scorer = WerScorer(WerScorerConfig(wer_tokenizer="13a"))
        scorer.add_string("a <<unk>>", "a <unk>")
        return scorer.score()

    assert score() == 100  # two signs differ, of two words
    restore(WerScorer, "add_string")
    assert score() == 0
