"""``posattn``: the command line; a command's module is imported when the command is given."""

import atexit
import gc
import os
import sys
from importlib import import_module

from fairseq_posattn import __version__
from fairseq_posattn.common.cli import end

# By name: the module, with :function unless it is all of its module and called main, and a line for
# --help. The function takes (arguments, prog) and returns the exit status.
COMMANDS = {
    "analysis": (
        "fairseq_posattn.inspection.commands.analysis",
        "attention statistics of a trained model",
    ),
    "average": (
        "fairseq_posattn.inference.commands.average",
        "average the weights of several checkpoints",
    ),
    "curves": (
        "fairseq_posattn.training.commands.curves",
        "plot losses, scores and learning rates",
    ),
    "distill": (
        "fairseq_posattn.inference.commands.distill",
        "write a teacher's translations as training data",
    ),
    "export": (
        "fairseq_posattn.export.commands.export",
        "export a model to Hugging Face, ONNX or int8",
    ),
    "hydra-train": (
        "fairseq_posattn.training.commands.hydra_train",
        "train with the settings of a YAML file",
    ),
    "look": (
        "fairseq_posattn.inspection.commands.look",
        "browser page with the attention of a text",
    ),
    "predict": (
        "fairseq_posattn.inference.commands.predict",
        "predict labels and scores of new text",
    ),
    "prepare": (
        "fairseq_posattn.preparation.commands.prepare:main",
        "prepare published or custom data for training",
    ),
    "rank": ("fairseq_posattn.inference.commands.rank", "rank the news of MIND's impressions"),
    "recipe": (
        "fairseq_posattn.recipes.commands.recipe",
        "train and score the rows of a paper's table",
    ),
    "score": (
        "fairseq_posattn.scoring.commands.score",
        "BLEU, chrF, ROUGE, accuracy, F1 of roles, ranking metrics",
    ),
    "segment": (
        "fairseq_posattn.preparation.commands.segment",
        "plain text to subwords of prepared data, and back",
    ),
    "serve": ("fairseq_posattn.inference.commands.serve", "translate by HTTP for other programs"),
    "summarize": ("fairseq_posattn.inference.commands.translate:summarize", "summarize plain text"),
    "train": ("fairseq_posattn.training.commands.train", "train a model on prepared data"),
    "translate": ("fairseq_posattn.inference.commands.translate", "translate plain text"),
    "user-dir": ("fairseq_posattn.__main__", "print the directory for --user-dir, or the flags"),
}

# Commands with subcommands, which they list when given alone.
WITH_SUBCOMMANDS = ("analysis", "prepare", "score")


def usage() -> str:
    """Return the help text."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {about}" for name, (_, about) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: posattn COMMAND ...",
            "",
            "Position-aware attention for fairseq. For details run a command with --help:",
            "",
            *lines,
            "",
            "Training by fairseq's own command:",
            '  fairseq-train DATA --user-dir "$(posattn user-dir)" --arch dman_iwslt_de_en ...',
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Run ``posattn`` and return the exit status."""
    for stream in ("stdin", "stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed: messages would go to the next file
            setattr(sys, stream, open(os.devnull, "r+"))  # noqa: SIM115
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        return end("posattn", lambda: print(usage()))
    if name == "--version":
        return end("posattn", lambda: print(f"posattn {__version__}"))
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"posattn: error: {name}: no such command; choose from: {known}", file=sys.stderr)
        return 2
    # Looking for garbage among what is imported takes a third of a short command's time; there are
    # fewer objects than this before a model is loaded.
    gc.set_threshold(500_000)
    # Read when PyTorch is imported: threads sleep after few rounds of waiting for each other. While
    # they do not, two threads stand nearly still if another program keeps one of two cores busy.
    os.environ.setdefault("GOMP_SPINCOUNT", "5000")
    atexit.register(gc.freeze)
    prog = f"posattn {name}"
    if name in WITH_SUBCOMMANDS and not rest:
        rest = ["--help"]
    module, _, function = COMMANDS[name][0].partition(":")
    return end(prog, lambda: getattr(import_module(module), function or "main")(rest, prog=prog))


if __name__ == "__main__":
    sys.exit(main())
