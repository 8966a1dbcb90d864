"""Time of translating: the plugin's models beside fairseq's Transformer and CTranslate2.

    python benchmarks/decoding.py
    python benchmarks/decoding.py --int8

Models with random weights translate random sentences into exactly --target-length tokens with beam
search, in turns: ours, a Transformer of the plugin (`san` sublayers) of the stock model's size,
fairseq's, on a CPU CTranslate2 (`pip install ctranslate2`), and the linear layers of ours alone.
"""

import importlib.util
import tempfile

import machine
import torch
import translation_pairs as pairs
from fairseq.sequence_generator import SequenceGenerator

from fairseq_posattn.inference.beam_search import ForcedSearch
from fairseq_posattn.model.projections import quantize_linear_layers

SUBLAYERS = "--encoder-sublayers san,ffn --decoder-sublayers san,cross,ffn"
COMPARED = {
    ("plain", "stock"): "plain Transformer, ours / fairseq's",
    ("ours", "ctranslate2"): "ours / CTranslate2's",
    ("plain", "ctranslate2"): "plain Transformer, ours / CTranslate2's",
    ("ours", "matmuls"): "ours / its matmuls",
}


def measure(name, words, shape, arguments):
    batch = pairs.random_batch(words, shape, arguments.device)
    ours, stock = pairs.build_pair(name, words, arguments)
    sizes = ("embed_dim", "ffn_embed_dim", "attention_heads", "layers")
    same = pairs.size_flags(**{size: getattr(stock.cfg.encoder, size) for size in sizes})
    flags = f"{pairs.EMBEDDINGS} {SUBLAYERS} {same} {pairs.PAIRS[name].flags}"
    precision = words, arguments.device, arguments.dtype
    plain = pairs.build("posattn_transformer", flags, *precision)
    case = words, batch, shape["target_length"], arguments
    searches = {
        "ours": search(ForcedSearch, ours, *case),
        "plain": search(ForcedSearch, plain, *case),
        "stock": search(SequenceGenerator, stock, *case),
    }
    if arguments.device == "cpu" and importlib.util.find_spec("ctranslate2"):
        searches["ctranslate2"] = search_by_ctranslate2(stock, *case)
    for model in (ours, plain) if arguments.int8 else ():
        quantize_linear_layers(model)
    searches["matmuls"] = linear_layers(ours, searches["ours"])
    rounds = arguments.batches, arguments.warmup, arguments.device
    times = machine.take_turns(name, searches, *rounds)
    yield {
        **{"beam": arguments.beam, "int8": arguments.int8, "batches": arguments.batches},
        "milliseconds": {model: machine.milliseconds(each) for model, each in times.items()},
        **machine.compare(times["ours"], times["stock"]),
        **{f"{a}_over_{b}": machine.compare(times[a], times[b]) for a, b in COMPARED if b in times},
    }


def search(kind, model, words, batch, length, arguments):
    """Return a function that translates the batch by fairseq's search or the plugin's."""
    model.eval().make_generation_fast_(need_attn=False)
    limits = {"beam_size": arguments.beam, "max_len_b": length, "min_len": length}
    generator = kind([model], words, **limits)
    sample = {"net_input": {"src_tokens": batch.source, "src_lengths": batch.lengths}}
    return lambda: generator.generate([model], sample)


def linear_layers(model, search):
    """Return a function that repeats the calls of linear layers in a search."""
    calls, layers = [], [layer for layer in model.modules() if isinstance(layer, torch.nn.Linear)]
    note = lambda layer, inputs, _: calls.append((layer, inputs[0]))  # noqa: E731
    hooks = [layer.register_forward_hook(note) for layer in layers]
    search()
    for hook in hooks:
        hook.remove()
    return torch.no_grad()(lambda: [layer(x) for layer, x in calls])


@torch.no_grad()
def search_by_ctranslate2(stock, words, batch, length, arguments):
    """Return a function that translates the batch by CTranslate2 with the stock model's weights.

    It makes as many steps as fairseq's search, in which the end of a sentence is one more token.
    """
    import ctranslate2
    from ctranslate2.converters import fairseq as converter

    kind = "int8" if arguments.int8 else "float32"
    spec = converter._get_model_spec(stock.args)
    converter.set_transformer_encoder(spec.encoder, stock.encoder)
    converter.set_transformer_decoder(spec.decoder, stock.decoder)
    spec.register_source_vocabulary(converter._get_vocab(words))
    spec.register_target_vocabulary(converter._get_vocab(words))
    spec.config.decoder_start_token = spec.config.eos_token
    spec.validate()
    spec.optimize(quantization=kind)
    threads = {"inter_threads": 1, "intra_threads": torch.get_num_threads()}
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(folder, compute_type=kind, **threads)
    sentences = [[words[token] for token in row if token != words.pad()] for row in batch.source]
    limits = {"min_decoding_length": length, "max_decoding_length": length + 1}
    return lambda: translator.translate_batch(sentences, beam_size=arguments.beam, **limits)


def cells(pair, report):
    row = pairs.first_cells(pair, report)
    row["time, ours / fairseq's (rounds)"] = machine.ratio(pair, "batches")
    for (a, b), title in COMPARED.items():
        if ratio := pair.get(f"{a}_over_{b}"):
            row[title] = machine.ratio({**pair, **ratio}, "batches")
    return row


OPTIONS = {
    **pairs.rounds(7, 1, "batches"),
    **machine.DEVICE,
    "beam": (5, "hypotheses per sentence"),
    "int8": (False, "int8, except for fairseq's model"),
}
BENCHMARKS = {"": pairs.benchmark(measure, machine.one_table(cells), OPTIONS)}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
