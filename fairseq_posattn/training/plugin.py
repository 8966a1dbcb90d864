"""Registration of the plugin with fairseq."""

from functools import partial

__all__ = ["register"]

# Errors about the plugin's flags, in the form of compat.command_line.KNOWN.
ERRORS = {
    r"ValueError: (impl='\w+' .*; choose one of: .*)": "--attention-impl: {0}",
    r"InterpolationKeyError: Interpolation key 'criterion\.classification_head_name' not found": (
        "--criterion does not support the task: to classify, give sentence_classification, "
        "or for scores relatedness or rating_regression"
    ),
}


def register() -> None:
    """Patch fairseq and register models, tasks and criterions; a second call has no effect.

    ``--user-dir`` does this. A program that imports fairseq itself calls it first, or imports
    :mod:`fairseq_posattn` after fairseq.
    """
    from fairseq_posattn import compat
    from fairseq_posattn.common import errors
    from fairseq_posattn.compat.command_line import explain
    from fairseq_posattn.compat.patching import settings_on_demand

    compat.apply()
    errors.install_hook(partial(explain, first=ERRORS))

    from fairseq.criterions import CRITERION_REGISTRY, register_criterion
    from fairseq.models import MODEL_REGISTRY, register_model
    from fairseq.tasks import TASK_REGISTRY, register_task

    from fairseq_posattn.training.criterions import CRITERIONS
    from fairseq_posattn.training.models import MODELS
    from fairseq_posattn.training.models.registration import register_architectures, show_defaults
    from fairseq_posattn.training.presets import ARCHITECTURES
    from fairseq_posattn.training.tasks import TASKS

    with settings_on_demand():
        for components, registry, decorate in (
            (MODELS, MODEL_REGISTRY, register_model),
            (TASKS, TASK_REGISTRY, register_task),
            (CRITERIONS, CRITERION_REGISTRY, register_criterion),
        ):
            for name, (component, config) in components.items():
                if name not in registry:
                    show_defaults(config)
                    decorate(name, dataclass=config)(component)
        for name, presets in ARCHITECTURES.items():
            register_architectures(*MODELS[name], presets)
