"""Sentences per second in translating: the plugin's models beside fairseq's own, in one run.

    python benchmarks/decoding.py
    python benchmarks/decoding.py --sentences 128 --device cuda --dtype float16
    python benchmarks/decoding.py --int8

What is timed is the beam search of fairseq-generate, by models with random weights that are made to
write translations of just --target-length words. The two models of a pair take turns, batch by
batch, on the same random sentences.
"""

import statistics

import machine
import torch
import translation_pairs as pairs
from fairseq.sequence_generator import SequenceGenerator

from fairseq_posattn.model.projections import quantize_linear_layers


def parse_arguments():
    parser = machine.make_parser(__doc__)
    pairs.add_arguments(parser)
    parser.add_argument("--beam", type=int, default=5, help="hypotheses kept")
    parser.add_argument("--batches", type=int, default=7, help="counted batches of each model")
    parser.add_argument("--warmup", type=int, default=1, help="batches before those")
    parser.add_argument(
        "--int8", action="store_true", help="the maps of our models in whole numbers of 8 bits"
    )
    return parser.parse_args()


def translator(model, batch, words, length, arguments):
    """A function that translates the batch and returns the seconds that it took."""
    model.eval().make_generation_fast_(need_attn=False)
    generator = SequenceGenerator(
        [model], words, beam_size=arguments.beam, max_len_b=length, min_len=length
    )
    sample = {
        "id": torch.arange(len(batch.source)),
        "net_input": {"src_tokens": batch.source, "src_lengths": batch.lengths},
    }

    def translate():
        start = machine.now(arguments.device)
        generator.generate([model], sample)
        return machine.now(arguments.device) - start

    return translate


def time_pair(name, arguments):
    words = pairs.dictionary(pairs.PAIRS[name].words)
    shape = pairs.batch_shape(name, arguments)
    batch = pairs.random_batch(words, shape, arguments.device)
    models = pairs.build_pair(name, words, arguments)
    if arguments.int8:
        quantize_linear_layers(models[0])
    contestants = [
        translator(model, batch, words, shape["target_length"], arguments) for model in models
    ]
    seconds = machine.take_turns(name, contestants, arguments.batches, arguments.warmup, "batch")
    ours, theirs = seconds
    return {
        "arch": name,
        "stock": pairs.PAIRS[name].stock,
        **shape,
        "beam": arguments.beam,
        "int8": arguments.int8,
        "batches": arguments.batches,
        "sentences_per_second": round(shape["sentences"] / statistics.median(ours), 2),
        "stock_sentences_per_second": round(shape["sentences"] / statistics.median(theirs), 2),
        **machine.compare(ours, theirs),
    }


LINE = (
    "{arch} ({sentences_per_second} sentences/s) against {stock} "
    "({stock_sentences_per_second}), beam {beam}, {sentences} sentences of up to "
    "{source_length} words into {target_length}: time x {time_ratio:.2f} (median of "
    "{batches}; {time_ratio_lowest:.2f} to {time_ratio_highest:.2f})"
)


if __name__ == "__main__":
    pairs.run(parse_arguments(), time_pair, LINE)
