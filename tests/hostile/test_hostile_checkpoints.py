"""No file runs code, crashes the interpreter or fills the memory, wherever it is given."""

import re
import shutil
from pathlib import Path

import entry_points
import file_readers
import pytest
import torch
from file_readers import FILES, READERS
from hostile_checkpoints import CHECKPOINTS
from hostile_settings import SETTINGS, prepare

FIXTURES = Path(__file__).parents[1] / "fixtures"
TOO_MUCH = 700 << 20
# Training has settings of its own, averaging needs none, and only training needs metrics.
HARMLESS = {*SETTINGS, "metrics_by_any_name", "two_indexes", "alignment_of_storages"}


EVERY = 14


def chosen(entry, names):
    """Return the names of the files that an entry reads: all entries load by one function.

    ``generate`` reads all files; the others share them. ``predict`` reads settings of classifiers.
    """
    names = [name for name in names if entry == "predict" or not name.endswith("of_classifier")]
    if entry == "generate":
        return names
    first = list(entry_points.ENTRIES).index(entry)
    return [
        name
        for index, name in enumerate(names)
        if index % EVERY == first
        or name == "metrics_by_any_name"  # which only training needs
        or name.endswith("of_classifier")
    ]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Return ``hostile(kind, names)``: a folder of hostile files, and paths by these names."""
    folders = {}

    def hostile(kind, names):
        folder = folders.get(kind)
        if not folder:
            folder = folders[kind] = tmp_path_factory.mktemp(kind)
            prepare(folder / "canary", folder)
        paths = {name: folder / f"{name}.pt" for name in names}
        for name, path in paths.items():
            if not path.exists():
                write(name, kind, path, folder / "canary")
        assert not (folder / "canary").exists()
        return folder, paths

    return hostile


def write(name, kind, path, canary):
    if name in CHECKPOINTS:
        CHECKPOINTS[name](path, FIXTURES / kind / "checkpoint.pt", canary)
        return
    base = "classification" if name.endswith("of_classifier") else "translation"
    state = torch.load(FIXTURES / base / "checkpoint.pt", weights_only=True)
    SETTINGS[name](state, canary, canary.parent)
    torch.save(state, path)


@pytest.mark.parametrize(
    "entry, is_whole",
    [(entry, False) for entry in entry_points.ENTRIES]
    + [pytest.param("predict", True, marks=pytest.mark.nightly)],
)
def test_no_checkpoint_does_harm(entry, is_whole, hostile, tmp_path):
    kind = "translation" if entry in entry_points.TRANSLATION else "classification"
    names = [*CHECKPOINTS, *SETTINGS]
    folder, paths = hostile(kind, names if is_whole else chosen(entry, names))
    canary = folder / "canary"

    data = tmp_path / "data"  # with dictionaries of both, so that each model is built
    shutil.copytree(FIXTURES / kind / "data", data)
    for dictionary in (FIXTURES / "translation" / "data").glob("dict.*"):
        shutil.copy(dictionary, data)
    shutil.copy(FIXTURES / kind / "checkpoint.pt", tmp_path)
    path, results = entry_points.try_all(entry, paths, data, tmp_path)
    assert not canary.exists()
    require_harmless(results, path, HARMLESS)


def require_harmless(results, path, harmless):
    """Fail with what is wrong with the results of files, by name."""
    faults = {name: complaints(result, path, name in harmless) for name, result in results.items()}
    harm = [f"--- {name}\n" + "\n".join(wrong) for name, wrong in faults.items() if wrong]
    assert not harm, "\n\n".join(harm)


def complaints(result, path, may_succeed):
    """Return what is wrong with the outcome of a file."""
    output = result["output"]
    faults = []
    if result["code"] < 0:
        faults.append(f"signal {-result['code']}")
    if result["memory"] > TOO_MUCH:
        faults.append(f"{result['memory'] >> 20:,} MB")
    if "the secret" in output:
        faults.append("the secret is printed")
    if result["code"] == 0 and not may_succeed:
        faults.append("accepted")
    if result["code"] > 0:
        errors = [line for line in output.splitlines() if re.search(r"\berror: ", line)]
        if len(errors) != 1 or not output.rstrip().endswith(errors[0]) or "Traceback" in output:
            faults.append("not one line")
        elif str(path) not in output:  # a warning may have named it just before
            faults.append("the file is not named")
    return [*faults, output[-1500:]] if faults else []


PAIRS = [(kind, reader) for kind, readers in READERS.items() for reader in readers]
# Text may be anything: a blank file, too, and what another program writes into a FIFO.
ACCEPTED = {"codes": {"nothing"}, "text": {"nothing", "bytes", "pickle", *FILES["text"]}}


@pytest.mark.parametrize("kind, reader", PAIRS, ids=map("-".join, PAIRS))
def test_no_other_file_does_harm(kind, reader, tmp_path):
    path, results = file_readers.try_all(kind, reader, tmp_path)
    assert not (tmp_path / "canary").exists()
    require_harmless(results, path, ACCEPTED.get(kind, ()))
