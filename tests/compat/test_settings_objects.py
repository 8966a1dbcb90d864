import inspect

import pytest
from fairseq.models.transformer_lm import TransformerLanguageModelConfig

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.plugin import register

register()

from fairseq import models  # noqa: E402
from fairseq.dataclass import utils  # noqa: E402


@pytest.mark.parametrize("module", [models, utils])
def test_an_object_of_settings_is_taken(module):
    given = TransformerLanguageModelConfig(dropout=0.7)
    with pytest.raises(KeyError, match="_parent"):
        inspect.unwrap(module.merge_with_parent)(TransformerLanguageModelConfig, given)
    merged = module.merge_with_parent(TransformerLanguageModelConfig, given)
    assert merged.dropout == 0.7


def test_another_classs_defaults_are_refused_in_one_line():
    given = TransformerLanguageModelConfig(_name="dman_iwslt_de_en")
    with pytest.raises(UsageError, match="cannot be a TransformerLanguageModelConfig") as error:
        models.merge_with_parent(models.MODEL_DATACLASS_REGISTRY["dman_iwslt_de_en"], given)
    assert "\n" not in str(error.value)
