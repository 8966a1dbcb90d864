"""``python -m fairseq_posattn`` prints the directory to hand to fairseq's ``--user-dir``."""

import argparse
from pathlib import Path

from fairseq_posattn.training.plugin import register
from fairseq_posattn.training.presets import ARCHITECTURES


def main(arguments: list[str] | None = None, prog: str = "python -m fairseq_posattn") -> None:
    parser = argparse.ArgumentParser(
        prog=prog, description="Print the directory to hand to fairseq's --user-dir."
    )
    parser.add_argument(
        "--architectures", action="store_true", help="print the names that --arch takes instead"
    )
    parser.add_argument(
        "--flags",
        action="store_true",
        help="print the help of the flags of models, tasks and criterions instead",
    )
    wanted = parser.parse_args(arguments)
    if wanted.architectures:
        print("\n".join(architectures()))
    elif wanted.flags:
        print(plugin_flags())
    else:
        print(Path(__file__).resolve().parent)


def architectures() -> list[str]:
    """Return the names of the plugin's models and named architectures."""
    return [*ARCHITECTURES, *(name for presets in ARCHITECTURES.values() for name in presets)]


def plugin_flags() -> str:
    """Return the help text of the flags of the plugin's models, tasks and criterions."""
    register()
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import MODEL_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    registries = {"arch": MODEL_REGISTRY, "task": TASK_REGISTRY, "criterion": CRITERION_REGISTRY}
    texts = []
    for option, registry in registries.items():
        ours = {
            name: registered
            for name, registered in registry.items()
            if registered.__module__.partition(".")[0] == "fairseq_posattn"
        }
        for name, registered in ours.items():
            if registered.__base__ in ours.values():
                continue  # a named architecture has its model's flags
            parser = argparse.ArgumentParser(
                usage=f"fairseq-train ... --{option} {name} ...", add_help=False
            )
            registered.add_args(parser.add_argument_group(f"flags of {name}"))
            texts.append(parser.format_help())
    return "\n".join(texts)


if __name__ == "__main__":
    main()
