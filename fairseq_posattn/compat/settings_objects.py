"""Settings given to fairseq from Python as an object of their class, say ``TransformerConfig()``.

fairseq's functions say that they take one, and fail in one with ``KeyError: '_parent'`` (0.12.2,
0.12.3). And of one whose class is another's than its name (``model=posattn_transformer
model._name=dman_iwslt_de_en``), it says so in forty lines.
"""

from dataclasses import is_dataclass

from fairseq import models
from fairseq.dataclass import utils
from omegaconf import OmegaConf

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.patching import around


@around(models, "merge_with_parent")
@around(utils, "merge_with_parent")
def _take_objects(merge_with_parent, dc, cfg, *args, **kwargs):
    if is_dataclass(cfg):
        cfg = OmegaConf.structured(cfg)
    wanted, given = dc if isinstance(dc, type) else type(dc), OmegaConf.get_type(cfg)
    if is_dataclass(given) and not issubclass(given, wanted):
        raise UsageError(
            f"settings named {cfg._name!r} cannot be a {given.__name__}, whose defaults would "
            f"count as given: leave the class out, or take {wanted.__name__}"
        )
    return merge_with_parent(dc, cfg, *args, **kwargs)
