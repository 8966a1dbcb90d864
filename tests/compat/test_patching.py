"""The one way in which the mends change fairseq, and the list of them."""

from pathlib import Path

from fairseq_posattn import compat
from fairseq_posattn.compat import patching

HELPERS = {"__init__", "command_loops", "patching", "quiet"}
HELPERS |= {"columns", "explanations", "row_checks", "unknown_tokens"}


def test_every_file_is_in_the_list_and_mends_something():
    files = {path.stem for path in Path(compat.__file__).parent.glob("*.py")}
    assert sorted(compat.NAMES) == sorted(files - HELPERS)
    assert [
        name for name in compat.NAMES if not patching._steps.get(f"{compat.__name__}.{name}")
    ] == []


class Owner:
    value = property(lambda self: self.kept, lambda self, kept: setattr(self, "kept", kept))

    @classmethod
    def own(cls, number):
        return cls, number

    @staticmethod
    def same(number):
        return number


def test_what_is_mended_stays_what_it_is():
    patching.wrap(Owner, "value", lambda original, self: original(self) + 1)
    patching.wrap(Owner, "own", lambda original, cls, number: original(cls, number + 1))
    patching.wrap(Owner, "same", lambda original, number: original(number + 1))
    owner = Owner()
    owner.value = 1
    assert (owner.value, owner.own(1), Owner.same(1)) == (2, (Owner, 2), 2)


def test_two_files_may_name_their_functions_alike():
    class Owner:
        number = staticmethod(lambda: 1)

    for module in ("one", "other", "one"):
        mend = lambda number: number() + 1  # noqa: E731
        mend.__module__ = f"mends.{module}"
        patching.wrap(Owner, "number", mend)
    assert Owner.number() == 3


def test_nothing_is_mended_before_it_is_applied_nor_where_there_is_no_owner(monkeypatch):
    monkeypatch.setattr(patching, "_steps", type(patching._steps)(list))
    loaded = []

    class Later:
        def number(self):
            return 1

    @patching.around(lambda: loaded[0] if loaded else None, "number")
    def one_more(number, self):
        return number(self) + 1

    results = [Later().number()]
    for _ in range(3):
        patching.apply(__name__)
        results.append(Later().number())
        loaded.append(Later)
    assert results == [1, 1, 2, 2]
