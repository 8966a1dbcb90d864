"""The import of fairseq, its patching, and the list of patches."""

import inspect
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from fairseq.trainer import Trainer

from fairseq_posattn import compat
from fairseq_posattn.compat import patching

WITHOUT_PATCHES = {"__init__", "patching", "preprocess", "checks", "matching", "cuda_graphs"}


def test_every_module_is_imported_and_patches_something():
    files = {path.stem for path in Path(compat.__file__).parent.glob("*.py")}
    patching_modules = {step.__module__.rpartition(".")[2] for step in patching.steps}
    assert patching_modules == files - WITHOUT_PATCHES


def test_a_function_of_fairseq_has_one_patch():
    """Steps have an order in the code; the order of several patches is that of their import."""
    assert (Trainer, "load_checkpoint") in patching.targets and len(patching.targets) > 60
    assert not [target for target, count in Counter(patching.targets).items() if count > 1]


def test_patches_take_the_arguments_of_their_functions_by_position_and_by_name(monkeypatch):
    wrapped = []
    monkeypatch.setattr(patching, "wrap", lambda *arguments: wrapped.append(arguments))
    patching.apply()
    assert len(wrapped) > 60
    for owner, name, patch in wrapped:
        function = inspect.getattr_static(owner, name)
        function = getattr(function, "__func__", getattr(function, "fget", function))
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        further = {p.name: p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        original = () if hasattr(patch, "__wrapped__") else (None,)
        ours = inspect.signature(inspect.unwrap(patch))
        by_name = {p.name for p in ours.parameters.values() if p.kind is p.KEYWORD_ONLY}
        assert not by_name.intersection(names), (owner, name)
        for bound in (
            ours.bind(*original, *names, **further),
            ours.bind(*original, **dict(zip(names, names, strict=True)), **further),
        ):
            taken = {key: value for key, value in bound.arguments.items() if type(value) is str}
            assert taken == {key: key for key in taken}, (owner, name)


class Owner:
    value = property(lambda self: self.kept, lambda self, kept: setattr(self, "kept", kept))

    @classmethod
    def own(cls, number):
        return cls, number

    @staticmethod
    def same(number):
        return number


def test_a_patched_function_keeps_its_kind():
    patching.wrap(Owner, "value", lambda original, self: original(self) + 1)
    patching.wrap(Owner, "own", lambda original, cls, number: original(cls, number + 1))
    patching.wrap(Owner, "same", lambda original, number: original(number + 1))
    owner = Owner()
    owner.value = 1
    assert (owner.value, owner.own(1), Owner.same(1)) == (2, (Owner, 2), 2)


def test_nothing_is_patched_before_it_is_applied_or_without_an_owner(monkeypatch):
    monkeypatch.setattr(patching, "steps", [])
    monkeypatch.setattr(patching, "targets", [])
    loaded = []

    class Delayed:
        def number(self):
            return 1

    @patching.around(lambda: loaded[0] if loaded else None, "number")
    def one_more(number, self):
        return number(self) + 1

    results = [Delayed().number()]
    for _ in range(3):
        patching.apply()
        results.append(Delayed().number())
        loaded.append(Delayed)
    assert results == [1, 1, 2, 2]


SLOW = ("sklearn", "scipy", "torchaudio", "matplotlib", "pandas", "pyarrow", "torch._dynamo")
WITHOUT_SLOW_PACKAGES = f"""
import sys
import fairseq_posattn.inference.translation
assert not {{*{SLOW}}}.intersection(sys.modules), "imported"

from fairseq.criterions import sentence_prediction
from hydra.core.config_store import ConfigStore
assert sentence_prediction.f1_score([0, 1], [0, 1]) == 1
assert sentence_prediction.pearsonr([0, 1, 2], [0, 1, 2])[0] > 0.999
for name in ("transformer_lm", "dman_iwslt_de_en"):
    assert ConfigStore.instance().load(f"model/{{name}}.yaml").node._name == name
"""
ATTENTION_ALONE = """
import sys, torch
hook, before = sys.excepthook, {name.partition(".")[0] for name in sys.modules}
from fairseq_posattn.attention import dynamic_mask_attention
after = {name.partition(".")[0] for name in sys.modules}
new = after - before - sys.stdlib_module_names
assert new <= {"fairseq_posattn", "filelock"}, new
assert sys.excepthook is hook
"""


@pytest.mark.parametrize("program", [WITHOUT_SLOW_PACKAGES, ATTENTION_ALONE])
def test_nothing_slow_is_imported_before_it_is_used(program):
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
