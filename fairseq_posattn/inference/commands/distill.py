"""Write data for a student: a teacher's translations of the training set as its targets.

    %(prog)s checkpoints/large --data data-bin/fr-en --dest data-bin/fr-en-distilled

translates the training side of the prepared folder and writes a folder like it, for posattn train;
validation and test sets stay the same (sequence-level distillation, Kim and Rush, 2016). Several
teachers form an ensemble. Rerun the same command to resume. Lines that the teacher cannot read
whole, or translates with the maximum output length, keep their target, and are counted.

Jobs on several machines that share a disk take --shard 1/2 and --shard 2/2; the last job writes the
folder.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
from argparse import Namespace
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import check_unsplit, writing
from fairseq_posattn.common.progress import say
from fairseq_posattn.inference import options
from fairseq_posattn.inference.commands.translate import split_checkpoints
from fairseq_posattn.inference.distillation import Parts, Settings
from fairseq_posattn.preparation import binarize
from fairseq_posattn.preparation.like import Template
from fairseq_posattn.preparation.report import count_lines, shown
from fairseq_posattn.preparation.segmentation import prefix_of
from fairseq_posattn.preparation.stages import Stages
from fairseq_posattn.text import manifest
from fairseq_posattn.text.lines import file_lines
from fairseq_posattn.text.vocabulary import read_symbols

STAGE = "distilled data"
# Files that are not copied: of the training set, and those that are written.
NOT_COPIED = re.compile(rf"\..*|(?:.*\.)?train\d*\..*|dict\..*\.txt|{re.escape(manifest.NAME)}")


class IncompleteError(Exception):
    """Parts of the training set are not translated yet."""


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    parser = cli.make_parser(__doc__, prog)
    about = "checkpoints of fairseq-train, or folders of them; several form an ensemble"
    parser.add_argument("teachers", nargs="+", metavar="TEACHER", help=about)
    about = "prepared folder with the dictionaries of the teachers"
    parser.add_argument("--data", type=Path, metavar="FOLDER", required=True, help=about)
    parser.add_argument("--dest", type=Path, metavar="FOLDER", required=True, help="output folder")
    options.add_user_dir(parser)
    about = "train on the original targets, too: each pair occurs with both"
    parser.add_argument("--keep-original", action="store_true", help=about)
    about = "take the hypothesis of the beam with the best sentence BLEU against the original "
    about += "target (their interpolation), not the most probable one"
    parser.add_argument("--best-of-beam", action="store_true", help=about)
    options.add_search(parser.add_argument_group("decoding"), options.DECODING)
    cli.add_count(parser, "--batch-size", options.BATCH_SIZE, "lines in a batch, at most")
    about = "subwords in a batch with padding, at most"
    cli.add_count(parser, "--max-tokens", options.MAX_TOKENS, about)
    cli.add_count(parser, "--processes", 1, "processes, on as many GPUs or sharing the cores")
    options.add_shard(parser, "the training set")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU")
    about = "int8 inference on the CPU: faster from about 512 dimensions"
    parser.add_argument("--int8", action="store_true", help=about)
    return cli.run(parser, distill, arguments)


def distill(args: Namespace) -> None:
    """Translate what is missing, and write the folder once all is translated."""
    from fairseq_posattn.compat.checkpoints import find_checkpoint

    source, dest = Template(args.data, "--data"), args.dest
    texts = _training_set(source, dest)
    paths = chain.from_iterable(map(split_checkpoints, args.teachers))
    decoding = {"device": "cpu" if args.cpu else None, "int8": args.int8}
    settings = Settings(
        [find_checkpoint(path) for path in paths],
        str(source.folder),
        source.rules.languages,
        args.best_of_beam,
        args.processes,
        args.user_dir,
        decoding | options.search_settings(args),
        (args.batch_size, args.max_tokens),
    )
    stamp = _stamp([*settings.teachers, *texts], settings)
    parts = Parts(dest / f".translations-{stamp[:12]}", texts, count_lines(texts[0]))
    write = partial(_write, source, texts, parts, args.keep_original)
    outputs, chosen = _outputs(source, texts), {"stamp": stamp, "both": args.keep_original}

    def is_written() -> bool:
        with suppress(IncompleteError), Stages(dest).locked() as stages:
            if stages.published and (STAGE not in stages.published or _differ(source, dest)):
                raise UsageError(f"--dest {dest}: holds another corpus; choose another folder")
            stages.run(STAGE, outputs, write, **chosen)
            return True
        return False

    if not (dest.exists() and is_written()):  # a new folder waits for translations
        parts.translate(settings, *args.shard)
        if not is_written():
            missing = f"{len(parts.missing()):,} of {parts.number:,} parts are missing"
            print(f"{missing}; the last one of the other shards writes {dest}")
            return
    shutil.rmtree(parts.folder, ignore_errors=True)
    print(f"next:\n    posattn train {shlex.quote(shown(dest))}")


def _training_set(source: Template, dest: Path) -> list[Path]:
    """Return the training set in subwords; UsageError if it or the destination does not fit."""
    rules, data = source.rules, source.folder
    check_unsplit(dest, "--dest", ",:")
    if Path(os.path.realpath(dest)).is_relative_to(os.path.realpath(data)):
        raise UsageError(f"--dest {dest}: lies in --data {data}; choose another folder")
    if rules.task != "translation":
        raise UsageError(f"--data {data}: is for {rules.kind}; name translations or summaries")
    texts = [data / f"text/{prefix_of(rules.subwords)}train.{side}" for side in rules.languages]
    for text in texts:
        if not text.exists():
            raise UsageError(f"{text}: no such file; name the folder of posattn prepare in --data")
    return texts


def _differ(source: Template, dest: Path) -> bool:
    """Return whether the data of a folder has other languages, in order, or dictionaries."""
    there, sides = manifest.read(dest), source.rules.languages
    if there is not None and there.languages != sides:
        return True
    paths = {dest / f"dict.{side}.txt": side for side in sides}
    return any(
        not path.is_file() or read_symbols(path) != read_symbols(source.dictionary(side))
        for path, side in paths.items()
    )


def _stamp(files: Iterable[str | Path], settings: Settings) -> str:
    """Return the SHA-256 of all that translations depend on; files count by size and time."""
    stats = [(os.path.realpath(path), os.stat(path)) for path in files]
    states = [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]
    search = {name: value for name, value in settings.options.items() if name != "device"}
    text = json.dumps([states, settings.best_of_beam, search], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _copied(data: Path) -> list[str]:
    """Return the files that do not depend on the training set, relative to the folder."""
    files = (path for name in ("*", "text/*") for path in data.glob(name) if path.is_file())
    kept = (path for path in files if not NOT_COPIED.fullmatch(path.name))
    return sorted(str(path.relative_to(data)) for path in kept)


def _outputs(source: Template, texts: Sequence[Path]) -> list[str]:
    outputs, pair = [*_copied(source.folder), manifest.NAME], "-".join(source.rules.languages)
    for side, text in zip(source.rules.languages, texts, strict=True):
        outputs += [f"train.{pair}.{side}.{ending}" for ending in ("bin", "idx")]
        outputs += [f"dict.{side}.txt", f"text/{text.name}"]
    return outputs


def _write(
    source: Template, texts: Sequence[Path], parts: Parts, keep_original: bool, work: Path
) -> None:
    """Write the prepared folder to ``work``; raise IncompleteError if translations are missing."""
    if parts.missing():
        raise IncompleteError
    rules, (first, second) = source.rules, source.rules.languages
    for file in _copied(source.folder):
        shutil.copyfile(source.folder / file, work / file)
    sides = (file_lines(texts[0]), parts.targets())
    for text, lines in zip(texts, sides, strict=True):
        with writing(work / "text" / text.name) as output:
            new = chain(lines, file_lines(text)) if keep_original else lines
            output.writelines(f"{line}\n" for line in new)
    flags: dict[str, object] = {"source_lang": first, "target_lang": second}
    flags |= {"joined_dictionary": rules.joined, "srcdict": source.dictionary(first)}
    if not rules.joined:
        flags["tgtdict"] = source.dictionary(second)
    prefix = work / "text" / texts[0].name.removesuffix(f".{first}")
    binarize.preprocess(work, len(os.sched_getaffinity(0)), say, trainpref=prefix, **flags)
    count = parts.count * (1 + keep_original)
    manifest.write(work, replace(rules, examples={**rules.examples, "train": count}))
