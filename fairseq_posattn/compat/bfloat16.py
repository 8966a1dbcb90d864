"""``--bf16`` on GPUs and CPUs, which fairseq takes for a wish to train on a TPU."""

from fairseq import options, utils

from fairseq_posattn.compat.patching import around


@around(options, "parse_args_and_arch")
def _allow_bf16_without_tpu(parse_args_and_arch, *args, **kwargs):
    parsed = parse_args_and_arch(*args, **kwargs)
    settings = parsed[0] if isinstance(parsed, tuple) else parsed
    if getattr(settings, "bf16", False) and utils.xm is None:  # no torch_xla: no TPU is meant
        settings.tpu = False
    return parsed
