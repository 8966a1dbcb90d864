"""Translate Moses text by sacremoses, subword-nmt and CTranslate2: what text_translation.py times.

    python benchmarks/ctranslate2_pipeline.py FOLDER SOURCE TARGET float32 < test.de

FOLDER is an export (``posattn export --ctranslate2``) of a model with BPE. One thread, beam 5, at
most 200 subwords, as ``posattn translate``; 64 sentences a batch, as fast as 128 or 256.
"""

import sys
from pathlib import Path

import ctranslate2
from sacremoses import MosesDetokenizer, MosesTokenizer
from subword_nmt.apply_bpe import BPE

folder, source, target, kind = sys.argv[1:]
settings = {"compute_type": kind, "inter_threads": 1, "intra_threads": 1}
translator = ctranslate2.Translator(f"{folder}/ctranslate2", **settings)
tokenizer, detokenizer = MosesTokenizer(source), MosesDetokenizer(target)
with Path(folder, "bpe.codes").open(encoding="utf-8") as codes:
    bpe = BPE(codes)
lines = [tokenizer.tokenize(line, return_str=True) for line in sys.stdin]
subwords = [bpe.process_line(line).split() for line in lines]
limits = {"beam_size": 5, "max_batch_size": 64, "max_decoding_length": 200}
for result in translator.translate_batch(subwords, **limits):
    words = " ".join(result.hypotheses[0]).replace("@@ ", "")
    print(detokenizer.detokenize(words.split()))
