"""Exported models generate like fairseq-generate and tokenize like posattn's commands."""

import pickle
import random
from pathlib import Path

import pytest
import torch
from classifier_builder import sentences
from test_export import TINY_TRANSFORMER
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import fairseq_posattn.hugging_face  # noqa: F401, registers
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.export.checkpoint import export
from fairseq_posattn.inference import prediction, translation
from fairseq_posattn.text import manifest
from fairseq_posattn.text.lines import read_file
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.subwords import train_sentencepiece

pytestmark = pytest.mark.slow  # each builds a model and exports it
FIXTURE = Path(__file__).parents[1] / "fixtures/translation"


def lines(count):
    generator = random.Random(1)
    return [
        " ".join(generator.choices("abcdefgh", k=generator.randint(1, 9))) for _ in range(count)
    ]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the exported model of the fixture, which was trained to translate."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    export(str(FIXTURE / "checkpoint.pt"), folder, str(FIXTURE / "data"))
    return AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def written(model, tokenizer, texts, **options):
    inputs = tokenizer(texts, padding=True, return_tensors="pt")
    return tokenizer.batch_decode(model.generate(**inputs, **options), skip_special_tokens=True)


def by_fairseq(texts, checkpoint=FIXTURE / "checkpoint.pt", data=FIXTURE / "data", **options):
    translator = translation.load([checkpoint], str(data), device="cpu", **options)
    return [result.text for result in translator(texts)]


def test_texts_longer_than_the_model_reads_are_cut_or_refused(exported):
    text = " ".join("abcdefgh" * 4)
    model, tokenizer = exported
    cut = model.generate(**tokenizer([text], truncation=True, return_tensors="pt"))
    assert tokenizer.batch_decode(cut, skip_special_tokens=True) == by_fairseq([text])
    with pytest.raises(ValueError, match="33 tokens is longer than .*16; .*truncation=True"):
        written(model, tokenizer, [text])


@pytest.mark.parametrize(
    "fairseq, transformers",
    [
        ({}, {}),
        ({"beam": 1}, {"num_beams": 1, "early_stopping": False}),
        ({"lenpen": 2.0, "min_len": 4}, {"length_penalty": 2.0, "min_new_tokens": 4}),
        ({"max_len_b": 3}, {"max_new_tokens": 4}),
        ({"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 2}),
        ({}, {"use_cache": False}),
    ],
)
def test_generation_equals_fairseqs(fairseq, transformers, exported):
    texts = lines(40)
    generated = written(*exported, texts, **transformers)
    assert generated == by_fairseq(texts, **fairseq)
    assert len(set(generated)) > 10


def test_padding_on_the_left_changes_nothing(exported):
    model, tokenizer = exported
    texts = lines(40)
    inputs = tokenizer(texts, padding=True, padding_side="left", return_tensors="pt")
    assert inputs["attention_mask"][:, 0].eq(0).any()
    for batch in (inputs, {"input_ids": inputs["input_ids"]}):  # the padding symbol suffices
        generated = tokenizer.batch_decode(model.generate(**batch), skip_special_tokens=True)
        assert generated == written(model, tokenizer, texts)


@pytest.mark.parametrize("beam", [1, 3])
def test_search_options_are_saved_with_the_model(beam, tmp_path):
    decoding = {"beam": beam, "lenpen": 0.5, "max_len_b": 5, "min_len": 2}
    decoding["no_repeat_ngram_size"] = 3
    export(str(FIXTURE / "checkpoint.pt"), tmp_path / "out", str(FIXTURE / "data"), **decoding)
    model = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    texts = lines(20)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert written(model, tokenizer, texts) == by_fairseq(texts, **decoding)


def test_settings_that_the_exported_model_cannot_have_are_refused(tmp_path):
    with pytest.raises(UsageError, match="max_len_a: generate.. has no such default; .*max_len_b"):
        export(str(FIXTURE / "checkpoint.pt"), tmp_path, str(FIXTURE / "data"), max_len_a=1.2)


def test_a_prefix_is_continued(exported):
    model, tokenizer = exported
    inputs = tokenizer(lines(3), padding=True, return_tensors="pt")
    start = sentences(4, 4, 4, words=8)[:, :3]
    start[:, 0] = 2
    options = {"num_beams": 1, "early_stopping": False, "decoder_input_ids": start}
    tokens = model.generate(**inputs, **options)
    assert torch.equal(tokens[:, :3], start)
    assert torch.equal(tokens, model.generate(**inputs, **options, use_cache=False))


@torch.no_grad()
def test_a_cache_is_continued_by_several_tokens(exported):
    model, tokenizer = exported
    inputs = tokenizer(lines(3), padding=True, return_tensors="pt")
    tokens = sentences(6, 6, 6, words=8)
    past = model(**inputs, decoder_input_ids=tokens[:, :2], use_cache=True).past_key_values
    for use_cache, length in ((None, 3), (True, 6)):
        options = {"past_key_values": past, "use_cache": use_cache}
        output = model(**inputs, decoder_input_ids=tokens[:, :length], **options)
        expected = model(**inputs, decoder_input_ids=tokens[:, :length])
        torch.testing.assert_close(output.logits, expected.logits[:, -1:])
    with pytest.raises(ValueError, match="1 token, and past_key_values has 6 already; give all t"):
        model(**inputs, decoder_input_ids=tokens[:, :1], past_key_values=past)


def test_sampling_ends_at_the_maximum_length(exported):
    """Although the most probable token, the only one that is sampled, is another one."""
    model, tokenizer = exported
    inputs = tokenizer(["a b c d e"], return_tensors="pt")
    tokens = model.generate(**inputs, num_beams=1, do_sample=True, top_k=1, max_new_tokens=3)
    assert tokens[0, -1] == model.config.eos_token_id


def test_arguments_without_effect_are_refused(exported):
    model, tokenizer = exported
    inputs = tokenizer(["a b c d e"], return_tensors="pt")
    with pytest.raises(UsageError, match="output_attentions: exported models do not support it"):
        model.generate(**inputs, output_attentions=True, return_dict_in_generate=True)
    start = torch.tensor([[2]])
    with pytest.raises(UsageError, match="inputs_embeds: "):
        model(**inputs, decoder_input_ids=start, inputs_embeds=torch.zeros(1, 6, 8))
    for name in ("head_mask", "decoder_head_mask", "cross_attn_head_mask"):
        with pytest.raises(UsageError, match=f"^{name}: "):
            model(**inputs, decoder_input_ids=start, **{name: torch.zeros(2, 2)})
    model(**inputs, decoder_input_ids=start, output_attentions=False)


def test_labels_are_shifted_right_for_the_decoder(exported):
    model, tokenizer = exported
    options = {"padding": True, "return_tensors": "pt"}
    inputs = tokenizer(lines(3), text_target=["A B", "C", "D E F"], **options)
    labels = inputs["labels"].masked_fill(inputs["labels"].eq(1), -100)
    start = torch.tensor([[2, *row[:-1]] for row in inputs["labels"].tolist()])
    output = model(**{**inputs, "labels": labels})
    logits = model(inputs["input_ids"], decoder_input_ids=start).logits
    wanted = labels.ne(-100)
    likely = logits.log_softmax(-1)[wanted].gather(1, labels[wanted][:, None])
    torch.testing.assert_close(output.loss, -likely.mean())
    with pytest.raises(ValueError, match="give one of them, or call generate"):
        model(inputs["input_ids"])


TEXT = [
    "L'homme  dit : \u00ab oui \u00bb & le <s> chat </s> bas.",
    "Lower, LOWEST\u2028low\tlow-low",
    "<pad> <unk> @@ lo@@ w \u4f60 don't",
]
BPE = "#version: 0.2\nl o\nlo w</w>\nlo w\n"
WORDPIECE = "[PAD] [UNK] [CLS] [SEP] [MASK] low ##er ##est l ##o chat : , . <".replace(" ", "\n")
KINDS = {
    "subword_nmt": ("lo@@ w . <unk>", "low. <unk>", "bpe.codes", BPE),
    "wordpiece": ("lo ##er .", "loer.", "vocab.txt", WORDPIECE),
    None: ("lo w .", "lo w.", "nothing", ""),
}


@pytest.mark.parametrize("kind", KINDS)
def test_text_is_tokenized_and_decoded_as_by_translate(kind, translator, tmp_path):
    pieces, text, name, content = KINDS[kind]
    (tmp_path / name).write_text(content)
    rule = "spaces" if kind == "wordpiece" else "lowered-normalised-moses-escaped"
    prepared = Manifest("own", "translation", rule, True, kind, ("fr", "en"), longest=12)
    manifest.write(tmp_path, prepared)
    letters = "l o w e r s t h m d i u n c a b p k < > / &apos; ' : . , "
    letters += "low lo chat ##er ##est ##o &amp;"
    words = [f"{letter}{mark}" for letter in letters.split() for mark in ("", "@@")]
    path, _ = translator("posattn_transformer", *TINY_TRANSFORMER, words=words)
    exported = export(path, tmp_path / "out")
    tokenizer = pickle.loads(pickle.dumps(AutoTokenizer.from_pretrained(tmp_path / "out")))
    ours = translation.load([path], device="cpu")
    read = [ours.lines.encode(text).tokens.tolist() for text in TEXT]
    assert tokenizer(TEXT)["input_ids"] == exported.tokenizer(TEXT)["input_ids"] == read
    assert len(set(read[0])) > 3
    numbers = tokenizer.convert_tokens_to_ids(["</s>", *pieces.split(), "</s>", "<pad>"])
    assert tokenizer.decode(numbers, skip_special_tokens=True) == text


def test_a_saved_tokenizer_loads_elsewhere(translator, tmp_path):
    path, _ = translator("posattn_transformer", *TINY_TRANSFORMER, joined=False)
    exported = export(path, tmp_path / "out")
    AutoTokenizer.from_pretrained(tmp_path / "out").save_pretrained(tmp_path / "moved")
    moved = AutoTokenizer.from_pretrained(tmp_path / "moved")
    texts = ["word1 word2 word19", "word0"]
    assert moved(texts, text_target=texts) == exported.tokenizer(texts, text_target=texts)
    assert moved(texts)["input_ids"] != moved(text_target=texts)["input_ids"]


def test_subwords_of_a_classifier_are_exported(classifier, tmp_path):
    text = "\u0e17\u0e35\u0e48\u0e19\u0e35\u0e49\u0e14\u0e35 \u0e14\u0e35"
    train_sentencepiece([text] * 9, 14, tmp_path / "spm", model_type="bpe")
    subwords = read_file(tmp_path / "spm.vocab")[3:]
    words = [subword.partition("\t")[0] for subword in subwords]
    path, _ = classifier("cnn_classifier", "--encoder-embed-dim=4", words=words)
    rule = {"word_rule": "spaces", "subwords": "sentencepiece"}
    manifest.write(tmp_path, Manifest("own", "sentence_prediction", **rule))
    export(path, tmp_path / "out")
    AutoTokenizer.from_pretrained(tmp_path / "out").save_pretrained(tmp_path / "moved")
    moved = AutoTokenizer.from_pretrained(tmp_path / "moved")
    predicted = prediction.load(path).encode([text])[0].tolist()
    assert moved(text)["input_ids"] == predicted
    assert len(predicted) > 3 not in predicted


def test_sentences_are_tokenized_as_by_predict(classifier, tmp_path):
    """Both sentences of a pair have special symbols."""
    words = ["it", "is", "n't", "<sep>"]
    flags = ["--encoder-embed-dim=4", "--init-token=0", "--separator-token=2"]
    path, _ = classifier("cnn_classifier", *flags, words=words)
    prepared = Manifest("sst2", "sentence_prediction", "treebank", True)
    manifest.write(tmp_path, prepared)
    tokenizer = export(path, tmp_path / "out").tokenizer
    predictor = prediction.load(path)
    texts = ["It isn't <sep> it </s> <mask>.", "  IT  "]
    assert tokenizer(texts)["input_ids"] == [predictor.encode([text])[0].tolist() for text in texts]
    predictor.expects_pairs = True
    assert tokenizer(*texts)["input_ids"] == predictor.encode(texts)[0].tolist()
