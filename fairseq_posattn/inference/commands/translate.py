"""Translate plain text, a line at a time, with a trained model.

    echo "Guten Morgen!" | %(prog)s checkpoints/iwslt14/checkpoint_best.pt

reads one sentence a line and prints its translation, a blank line for a blank one and for one that
is not UTF-8, with a warning. Lines longer than the model reads are cut, with a warning. Sentences
are tokenized and split into subwords like the training data, and translations are detokenized, as
preparation.json beside the checkpoint or the data says. Without that file, sentences are taken as
subwords separated by spaces. Input is answered as it arrives, without buffering.

Several checkpoints of the same data form an ensemble.

Prefixes (--prefixes) and words of translations (--constraints) can be given:

    printf 'Der Hund bellt.\\thound\\n' | %(prog)s CHECKPOINT --constraints
"""

import itertools
import math
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.inference import options
from fairseq_posattn.inference.stream import LineNotes, decode_line, warn
from fairseq_posattn.text.lines import file_lines

SUMMARIZE = """Summarize plain text, one text a line, with a trained model.

    %(prog)s checkpoints/cnn_dailymail/checkpoint_best.pt --input articles.txt

prints a summary for each line, and a blank line for a blank one. Texts are tokenized and cut like
the training data, and summaries are detokenized, as preparation.json beside the checkpoint or the
data says. Without that file, texts are taken as subwords separated by spaces.

Several checkpoints of the same data form an ensemble. CNN/DailyMail's published settings are
--lenpen 2 --min-len 50, Gigaword's --max-len-b 30.
"""


def main(
    arguments: Sequence[str] | None = None,
    prog: str | None = None,
    about: str | None = __doc__,
    decoding: Mapping[str, Any] = options.DECODING,
) -> int:
    parser = cli.make_parser(about, prog)
    about = "checkpoints of fairseq-train, or folders of them; several also separated by colons"
    parser.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help=about)
    options.add_text(parser)
    options.add_shard(parser, "the input")
    about = 'print one JSON object a line: {"text": ..., "hypotheses": [{"text": ..., "score": ...'
    about += ', "pieces": ..., "attention": {"source": [words], "target": [words], "weights": '
    about += "[rows]}}, ...]}"
    parser.add_argument("--json", action="store_true", help=about)
    about = "in --json: attention of the last decoder layer, mean over heads and models, between "
    about += "words, or between subwords (pieces), as for languages without spaces; rows are the "
    about += "translation's, columns the line's and its end symbol (default: %(default)s)"
    levels = ("words", "pieces", "none")
    parser.add_argument("--attention", choices=levels, default=decoding["attention"], help=about)
    group = parser.add_argument_group("decoding, as in fairseq-generate")
    options.add_search(group, decoding)
    about = "hypotheses to print for each line, best first; fewer if no others have its "
    about += "prefix or constraints, one blank line for a blank one (--json keeps lines apart)"
    cli.add_count(group, "--nbest", 1, about)
    about = "never print <unk>, but the best known subword in its place"
    group.add_argument("--no-unk", action="store_true", help=about)
    forced = group.add_mutually_exclusive_group()
    about = "beginnings of the translations, in whole words: one line, maybe blank, for each line "
    about += "of the input"
    forced.add_argument("--prefixes", metavar="FILE", help=about)
    cli.add_count(group, "--prefix-size", None, "use only the first N subwords of each prefix")
    about = "words or phrases after TABs in a line must be in its translation, in their order "
    about += "(ordered, the default value) or in any (unordered)"
    ways = ("ordered", "unordered")
    forced.add_argument("--constraints", nargs="?", const=ways[0], choices=ways, help=about)
    options.add_speed(parser, batch_size=options.BATCH_SIZE, buffer_size=4096)
    about = "subwords in a batch with padding, at most"
    cli.add_count(parser, "--max-tokens", options.MAX_TOKENS, about)
    about = "int8 inference on the CPU: faster from about 512 dimensions; a few translations change"
    parser.add_argument("--int8", action="store_true", help=about)
    return cli.run(parser, translate, arguments)


def translate(args: Namespace) -> None:
    from tqdm import tqdm

    from fairseq_posattn.inference import translation

    if args.prefix_size and not args.prefixes:
        raise UsageError("--prefix-size: needs --prefixes FILE")
    shard = options.shard_lines(args)
    with options.answering(args) as (groups, name, out):
        translator = translation.load(
            [path for argument in args.checkpoints for path in split_checkpoints(argument)],
            args.data,
            device="cpu" if args.cpu else None,
            attention=args.attention if args.json and args.attention != "none" else None,
            int8=args.int8,
            nbest=args.nbest,
            constraints=args.constraints,
            prefix_size=args.prefix_size or 0,
            unkpen=math.inf if args.no_unk else 0,
            **options.search_settings(args),
        )
        if translator.lines.manifest is None:
            warn(f"{args.checkpoints[0]}: no preparation.json: text is taken as subwords")
        is_typed = args.input == "-" and sys.stdin.isatty()
        with tqdm(disable=is_typed or None) as bar:
            number, answered = shard.start if shard else 0, 0
            notes = translator.lines.notes()
            for texts, forced, error in requests(groups, name, args, notes, shard):
                encoded = translator.encode(texts, **forced)
                translations = translator.translate_all(encoded, args.batch_size, args.max_tokens)
                for result in translations:
                    answers = [hypothesis.text for hypothesis in result.hypotheses] or [""]
                    lines = [result.as_json()] if args.json else answers
                    print(*lines, sep="\n", file=out)
                out.flush()
                for row, result in enumerate(translations):
                    if result.failed:
                        warn(f"{name}:{number + row + 1}: {unmet(texts[row], forced, row)}")
                    if encoded[row].cut:
                        notes.add("cut", number + row + 1)
                    if result.is_longest:
                        notes.add("longest", number + row + 1)
                number += len(texts)
                answered += sum(len(line.tokens) > 0 for line in encoded)
                bar.update(len(texts))
                if warning := translator.lines.unknown.warning():
                    warn(f"{name}: {warning}")
                if error:
                    raise error
            if shard is None:  # a part may have no other lines
                notes.require_answers(name, answered)
        for message in notes.warnings(name):
            warn(message)


def unmet(text: str, forced: dict[str, list[Any]], row: int) -> str:
    """Return the warning for a line without a translation that satisfies its conditions."""
    condition = ""
    if "constraints" in forced:
        condition = f" with {', '.join(map(shortened, forced['constraints'][row]))} in it"
    elif "prefixes" in forced:
        condition = f" that begins with {shortened(forced['prefixes'][row])}"
    limits = "--max-len-a, --max-len-b and --no-repeat-ngram-size"
    nothing = f"no translation of {shortened(text)}{condition} within {limits}"
    return f"answered with a blank line: {nothing}"


def split_checkpoints(argument: str) -> list[str]:
    """Return the checkpoint that an argument names, or several that colons separate."""
    return [argument] if Path(argument).exists() else argument.split(":")


def requests(
    groups: Iterable[list[bytes]], name: str, args: Namespace, notes: LineNotes, shard: range | None
) -> Iterator[tuple[list[str], dict[str, list[Any]], UsageError | None]]:
    """Yield texts as they arrive, what is forced, and the error after them; add to ``notes``."""
    number = 0
    prefixes = file_lines(args.prefixes, allow_empty=True) if args.prefixes else None
    if shard is not None:
        number, bounds = shard.start, (shard.start, shard.stop)
        part = itertools.islice(itertools.chain.from_iterable(groups), *bounds)
        groups = iter(lambda: list(itertools.islice(part, args.buffer_size)), [])
        end = None if args.shard[0] + 1 == args.shard[1] else shard.stop  # the last counts the rest
        prefixes = prefixes and itertools.islice(prefixes, shard.start, end)
    for lines in groups:
        numbered = enumerate(lines, start=number + 1)
        texts = [decode_line(line, name, number, notes) for number, line in numbered]
        number += len(lines)
        forced: dict[str, list[Any]] = {}
        error = None
        if args.constraints:
            parts = [text.split("\t") for text in texts]
            texts = [text for text, *_ in parts]
            forced = {"constraints": [words for _, *words in parts]}
        elif prefixes:
            forced = {"prefixes": list(itertools.islice(prefixes, len(texts)))}
            if len(forced["prefixes"]) < len(texts):
                texts = texts[: len(forced["prefixes"])]
                error = UsageError(f"{args.prefixes}: has fewer lines than {name}")
        yield texts, forced, error
    if prefixes and next(prefixes, None) is not None:
        raise UsageError(f"{args.prefixes}: has more lines than {name}")


SUMMARY_DECODING = options.DECODING | {"no_repeat_ngram_size": 3, "attention": "none"}
summarize = partial(main, about=SUMMARIZE, decoding=SUMMARY_DECODING)
