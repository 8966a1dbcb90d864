"""Train a model on prepared data, with settings that fit the data and the machine.

    %(prog)s data-bin/fr-en

runs fairseq-train with the settings of a size, on the GPUs or else on the CPU. The default size is
the second of the data with a GPU, and tiny without, meant for some 30,000 sentence pairs and an
hour of one core (20 epochs of 30,000 pairs of Multi30k took 41 minutes of a Xeon's). Ctrl-C stops;
rerun the same command to resume. The best and the last checkpoint are kept, and training stops when
validation stops improving. Flags of fairseq-train after -- override the settings:

    %(prog)s data-bin/fr-en --size small -- --dropout 0.2 --seed 2

    data             sizes
"""

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import check_unsplit
from fairseq_posattn.common.progress import Remaining, ending_with_this, signal_of
from fairseq_posattn.preparation.like import checkpoints_of
from fairseq_posattn.preparation.report import shown
from fairseq_posattn.text.languages import is_language
from fairseq_posattn.training.settings import KINDS, SIZES, Prepared, Size
from fairseq_posattn.training.training_log import read_line, warning_of

if TYPE_CHECKING:  # --help needs no fairseq
    from fairseq_posattn.training.starting import Start

PLUGIN = Path(__file__).resolve().parents[2]
LOG = "train.log"
SAVED = ["--no-epoch-checkpoints"]  # but checkpoint_best.pt and checkpoint_last.pt
LOGGED = ["--log-format", "json", "--log-interval", "20"]
# Of fairseq's log: where a training begins, and why it ends
SHOWN = ("Loaded checkpoint ", "nothing left to train", "early stop since")
# Flags that this command gives, but not beside a flag with another value than these: beginnings,
# or with a space all of it
ONLY_WITH = {
    "--adam-betas": ("--optimizer", ("adam ", "cpu_adam")),
    "--adadelta-rho": ("--optimizer", ("adadelta",)),
    "--adadelta-eps": ("--optimizer", ("adadelta",)),
    "--warmup-updates": ("--lr-scheduler", ("inv", "fix", "cos", "poly", "reduce", "step")),
    "--label-smoothing": ("--criterion", ("label_smoothed", "sequence_tagging")),
    "--no-epoch-checkpoints": ("--keep-last-epochs", ("-1",)),
    "--save-interval": ("--validate-interval", ()),  # fairseq compares saved epochs only
}
CPU_TOKENS = 4096
LONGEST = 1024  # tokens of a sentence, fairseq's default limit
GPU_TOKENS = 512  # for each GB of a GPU's memory
ONCE = ("--reset-", "--restore-file", "--finetune-from-model")  # flags of one run
OPTION = "fairseq_posattn: "  # start of the plugin's messages in the log
DURATION = " (30,000 pairs of short sentences took 41 minutes of one core)"


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Train and return the exit status; raise UsageError for unprepared data or a failure."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    here = words.index("--") if "--" in words else len(words)
    sizes = "\n".join(f"    {kind:15}  {', '.join(sizes)}" for kind, sizes in KINDS.items())
    parser = cli.make_parser(f"{__doc__}{sizes}", prog)
    text = "folder of posattn prepare; of pairs also several, as A:B: the first is for validation, "
    text += "and each epoch trains on the next one"
    parser.add_argument("folder", metavar="FOLDER", help=text)
    parser.add_argument("--size", choices=SIZES, help="size of the model and its settings")
    text = "another architecture, with the settings of the size, if it has them all"
    parser.add_argument("--arch", metavar="NAME", help=text)
    text = f"folder of checkpoints and {LOG} (default: checkpoints/ and the name of FOLDER, for a "
    text += "fold also of its corpus)"
    parser.add_argument("--save-dir", type=Path, metavar="FOLDER", help=text)
    text = "start from the weights of this model, with its architecture and dictionaries and a "
    text += "tenth of the rate; the data needs posattn prepare --like"
    parser.add_argument("--from", type=Path, metavar="CHECKPOINT|FOLDER", dest="start", help=text)
    parser.add_argument("--cpu", action="store_true", help="run on the CPU")
    text = "print the fairseq-train command, run nothing"
    parser.add_argument("--dry-run", action="store_true", help=text)
    parser.usage = f"{parser.format_usage().removeprefix('usage: ').rstrip()} [-- FLAG ...]"
    if unknown := parser.parse_known_args(words[:here])[1]:
        parser.error(f"{unknown[0]}: no option of this command; give fairseq-train's after --")
    wanted = parser.parse_args(words[:here])
    prepared = Prepared(*map(Path, wanted.folder.split(":")))
    save_dir = wanted.save_dir or checkpoints_of(prepared.folder)
    check_unsplit(save_dir, "--save-dir")
    import torch  # imported late: --help needs none

    extra = words[here + 1 :]
    number = 0 if wanted.cpu else torch.cuda.device_count()
    gpus = [torch.cuda.get_device_properties(n).total_memory >> 30 for n in range(number)]
    if (workers := cli.value_of(extra, "--distributed-world-size")).isdecimal():
        gpus = (gpus * int(workers))[: int(workers)]  # fewer, or those of other machines, too
    name = wanted.size or list(KINDS[prepared.kind])[1 if gpus else 0]
    if start := wanted.start:
        if wanted.arch:
            raise UsageError(f"--arch {wanted.arch}: --from has its own; leave one of them out")
        from fairseq_posattn.training.starting import Start

        start = Start(wanted.start, prepared, save_dir)
    size = prepared.size(name, start.apply) if start else prepared.size(name)
    command = build_command(prepared, size, wanted.arch, gpus, save_dir, extra, start)
    if wanted.dry_run:
        print(in_lines(command))
        return 0
    device = f"{len(gpus)} GPU{'s' if gpus[1:] else ''}" if gpus else "the CPU"
    model = cli.value_of(command, "--arch")
    print(f"training {model} of size {name} on {device}: {save_dir}/{LOG}")
    if start:
        print(start.describe(command))
    elif not gpus and not wanted.size:
        larger = ", ".join(list(KINDS[prepared.kind])[1:])
        duration = DURATION if prepared.kind == "translation" else ""
        print(f"without a GPU the size is {name}{duration}; larger: {larger}")
    for warning in forgotten(command, extra, save_dir):
        print(f"warning: {warning}")
    flags, custom = map(cli.flag_values, (shlex.split(size.flags), extra))
    unread = tuple(f"{flag} {flags[flag]} changes nothing" for flag in flags if flag not in custom)
    if status := run(command, save_dir, cli.value_of(command, "--best-checkpoint-metric"), unread):
        return status
    print("next:")
    for line in following(prepared, save_dir, extra):
        print(f"    {line}")
    return 0


def build_command(
    prepared: Prepared,
    size: Size,
    arch: str | None,
    gpus: Sequence[int],
    save_dir: Path,
    extra: Sequence[str] = (),
    start: "Start | None" = None,
) -> list[str]:
    """Return the words of fairseq-train, with ``extra`` flags; ``gpus`` has their memory in GB."""
    if cli.value_of(extra, "--save-dir"):
        raise UsageError("--save-dir: give it before --")
    folders = ":".join(map(shown, prepared.folders))
    words = ["fairseq-train", folders, "--user-dir", str(PLUGIN)]
    metric = cli.value_of(extra, "--best-checkpoint-metric") or prepared.metric
    words += ["--arch", arch or size.arch, *shlex.split(size.flags)]
    words += start.fit(prepared.flags(metric)) if start else prepared.flags(metric)
    if arch:
        from fairseq_posattn.training.starting import foreign

        words = cli.without(words, foreign(words, size.arch, arch))
    longest = max(LONGEST, (prepared.manifest.longest or 0) + 1)
    words += [*batches(size, gpus, longest), *SAVED, "--save-dir", str(save_dir), *LOGGED]
    for flag, (other, values) in ONLY_WITH.items():
        value = cli.value_of(extra, other)
        if value and not f"{value} ".startswith(values):
            words = cli.without(words, [flag])
    return [*words, *extra]


def forgotten(command: Sequence[str], extra: Sequence[str], save_dir: Path) -> Iterator[str]:
    """Yield a line for each flag of the last run that ``command`` changes, not by ``extra``.

    The first is about other data: another folder, or one that was prepared again.
    """
    path, checkpoint = save_dir / LOG, save_dir / "checkpoint_last.pt"
    if not (path.exists() and checkpoint.exists()):
        return
    with open(path, encoding="utf-8", errors="surrogateescape") as log:
        last = deque((line for line in log if line.startswith("$ fairseq-train ")), maxlen=1)
    words = []
    with suppress(ValueError):  # a full disk cut the line, or a value has several lines
        words = shlex.split("".join(last))
    before, now, custom = map(cli.flag_values, (words, command, extra))
    data, trained = (folders.split(":") for folders in (command[1], "".join(words[2:3])))
    # In another working folder --save-dir was another path, as was that of the data; it may move.
    is_other = before.get("--save-dir") == now.get("--save-dir")
    is_other = is_other and all(map(os.path.exists, trained))
    is_other = is_other and [*map(os.path.realpath, data)] != [*map(os.path.realpath, trained)]
    files = [file for folder in data for file in Path(folder).rglob("train*.bin")]
    if is_other or any(file.stat().st_mtime > checkpoint.stat().st_mtime for file in files):
        other = f"{command[1]} is {'not the data of' if is_other else 'newer than'} the last run"
        yield f"{other}, whose model goes on; for a new model give another --save-dir"
    for flag, old in before.items():
        if flag == "--save-dir" or flag == "--user-dir" and Path(old).name == PLUGIN.name:
            continue  # another working folder, or the plugin of another environment
        if now.get(flag) != old and flag not in custom and not flag.startswith(ONCE):
            new = f"is {now[flag]}" if flag in now else "is not given"
            keep = shlex.join(filter(None, (flag, old)))
            yield f"{flag} was {old or 'given'} in the last run and {new}; to keep it: -- {keep}"


def batches(size: Size, gpus: Sequence[int], longest: int = LONGEST) -> list[str]:
    """Return flags for the device; an update has the size's tokens or sentences.

    Batches fit the device; one has room for the ``longest`` text.
    """
    device = ["--cpu", "--distributed-world-size", "1", "--num-workers", "0"]
    if gpus:
        import torch

        # GPUs before compute capability 8.0 emulate bfloat16, slower than float32.
        multiplies = torch.cuda.is_bf16_supported(including_emulation=False)
        device = ["--bf16" if multiplies else "--fp16", "--num-workers", "2"]
    workers = max(1, len(gpus))
    if not size.tokens:
        share = -(-int(cli.value_of(shlex.split(size.flags), "--batch-size")) // workers)
        # fairseq fills batches to a multiple of 8 sentences, by default.
        shared = ["--batch-size", str(share), "--required-batch-size-multiple", "1"]
        return [*device, *(shared if workers > 1 or share % 8 else [])]
    most = GPU_TOKENS * min(gpus) if gpus else CPU_TOKENS
    frequency = -(-size.tokens // (most * workers))
    tokens = max(size.tokens // (frequency * workers), longest)
    return ["--max-tokens", str(tokens), "--update-freq", str(frequency), *device]


def in_lines(command: Sequence[str]) -> str:
    """Return a command to paste into a shell, in lines of at most 100 characters."""
    words = shlex.join(command).replace(shlex.quote(str(PLUGIN)), '"$(posattn user-dir)"')
    first, *flags = words.split(" --")
    lines = [first]
    for flag in flags:
        if len(lines[-1]) + len(flag) > 91:
            lines.append(f"--{flag}")
        else:
            lines[-1] += f" --{flag}"
    return " \\\n    ".join(lines)


def run(command: Sequence[str], save_dir: Path, metric: str, hidden: tuple[str, ...] = ()) -> int:
    """Run fairseq-train with progress and log; return the exit status, UsageError if it failed."""
    save_dir.mkdir(parents=True, exist_ok=True)
    path = save_dir / LOG
    program = Path(sys.executable).parent / command[0]
    words = [str(program if program.exists() else shutil.which(command[0])), *command[1:]]
    threads = str(min(4, len(os.sched_getaffinity(0))))
    progress, last = TrainingProgress(command, metric, hidden), ""
    with open(path, "ab", buffering=0) as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fix = "wait for its end, or give another --save-dir"
            raise UsageError(f"{save_dir} is in use by another posattn train; {fix}") from None
        except OSError:
            pass  # a file system without locks
        _append(log, f"$ {shlex.join(command)}\n")
        # A session of its own: Ctrl-C reaches it once, from here.
        process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"OMP_NUM_THREADS": threads, **os.environ, "PYTHONUTF8": "1"},
            start_new_session=True,
            preexec_fn=ending_with_this(signal.SIGTERM),
            encoding="utf-8",
            errors="replace",
        )
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        for number in before:
            signal.signal(number, lambda number, frame: process.send_signal(number))
        for line in process.stdout or ():
            _append(log, line)
            last = line.strip() or last
            progress.show(line)
        status = process.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
    if progress.is_terminal:
        print()  # ends its line
    if status in (128 + signal.SIGINT, 128 + signal.SIGTERM):
        print("stopped; rerun the same command to resume")
        return status
    if status < 0:
        fix = "rerun the same command to resume"
        raise UsageError(f"{command[0]} {signal_of(status)} (log: {path}); {fix}")
    if status:
        raise UsageError(f"{last.removeprefix(OPTION).removeprefix('error: ')} (log: {path})")
    return 0


def _append(log: FileIO, text: str) -> None:
    try:
        log.write(text.encode(errors="surrogateescape"))
    except OSError as error:
        fix = "rerun the same command to resume"
        raise UsageError(f"{log.name} cannot be written: {error.strerror}; {fix}") from error


class TrainingProgress:
    """A line about a training that refreshes, or without a terminal a line for each validation.

    Warnings that start as ``hidden`` are of this command's own flags.
    """

    def __init__(self, command: Sequence[str], metric: str, hidden: tuple[str, ...] = ()) -> None:
        self._epochs = float(cli.value_of(command, "--max-epoch") or 0)
        self._updates = float(cli.value_of(command, "--max-update") or 0)
        self._metric, self._remaining, self._hidden = metric, Remaining(), hidden
        self._warnings: set[str] = set()
        self._position = self._loss = self._scores = self._speed = self._left = ""
        self.is_terminal = sys.stdout.isatty()

    def show(self, line: str) -> None:
        """Print what a line of the log changes."""
        if warning := warning_of(line):
            if warning not in self._warnings and not warning.startswith(self._hidden):
                self._print(f"warning: {warning}", "\n")
            self._warnings.add(warning)
        elif line.startswith(f"{OPTION}error: "):
            pass  # it is raised at the end
        elif line.startswith(OPTION) or any(text in line for text in SHOWN):
            self._print(line.rpartition(" | ")[2].strip(), "\n")
        elif (kind := self.read(line)) == "valid" or kind and self.is_terminal:
            self._print(self.text(), "" if self.is_terminal else "\n")

    def read(self, line: str) -> str:
        """Take over the measurements of a line of the log, and return their kind; "" if none."""
        kind, numbers = read_line(line) or ("", {})
        if "epoch" in numbers:
            limit = f"/{self._epochs:.0f}" if self._epochs else ""
            self._position = f"epoch {numbers['epoch']:.0f}{limit}"
        if kind == "valid":
            name = self._metric
            best = numbers.get(f"best_{name}", numbers.get(name, 0.0))
            self._scores = f"validation loss {numbers['loss']:.2f}"
            if name in numbers and name != "loss":
                name = name.upper() if len(name) < 5 else name
                self._scores = f"{name} {numbers[self._metric]:.2f} (best {best:.2f})"
        elif kind in ("train", "train_inner"):
            self._loss = f"loss {numbers['loss']:.2f}"
            self._speed = f"{numbers['wps']:,.0f} tokens/s" if "wps" in numbers else ""
            # the numbers of a whole epoch have no update
            done = numbers.get("update", numbers["epoch"])
            fractions = [done / self._epochs] if self._epochs else []
            fractions += [numbers["num_updates"] / self._updates] if self._updates else []
            left = self._remaining.after(max(fractions, default=0))
            self._left = f"{left} left" if left else ""
        return kind

    def text(self) -> str:
        """Return the line; a terminal of 80 columns shows all but the end of the speed."""
        parts = (self._position, self._left, self._loss, self._scores, self._speed)
        return " | ".join(filter(None, parts))

    def _print(self, text: str, end: str) -> None:
        width = None if end else shutil.get_terminal_size().columns - 1
        with cli.going_on_without(sys.stdout):
            print(f"\r\033[K{text[:width]}" if self.is_terminal else text, end=end, flush=True)


# The commands that follow a training, by kind of data.
FOLLOWING = {
    "translation": """\
posattn translate {model} --input {data}/test.{source} --output {saved}/test.{target}
posattn score bleu --hypotheses {saved}/test.{target} --references {data}/test.{target}\
{language}""",
    "summarization": """\
posattn summarize {model} --input {data}/test.source --output {saved}/test.target
posattn score rouge --hypotheses {saved}/test.target --references {data}/test.target{split}""",
    "classification": """\
paste {inputs} | posattn predict {model} --tokenizer none --output {saved}/test.predicted
posattn score labels --predictions {saved}/test.predicted --references {data}/text/test.label""",
    "tagging": """\
posattn predict {model} --input {data}/text/test.roles --props {data}/text/test.props \
--output {saved}/test.props
posattn score srl --gold {data}/text/test.props --predicted {saved}/test.props""",
    "recommendation": """\
posattn rank {model} --split test --scores {saved}/scores.tsv
posattn score ranking --scores {saved}/scores.tsv""",
}

SCORED = ("rating_regression", "relatedness")  # criterions


def following(prepared: Prepared, save_dir: Path, extra: Sequence[str] = ()) -> list[str]:
    """Return the commands that follow a training with ``extra`` flags: use, score, curves, look."""
    data, saved = shlex.quote(str(shown(prepared.folder))), shlex.quote(str(save_dir))
    user_dir = cli.value_of(extra, "--user-dir")
    model = f"{saved} --user-dir {shlex.quote(user_dir)}" if user_dir else saved
    source, target = prepared.manifest.languages or ("", "")
    inputs = shlex.join(map(str, sorted((prepared.folder / "text").glob("test.input?"))))
    names = {"data": data, "saved": saved, "source": source, "target": target, "inputs": inputs}
    names["model"] = model
    names["language"] = f" --language {target}" if is_language(target) else ""
    # Marks are at words in its summaries, where ROUGE sees no ends of sentences.
    is_split = prepared.manifest.subwords == "wordpiece"
    names["split"] = " --remove-bpe wordpiece" if is_split else ""
    lines = FOLLOWING[prepared.kind].format(**names).splitlines()
    if source and not (prepared.folder / f"test.{source}").exists():  # of a published corpus
        command = "translate" if prepared.kind == "translation" else "summarize"
        lines = [f'echo "..." | posattn {command} {model}']
    criterion = cli.value_of(extra, "--criterion") or prepared.manifest.criterion
    if criterion in SCORED or "--regression-target" in extra:
        lines[1] = lines[1].removesuffix("label") + "score"  # predictions are numbers
    lines.append(f"posattn curves {saved} --output {saved}/curves.png")
    if prepared.kind not in ("tagging", "recommendation"):  # their inputs are not sentences alone
        lines.append(f"posattn look {model} --serve")
    return lines
