"""``python -m fairseq_posattn`` prints the directory to hand to fairseq's ``--user-dir``."""

import argparse
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_posattn",
        description="Print the directory to hand to fairseq's --user-dir. "
        "fairseq-train --help leaves out the flags of models; they can be had here.",
    )
    parser.add_argument(
        "--architectures", action="store_true", help="print the names that --arch takes instead"
    )
    parser.add_argument(
        "--flags", action="store_true", help="print the flags of the models instead, explained"
    )
    wanted = parser.parse_args()
    if wanted.architectures:
        print("\n".join(architectures()))
    elif wanted.flags:
        print(model_flags())
    else:
        print(Path(__file__).resolve().parent)


def architectures() -> list[str]:
    """The plugin's models and their named architectures."""
    from fairseq.models import ARCH_MODEL_REGISTRY

    plugin = __package__
    return [
        name for name, model in ARCH_MODEL_REGISTRY.items() if model.__module__.startswith(plugin)
    ]


def model_flags() -> str:
    """A help text of what each of the plugin's models takes beside fairseq's general flags."""
    from fairseq.models import MODEL_REGISTRY

    texts = []
    for name in architectures():
        if name in MODEL_REGISTRY:
            parser = argparse.ArgumentParser(
                prog="fairseq-train", usage=f"fairseq-train ... --arch {name} ...", add_help=False
            )
            MODEL_REGISTRY[name].add_args(parser.add_argument_group(f"flags of {name}"))
            texts.append(parser.format_help())
    return "\n".join(texts)


if __name__ == "__main__":
    main()
