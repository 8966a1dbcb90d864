"""Translations of the small trained model in tests/fixtures."""

import copy
import gzip
import io
import json
import lzma
import math
import os
import pickle
import shutil
import subprocess
import sys
import threading
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from fairseq import options as flags
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.online_backtranslation import OnlineBackTranslationTask
from fairseq.tasks.translation_lev import TranslationLevenshteinTask
from small_translator import CHECKPOINT, EXPECTED, FIXTURE, command, load

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference import beam_search, prediction, translation
from fairseq_posattn.inference.commands import translate
from fairseq_posattn.inference.hypotheses import BEGINS, align
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.inference.trained_model import load as load_checkpoint
from fairseq_posattn.model.projections import quantize_linear_layers
from fairseq_posattn.text import manifest
from fairseq_posattn.text.plain_text import CODES

CLASSIFIER = FIXTURE.parent / "classification"


def test_translations_equal_fairseq_generates_in_any_batch(translator, source):
    for options in ({}, {"batch_size": 1}, {"max_tokens": 7}):
        assert [result.text for result in translator(source, **options)] == EXPECTED
    assert translator(source[0]).hypotheses[0].alignment is None  # only on request


@pytest.mark.parametrize("options", [{}, {"int8": True}, {"constraints": "ordered"}])
def test_threads_share_a_translator(source, options):
    shared = load(**options)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as threads:
            # Batches of other sizes and lengths at the same time.
            texts = [source[n % 5 : n % 5 + n % 3 + 1] for n in range(40)]
            answers = list(threads.map(shared, texts))
    finally:
        sys.setswitchinterval(interval)
    expected = [EXPECTED[n % 5 : n % 5 + n % 3 + 1] for n in range(40)]
    assert [[result.text for result in answer] for answer in answers] == expected


@pytest.mark.parametrize(
    "lengths",
    [{"max_len_a": 0.5, "max_len_b": 0}, {"match_source_len": True, "beam": 20, "nbest": 20}],
)
def test_the_maximum_length_of_a_line_depends_on_its_own_subwords(lengths, source):
    translator = load(**lengths)
    alone = [[h.text for h in translator(line).hypotheses] for line in source]
    results = translator(source)
    assert [[h.text for h in result.hypotheses] for result in results] == alone
    assert len({len(line.split()) for line in source}) > 1
    assert [best for best, *_ in alone] != EXPECTED or "nbest" in lengths


def test_int8_changes_scores_and_no_translation(source, translator, write, capsys):
    """Check that rounding changes no output of this model."""
    path = write("text", "\n".join(source))
    assert command("--input", path, "--int8") == 0
    assert capsys.readouterr().out.splitlines() == EXPECTED
    models = translator, load(int8=True)
    before, rounded = ([result.hypotheses[0].score for result in model(source)] for model in models)
    assert rounded != before == pytest.approx(rounded, abs=0.2)
    quantized = copy.deepcopy(translator.models[0])
    quantize_linear_layers(quantized)
    layers = [m for m in quantized.modules() if isinstance(m, torch.nn.Linear)]
    assert all(vars(layer).keys() & {"product", "forward"} for layer in layers) and len(layers) > 10


def test_translations_keep_the_order_of_a_batch(translator, source, monkeypatch):
    """Check a batch that fairseq would sort by length."""
    monkeypatch.setattr(translation, "batches", lambda lengths, *_: [range(len(lengths))])
    assert [result.text for result in translator(source)] == EXPECTED


def test_buffers_keep_the_order_and_blank_lines(write, tmp_path, capsys, source):
    text, output = "\n\u200b\n \t\u3000\r\n".join(source * 3), tmp_path / "output"
    path = write("text", f"{text}\n")
    options = ("--buffer-size", "5", "--batch-size", "2")
    expected = "\n\n\n".join(EXPECTED * 3) + "\n"
    assert command("--input", path, *options) == 0
    assert capsys.readouterr().out == expected
    assert command("--input", path, *options, "--output", output) == 0
    assert output.read_text() == expected
    assert not capsys.readouterr().out


def test_each_line_of_a_pipe_that_stays_open_is_answered(source, monkeypatch):
    """Write each line only after the answer to the previous line, like ``tail -f``."""
    reading, writing = os.pipe()
    waiting, answers = [*(f"{line}\n".encode() for line in source[:3]), None], io.StringIO()

    def write_next():
        if waiting:
            line = waiting.pop(0)
            os.write(writing, line) if line else os.close(writing)

    timeout = threading.Timer(60, lambda: (waiting.clear(), os.close(writing)))
    timeout.start()
    answers.flush = write_next
    monkeypatch.setattr(sys, "stdout", answers)
    write_next()
    assert command("--input", f"/dev/fd/{reading}") == 0
    timeout.cancel()
    os.close(reading)
    assert answers.getvalue().splitlines() == EXPECTED[:3]


def test_lines_that_cannot_be_read_are_blank_and_counted(write, tmp_path, capsys, source):
    lines = [b"\xef\xbb\xbf" + source[0].encode(), b"ab\xff", b"\xfe", source[1].encode()]
    path, output = write("text", b"\n".join(lines)), tmp_path / "output"
    assert command("--input", path, "--output", output) == 0
    assert output.read_text() == f"{EXPECTED[0]}\n\n\n{EXPECTED[1]}\n"
    warning = capsys.readouterr().err.splitlines()[-1]
    words = "2 lines were answered with a blank line: not UTF-8: byte 3 is 0xff; convert the file: "
    assert warning.startswith(f"warning: {path}: {words}iconv -f ITS-ENCODING")
    assert warning.endswith("(first: line 2)")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\n\xff\n", ":2: not UTF-8: byte 1 is 0xff; convert the file"),
        (gzip.compress(b"a", mtime=0), ": compressed; unpack the file: gzip -d"),
        (b"\x28\xb5\x2f\xfd\x04\x00", ": compressed; unpack the file: zstd -d"),
        (lzma.compress(b"a"), ": compressed; unpack the file: xz -d"),
        ("\na".encode("utf-16"), ":1: not UTF-8: byte 1 is 0xff; convert the file"),
    ],
)
def test_a_file_without_a_line_that_can_be_read_is_an_error(content, words, write, capsys):
    path = write("text", content)
    assert command("--input", path) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"posattn translate: error: {path}{words}")


def test_json_has_the_scores_of_all_hypotheses(write, capsys, source):
    path = write("text", f"{source[0]}\n\n")
    assert command("--input", path, "--json", "--nbest", "2") == 0
    first, blank = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["text"] == EXPECTED[0]
    better, worse = first["hypotheses"]
    assert better["score"] > worse["score"]
    assert better["pieces"] == EXPECTED[0] != worse["pieces"]
    attention = better["attention"]
    assert attention["source"] == [*source[0].split(), "</s>"]
    assert attention["target"] == EXPECTED[0].split()
    assert all(weight == round(weight, 4) for row in attention["weights"] for weight in row)
    sums = [sum(row) for row in attention["weights"]]
    assert sums == pytest.approx([1.0] * len(attention["target"]), abs=1e-3)
    assert blank == {"text": "", "hypotheses": []}


def test_special_symbols_in_text_are_unknown_words(translator):
    dictionary = translator.lines.dictionary
    tokens = translator.lines.encode("a </s> <pad> b").tokens.tolist()
    assert [dictionary[token] for token in tokens] == ["a", "<unk>", "<unk>", "b", "</s>"]


def test_cut_lines_and_unknown_tokens_are_reported(write, capsys, source):
    path = write("text", f"{source[0]}\n{' '.join('abZ' * 9)}\n")
    assert command("--input", path) == 0
    output = capsys.readouterr()
    assert output.out.startswith(f"{EXPECTED[0]}\n")
    assert f"{path}: 1 line was cut to the 15 subwords" in output.err
    question = "tokens are unknown to the model: is the text in its language, and tokenized"
    assert question in output.err
    for length, is_reported in (len(EXPECTED[0].split()), True), (40, False):
        write("text", f"{source[0]}\n")
        assert command("--input", path, "--max-len-b", str(length)) == 0
        longest = f"{path}: 1 line was answered with the maximum output length, maybe cut (line 1)"
        assert (longest in capsys.readouterr().err) is is_reported


@pytest.mark.parametrize(("words", "cut"), [(15, 0), (16, 1)])
def test_a_line_is_cut_only_if_its_end_does_not_fit(words, cut, translator):
    """Check the limit of 16 subwords, which includes the end symbol."""
    line = translator.lines.encode(" ".join("a" * words))
    assert line.cut == cut
    assert (len(line.tokens), len(line.subwords)) == (16, 15)


def test_cuts_warn_from_python_and_where_the_preparation_made_them(translator, plain_data):
    with pytest.warns(UserWarning, match=r": 1 text was cut to the 15 subwords .*\(text 2\); tra"):
        translator(["a b", "a " * 16])
    manifest.write(plain_data, replace(manifest.read(plain_data), longest=3))
    fix = r": 2 texts were cut to the 3 subwords .*\(first: text 2\); prepare with a larger --max-p"
    with pytest.warns(UserWarning, match=fix):
        load(data=plain_data)(["a b c", "a b c d", "a b c d e"])
    manifest.write(plain_data, replace(manifest.read(plain_data), longest=20))
    with pytest.warns(UserWarning, match="15 subwords .*; train with a larger --max-source-pos"):
        load(data=plain_data)(["a " * 16])


def test_a_translator_is_pickled_as_the_call_that_loads_it(translator, source):
    loaded = pickle.loads(pickle.dumps(load(beam=2, int8=True)))
    assert loaded(source[0]).text == EXPECTED[0]
    assert (loaded.generation.beam, repr(loaded)) == (2, repr(load(beam=2)))
    alone = translation.translator_of([load_checkpoint(str(CHECKPOINT), str(FIXTURE / "data"))])
    with pytest.raises(TypeError, match="Translator: only one that load returned can be pickled"):
        pickle.dumps(alone)


def test_texts_are_strings_of_any_iterable(translator, source):
    some = [result.text for result in translator(text for text in source[:2])]
    assert some == [result.text for result in translator(tuple(source[:2]))] == EXPECTED[:2]
    assert translator([]) == translator(()) == []
    with pytest.raises(TypeError, match=r"^text 2: \['a', 'b'\]: must be a string"):
        translator(["a", ["a", "b"]])


@pytest.mark.parametrize("unkpen", [0, math.inf])
def test_unknown_tokens_are_not_written_on_request(unkpen):
    """Check a model that prefers <unk> to all else."""
    translator = load(unkpen=unkpen)
    unknown = translator.task.target_dictionary.unk()
    forward = translator.generator.model.forward_decoder

    def preferring(*args, **options):
        log_probs, weights = forward(*args, **options)
        log_probs[:, unknown] += 100
        return log_probs, weights

    translator.generator.model.forward_decoder = preferring
    text = translator("a b").text
    assert ("<unk>" in text) == (unkpen == 0)
    assert text


@pytest.mark.parametrize(
    "main, changed", [(translate.main, {}), (translate.summarize, {"no_repeat_ngram_size": 3})]
)
def test_the_default_search_is_that_of_fairseq_except_for_summaries(main, changed, monkeypatch):
    passed = []
    monkeypatch.setattr(translation, "load", lambda *_, **options: passed.append(options) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main([str(CHECKPOINT), "--cpu", "--input", os.devnull])
    ours = {"device": "cpu", "attention": None, "int8": False}
    assert passed.pop() == {**ours, **fairseqs(), **changed}


def fairseqs():
    names = ["beam", "lenpen", "max_len_a", "max_len_b", "min_len", "no_repeat_ngram_size"]
    names += ["nbest", "prefix_size", "constraints", "unkpen"]
    return {name: getattr(GenerationConfig(), name) for name in names}


@pytest.mark.parametrize("models", [1, 2])
def test_attention_of_the_last_layer_is_returned(models, source):
    translator = load(*[CHECKPOINT] * models, attention="pieces")
    assert len(translator.models) == models
    result = translator(source)
    assert [translated.text for translated in result] == EXPECTED
    assert len(set(map(len, source))) > 1
    for text, translated in zip(source, result, strict=True):
        [model, *_] = translator.models
        best = translated.hypotheses[0]
        tokens = translator.lines.encode(text).tokens[None]
        target = translator.task.target_dictionary
        written = [target.index(piece) for piece in best.pieces.split()]
        with torch.no_grad():
            _, extra = model(tokens, None, torch.tensor([[target.eos(), *written[:-1]]]))
        torch.testing.assert_close(best.alignment.weights, extra["attn"][0][0], rtol=0, atol=1e-5)
        assert best.alignment.source == (*text.split(), "</s>")
        assert best.alignment.target == tuple(best.pieces.split())


def stock_translator(words, **options):
    """Return a translator of an untrained model of fairseq's."""
    trained = load_checkpoint(str(CHECKPOINT), str(FIXTURE / "data"))
    args = flags.parse_args_and_arch(flags.get_training_parser(), ["data", *words])
    cfg = convert_namespace_to_omegaconf(args).model
    stock = replace(trained, model=trained.task.build_model(cfg).eval(), config=cfg)
    return translation.translator_of([stock], device="cpu", **options)


def test_fairseqs_transformer_returns_attention(source):
    options = {"attention": "pieces", "max_len_b": 6, "min_len": 3}
    translator = stock_translator(["--arch", "transformer_tiny"], **options)
    for text, result in zip(source[:3], translator(source[:3]), strict=True):
        weights = result.hypotheses[0].alignment.weights
        assert weights.shape == (len(result.hypotheses[0].pieces.split()), len(text.split()) + 1)
        torch.testing.assert_close(weights.sum(1), torch.ones(len(weights)))


def test_fairseqs_convolutions_translate_equally_in_any_batch(source, monkeypatch):
    monkeypatch.setattr(beam_search, "CHUNK", 1)  # for a small vocabulary
    sizes = [f"--{side}-layers=[(16,3)]" for side in ("encoder", "decoder")]
    translator = stock_translator(["--arch", "fconv", *sizes], beam=3, max_len_b=6)
    for lines in (source[:4], source[:6]):
        alone = [translator(line) for line in lines]
        assert [result.text for result in translator(lines)] == [result.text for result in alone]


WEIGHTS = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.3, 0.2, 0.1, 0.4], [0.0, 0.0, 1.0, 0.0]])
SUBWORDS = {
    "subword_nmt": (["a@@", "b", "c"], ["d", "e@@", "f"]),
    "sentencepiece": (["\u2581a", "b", "\u2581c"], ["\u2581d", "\u2581", "ef"]),
    "wordpiece": (["a", "##b", "c"], ["d", "e", "##f"]),
}


@pytest.mark.parametrize("kind", SUBWORDS)
def test_weights_of_subwords_are_added_at_keys_and_averaged_at_queries(kind):
    result = align(*SUBWORDS[kind], WEIGHTS, kind)
    assert result.source == ("ab", "c", "</s>")
    assert result.target == ("d", "ef")
    expected = torch.tensor([[0.3, 0.3, 0.4], [0.25, 0.55, 0.2]])
    torch.testing.assert_close(result.weights, expected)
    assert BEGINS.keys() | {"gpt"} == {None, *CODES}  # gpt is of classifiers only


def test_plain_text_is_split_into_subwords_and_joined(plain_data, source, monkeypatch):
    translator = load(data=plain_data, attention="words")
    assert translator.lines.split("AB,c") == "a@@ b , c"
    texts = [result.text for result in translator([f"  {line.upper()} " for line in source])]
    assert texts == EXPECTED
    pieces = "A@@ B , C &apos;s"
    monkeypatch.setattr(translator.task.target_dictionary, "string", lambda *args: pieces)
    monkeypatch.setattr(translation, "align", align_of_equal_weights)
    best = translator(["a'"])[0].hypotheses[0]
    assert best.text == "AB, C's"
    assert best.alignment.source == ("a", "'", "</s>")  # Moses writes &apos;
    assert best.alignment.target == ("AB", ",", "C", "'s")
    translator.lines.encode("Zug " * 99)
    warning = translator.lines.unknown.warning()
    assert warning.endswith(" subwords are unknown to the model: is the text in its language?")


def align_of_equal_weights(source, target, weights, *rest):
    return align(source, target, torch.ones(len(target), weights.size(1)), *rest)


def test_ensembles_of_other_dictionaries_are_refused(monkeypatch):
    trained = [load_checkpoint(str(CHECKPOINT), str(FIXTURE / "data")) for _ in range(2)]
    trained[1].task.target_dictionary.add_symbol("Q")
    monkeypatch.setattr(translation, "load_checkpoint", lambda path, data: trained[int(path)])
    with pytest.raises(UsageError, match="its target dictionary differs"):
        load("0", "1")


def test_ensembles_of_both_directions_are_refused(monkeypatch):
    trained = [load_checkpoint(str(CHECKPOINT), str(FIXTURE / "data")) for _ in range(2)]
    cfg = trained[1].task.cfg  # a joined dictionary is that of both
    cfg.source_lang, cfg.target_lang = cfg.target_lang, cfg.source_lang
    monkeypatch.setattr(translation, "load_checkpoint", lambda path, data: trained[int(path)])
    with pytest.raises(UsageError, match="is a model of en-de, .* of de-en; name models"):
        load("0", "1")


def test_models_with_another_search_are_refused(monkeypatch):
    trained = load_checkpoint(str(CHECKPOINT), str(FIXTURE / "data"))
    task, words = trained.task, trained.task.source_dictionary
    unpaired = Namespace(_name="online_backtranslation", data=".", lambda_bt="1", lambda_dae="1")
    for refused in (
        TranslationLevenshteinTask(task.cfg, words, task.target_dictionary),
        OnlineBackTranslationTask(unpaired, words, ["a", "b"], ["a-b"]),
    ):
        other = replace(trained, task=refused)
        monkeypatch.setattr(translation, "load_checkpoint", lambda *arguments, other=other: other)
        with pytest.raises(UsageError, match="neither translates nor summarizes from left"):
            load()


def test_colons_separate_the_models_of_an_ensemble(tmp_path):
    split = translate.split_checkpoints
    assert split("a.pt:b.pt") == ["a.pt", "b.pt"]
    (tmp_path / "a:b.pt").write_bytes(b"")
    assert split(str(tmp_path / "a:b.pt")) == [str(tmp_path / "a:b.pt")]


@pytest.mark.parametrize(
    "arguments, options, complaint",
    [
        ((), {"checkpoint": "nowhere.pt"}, "nowhere.pt: no such checkpoint"),
        ((), {"data": "nowhere"}, "nowhere: no such folder of dictionaries"),
        (
            (),
            {"checkpoint": CLASSIFIER / "checkpoint.pt", "data": CLASSIFIER / "data"},
            "summarizes from left to right; it was trained with --task sentence_prediction",
        ),
        ((), {"data": FIXTURE}, f"{FIXTURE}: its files do not name this pair of languages; give"),
        (("--nbest", "6"), {}, "nbest 6: must be at most beam 5"),
        (("--lenpen", "nan"), {}, "lenpen nan: must be a finite number"),
        (("--input", "nowhere.txt"), {}, "nowhere.txt: No such file or directory"),
        (("--min-len", "50"), {}, "min_len 50: must be at most"),
        (("--max-len-b", "0"), {}, "min_len 1: must be at most 0"),
        (("--min-len", "16"), {}, "min_len 16: must be at most 15"),
    ],
)
def test_wrong_arguments_give_one_line_errors(arguments, options, complaint, write, capsys):
    text = write("text", "a b\n")
    assert command("--input", text, *arguments, **options) == 1
    *warnings, error = capsys.readouterr().err.splitlines()
    assert error.startswith("posattn translate: error: ")
    assert complaint in error
    assert all("no preparation.json" in line for line in warnings)


@pytest.mark.parametrize("module", [translation, prediction])
def test_models_of_fairseqs_older_tasks_are_refused_by_name(module, monkeypatch):
    task = SimpleNamespace(cfg=None, args=SimpleNamespace(_name="translation_multi_simple_epoch"))
    trained = TrainedModel("m.pt", None, None, task)
    monkeypatch.setattr(module, "load_checkpoint", lambda *arguments: trained)
    with pytest.raises(UsageError, match="with --task translation_multi_simple_epoch; no command"):
        module.load("m.pt")


@pytest.mark.parametrize("chunk", [3, 64])  # the last is shorter; fairseq's search
def test_outputs_that_are_not_finite_are_an_error(source, chunk, monkeypatch):
    monkeypatch.setattr(beam_search, "CHUNK", chunk)
    translator = load(beam=2)
    with torch.no_grad():
        translator.models[0].decoder.embed_tokens.weight.fill_(math.nan)
    with pytest.raises(UsageError, match="checkpoint.pt: the model's output is NaN"):
        translator(source[:1])


def test_the_search_reads_the_probabilities_of_a_decoder_of_ones_own(source, monkeypatch):
    monkeypatch.setattr(beam_search, "CHUNK", 3)  # fairseq's search has small vocabularies
    translator = load(beam=2)
    decoder, index = translator.models[0].decoder, translator.task.target_dictionary.index("B")

    class WithoutB(type(decoder)):
        def get_normalized_probs(self, *args, **kwargs):
            log_probs = super().get_normalized_probs(*args, **kwargs)
            return log_probs.index_fill(-1, torch.tensor(index), -math.inf)

    assert any("B" in translation.text for translation in translator(source))
    decoder.__class__ = WithoutB
    assert not any("B" in translation.text for translation in translator(source))


def test_the_largest_min_len_is_possible(source):
    assert load(min_len=15)(source[:1])[0].hypotheses[0].pieces.count(" ") == 14


@pytest.mark.parametrize(
    ("options", "forced", "words"),
    [
        ({"beams": 3}, {}, "beams: no such setting .* did you mean beam?"),
        ({"len_pen": 2.0}, {}, "did you mean lenpen?"),
        ({"atention": "words"}, {}, "did you mean attention?"),
        ({"replace_unk": "@@"}, {}, "replace_unk: no such setting of load"),
        ({"constraints": "sorted"}, {}, "constraints 'sorted': must be ordered or unordered"),
        ({"int8": True, "device": "meta"}, {}, "int8: needs a CPU, not meta"),
        ({"attention": "heads"}, {}, "attention 'heads': must be words or pieces"),
        ({}, {"constraints": [["a"]]}, "load the model with constraints='ordered'"),
        ({"constraints": "ordered"}, {"prefixes": ["a"]}, "cannot be combined"),
        ({}, {"prefixes": ["a", "b"]}, "prefixes: 2 for 1 text"),
        ({"constraints": "ordered"}, {"constraints": []}, "constraints: 0 for 1 text"),
    ],
)
def test_wrong_settings_are_reported(options, forced, words):
    with pytest.raises(UsageError, match=words):
        load(**options)(["a"], **forced)


def test_loading_prints_no_log(tmp_path):
    """Check that loading neither logs nor adds log handlers."""
    saved = tmp_path / "saved"
    saved.mkdir()
    for file in (*(FIXTURE / "data").iterdir(), CHECKPOINT):
        shutil.copy(file, saved)
    program = f"""
import logging
from fairseq_posattn.inference import prediction, tokens, translation
handlers = list(logging.root.handlers)
logging.basicConfig(level=logging.INFO)
print(handlers, repr(translation.load({str(CHECKPOINT)!r}, {str(saved)!r}, device="cpu")))
print(prediction.load({str(CLASSIFIER)!r} + "/checkpoint.pt", {str(CLASSIFIER)!r} + "/data"))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    first, second = done.stdout.splitlines()
    assert first == f"[] Translator({str(CHECKPOINT)!r}, de-en, beam=5, device=cpu)"
    assert second.startswith(f"Predictor('{CLASSIFIER}/checkpoint.pt', [back, forth], device=")
    assert done.stderr == ""


def test_a_shard_may_have_unreadable_lines_alone(source, tmp_path, capsys):
    path = tmp_path / "text"
    path.write_bytes(source[0].encode() + b"\n\xff\n")
    assert command("--input", path, "--shard", "2/2") == 0
    output = capsys.readouterr()
    assert output.out == "\n" and "1 line was answered with a blank line: not UTF-8" in output.err


@pytest.mark.parametrize("shards", [2, len(EXPECTED) + 2])
def test_shards_of_translations_are_the_whole(source, write, capsys, shards):
    """Lines are read in groups of other sizes than a shard's; prefixes are divided with them."""
    forced = ["--prefixes", write("begin", [""] * (len(source) - 1) + ["x"]), "--buffer-size", "3"]
    path = write("text", "\n".join(source))
    outputs = []
    for words in ((), *(("--shard", f"{part}/{shards}") for part in range(1, shards + 1))):
        assert command("--input", path, *forced, *words) == 0
        outputs.append(capsys.readouterr().out)
    whole, *parts = outputs
    assert "".join(parts) == whole and whole.count("\n") == len(EXPECTED)


def test_the_last_shard_refuses_prefixes_of_more_lines(source, write, capsys):
    words = ["--input", write("text", "A\nB"), "--prefixes", write("begin", "x\n\n\n")]
    assert [command(*words, "--shard", f"{part}/2") for part in (1, 2)] == [0, 1]
    assert "begin: has more lines than" in capsys.readouterr().err


def test_a_shard_needs_a_file_that_can_be_read_twice(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")  # what a shell gives for <(zcat FILE)
    for words in ((), ("--input", tmp_path / "pipe")):
        assert command("--shard", "1/2", *words) == 1
        assert "error: --shard: needs --input FILE, not a pipe" in capsys.readouterr().err
