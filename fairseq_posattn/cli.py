"""``posattn``: the commands of the installed package, each loaded only when it is given."""

import sys
from importlib import import_module

from fairseq_posattn import __version__
from fairseq_posattn.common.cli import end

# Name: the module, whose main(arguments, prog) does the work and returns the exit status, and a
# line for --help.
COMMANDS = {
    "analysis": ("fairseq_posattn.inspection.commands.analysis", "look into a trained model"),
    "average": ("fairseq_posattn.inference.averaging", "the mean of several checkpoints' weights"),
    "curves": (
        "fairseq_posattn.training.commands.curves",
        "losses, scores and learning rates, drawn",
    ),
    "export": ("fairseq_posattn.export.commands.export", "a model for Hugging Face, ONNX, int8"),
    "hydra-train": (
        "fairseq_posattn.training.commands.hydra_train",
        "train by the settings in a YAML file",
    ),
    "look": ("fairseq_posattn.inspection.commands.look", "a page that shows where words attend"),
    "predict": ("fairseq_posattn.inference.commands.predict", "labels and scores for new text"),
    "prepare": (
        "fairseq_posattn.preparation.commands.prepare",
        "published data sets, or your own, to binarised data",
    ),
    "rank": (
        "fairseq_posattn.inference.commands.rank",
        "scores and ranks of news for MIND's impressions",
    ),
    "recipe": (
        "fairseq_posattn.recipes.commands.recipe",
        "train and measure the rows of a paper's table",
    ),
    "score": ("fairseq_posattn.scoring.commands.score", "BLEU, chrF, ROUGE, roles' F1, rankings"),
    "summarize": ("fairseq_posattn.inference.commands.summarize", "summaries of plain text"),
    "translate": ("fairseq_posattn.inference.commands.translate", "translations of plain text"),
    "user-dir": ("fairseq_posattn.__main__", "the directory for fairseq's --user-dir; flags"),
}

# Those that have commands of their own: alone, they list them.
OF_SEVERAL = ("analysis", "prepare", "score")


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {about}" for name, (_, about) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: posattn COMMAND ...",
            "",
            "Position-aware attention for fairseq. Each command explains itself with --help:",
            "",
            *lines,
            "",
            "Training is fairseq's own command:",
            '  fairseq-train DATA --user-dir "$(posattn user-dir)" --arch dman_iwslt_de_en ...',
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Run ``posattn``; returns the exit status."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        return end("posattn", lambda: print(usage()))
    if name == "--version":
        return end("posattn", lambda: print(f"posattn {__version__}"))
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"posattn: error: there is no command {name!r}; there are: {known}", file=sys.stderr)
        return 2
    prog = f"posattn {name}"
    if name in OF_SEVERAL and not rest:
        rest = ["--help"]
    return end(prog, lambda: import_module(COMMANDS[name][0]).main(rest, prog=prog))


if __name__ == "__main__":
    sys.exit(main())
