"""Import of fairseq, and the decorators that patch it.

A decorator above a function names what it patches: ``@around(Trainer, "state_dict")``. Nothing
happens before :func:`apply` is called. A function of fairseq has one patch; if that has several
steps, they are functions that it calls in order.
"""

import contextlib
import functools
import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from omegaconf import OmegaConf

Function = Callable[..., Any]  # of fairseq, or a patch of it
MARK = "wrapped_by_fairseq_posattn"
steps: list[Function] = []  # what apply calls, in order
targets: list[tuple[object, str]] = []  # the patched functions, by owner and name


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Import fairseq without its warnings and log handlers, and without what it may not need."""
    root = logging.getLogger()
    disabled, handlers, level = root.manager.disable, list(root.handlers), root.level
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings(), _metrics_on_demand(), settings_on_demand():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers
        root.setLevel(level)


# fairseq imports them for a few metrics, which takes almost as long as PyTorch's import.
METRICS = ("sklearn", "sklearn.metrics", "scipy", "scipy.stats")


class _OnDemand(ModuleType):
    """A module whose functions import the real module when they are called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: getattr(import_module(self.__name__), name)(*args, **kwargs)


@contextlib.contextmanager
def _metrics_on_demand() -> Iterator[None]:
    """Let imports of :data:`METRICS` find a stand-in, unless the packages are loaded already."""
    names = [name for name in METRICS if name.partition(".")[0] not in sys.modules]
    # fairseq looks for pyarrow.plasma, which pyarrow has not had since version 12.
    absent = [] if "pyarrow" in sys.modules else ["pyarrow"]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    for name in names:
        sys.modules[name] = module = _OnDemand(name)
        module.__spec__, module.__path__ = ModuleSpec(name, None, is_package=True), []
        package, _, last = name.rpartition(".")
        if package:
            setattr(sys.modules[package], last, module)
    try:
        yield
    finally:
        for name in names + absent:
            del sys.modules[name]


@contextlib.contextmanager
def settings_on_demand() -> Iterator[None]:
    """Let Hydra's copies of registered settings, a third of a second, be built on demand."""
    from hydra.core.config_store import ConfigNode, ConfigStore

    class Node(ConfigNode):
        def __init__(self, name: str, config: Any, group: str | None, provider: str | None) -> None:
            self.name, self.group, self.package, self.provider = name, group, None, provider
            self.config = config

        node = functools.cached_property(lambda self: OmegaConf.structured(self.config))

    def store(
        self: Any,
        name: str,
        node: Any,
        group: str | None = None,
        package: str | None = None,
        provider: str | None = None,
    ) -> None:
        nodes = self.repo if group is None else self.repo.setdefault(group, {})
        nodes[f"{name}.yaml"] = Node(f"{name}.yaml", node, group, provider)

    with replaced(ConfigStore, "store", store):
        yield


# The modules of fairseq's commands are not imported here, because their import sets up the log.


def _loaded(command: str, function: str) -> ModuleType | None:
    """Return the loaded module of a command, known by one of its functions, or None."""
    modules = (sys.modules.get(name) for name in (command, "__main__"))  # it may run as a script
    return next((module for module in modules if hasattr(module, function)), None)


training_loop = functools.partial(_loaded, "fairseq_cli.train", "validate_and_save")
generation_loop = functools.partial(
    _loaded, "fairseq_cli.generate", "get_symbols_to_strip_from_output"
)
interactive_loop = functools.partial(_loaded, "fairseq_cli.interactive", "buffered_read")
preprocessing = functools.partial(_loaded, "fairseq_cli.preprocess", "_align_files")


@contextlib.contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give ``owner.name`` another value within the context."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def apply() -> None:
    """Patch fairseq; calling it again changes nothing."""
    for step in steps:
        step()


def when_applied(step: Function) -> Function:
    """Let :func:`apply` call this function each time."""
    steps.append(step)
    return step


def around(owner: object, name: str) -> Function:
    """Replace ``owner.name`` by the decorated function, which is given the original first.

    ``owner`` is a module or a class, or a function that returns it, or None to patch nothing.
    """

    def decorate(patch: Function) -> Function:
        @functools.wraps(patch)
        def step() -> None:
            target = owner() if callable(owner) and not isinstance(owner, type) else owner
            if target is not None:
                wrap(target, name, patch)

        steps.append(step)
        targets.append((owner, name))
        return patch

    return decorate


def instead(owner: object, name: str) -> Function:
    """Replace ``owner.name`` by the decorated function, which does not need the original."""

    def decorate(patch: Function) -> Function:
        @functools.wraps(patch)
        def without(original: Function, *args: Any, **kwargs: Any) -> Any:
            return patch(*args, **kwargs)

        around(owner, name)(without)
        return patch

    return decorate


def wrap(owner: object, name: str, patch: Function) -> None:
    """Replace ``owner.name`` by ``patch(original, ...)``, once, and keep its kind of method."""
    original = inspect.getattr_static(owner, name)
    function: Any = original
    kind: Function = lambda patched: patched  # noqa: E731
    if isinstance(original, (staticmethod, classmethod)):
        function, kind = original.__func__, type(original)
    elif isinstance(original, property):
        function, kind = original.fget, original.getter
    mark = f"{patch.__module__.rpartition('.')[2]}.{patch.__qualname__}"
    if getattr(function, MARK, None) == mark:
        return

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return patch(function, *args, **kwargs)

    patched: Any = call
    with contextlib.suppress(TypeError, ValueError):  # fairseq asks for names of parameters
        patched.__signature__ = inspect.signature(function)
    setattr(patched, MARK, mark)
    setattr(owner, name, kind(patched))
