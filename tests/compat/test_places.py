"""Every place in fairseq that could run what a file or a setting contains has been reviewed."""

import ast
import warnings
from pathlib import Path

import fairseq
import pytest

FAIRSEQ = Path(fairseq.__file__).parent
CALLS = {
    *("import_module", "__import__", "import_user_module", "instantiate", "get_class"),
    *("system", "popen", "Popen", "check_call", "check_output", "call"),
    *("load_library", "register_new_resolver", "register_resolver", "unsafe_load", "full_load"),
}
LOADS = {"torch", "pickle", "np", "numpy", "joblib", "yaml", "jit", "hub"}  # X.load and X.loads

# By file, why each call is no way in for a checkpoint or its settings.
REVIEWED = {
    "benchmark/benchmark_multihead_attention.py": "a script of its own",
    "checkpoint_utils.py": "torch.load: replaced in loading",
    "criterions/__init__.py": "imports fairseq's own files",
    "data/audio/__init__.py": "imports fairseq's own files",
    "data/audio/audio_utils.py": "numpy.load, which takes no objects",
    "data/audio/data_cfg.py": "FullLoader: plain types, from a file in the folder of the data",
    "data/audio/feature_transforms/__init__.py": "imports fairseq's own files",
    "data/audio/feature_transforms/global_cmvn.py": "numpy.load, which takes no objects",
    "data/codedataset.py": "torch.load and numpy.load, which take no objects",
    "data/encoders/__init__.py": "imports fairseq's own files",
    "data/fasta_dataset.py": "a shell: data that a checkpoint names is of no kind of its choice",
    "data/plasma_utils.py": "a program without a shell; its path is left behind",
    "distributed/utils.py": "what processes of one run send each other; Slurm's names of machines",
    "hub_utils.py": "import_user_module of the user's own argument",
    "model_parallel/criterions/__init__.py": "imports fairseq's own files",
    "model_parallel/models/__init__.py": "imports fairseq's own files",
    "models/__init__.py": "imports fairseq's own files and those of --user-dir",
    "models/ema/__init__.py": "imports fairseq's own files",
    "models/huggingface/__init__.py": "imports fairseq's own files",
    "models/speech_to_text/hub_interface.py": "torch.hub.load of fairseq's own repository",
    "models/speech_to_text/xm_transformer.py": "torch.load of a path that is left alone",
    "models/text_to_speech/vocoder.py": "torch.load of a path that is left alone",
    "modules/quantization/pq/em.py": "torch.load of what the run itself has saved",
    "optim/__init__.py": "imports fairseq's own files",
    "optim/fused_adam.py": "imports one module by a fixed name",
    "optim/lr_scheduler/__init__.py": "imports fairseq's own files",
    "options.py": "import_user_module of the command line",
    "scoring/__init__.py": "imports fairseq's own files",
    "speech_generator.py": "numpy.load, which takes no objects",
    "tasks/__init__.py": "imports fairseq's own files and those of --user-dir",
    "tasks/audio_pretraining.py": "a script named by a setting that is left alone",
    "tasks/text_to_speech.py": "numpy.load, which takes no objects; a path that is left alone",
    "utils.py": "import_user_module itself",
}


def calls(path):
    """Yield the calls in a file that could run or load something, as (text, node)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        owner, _, name = ast.unparse(node.func).rpartition(".")
        if name in CALLS or (name in ("load", "loads") and owner.rpartition(".")[2] in LOADS):
            yield ast.unparse(node), node


@pytest.fixture(scope="module")
def found():
    paths = [path for path in sorted(FAIRSEQ.rglob("*.py")) if "examples" not in path.parts]
    by_file = {str(path.relative_to(FAIRSEQ)): list(calls(path)) for path in paths}
    return {name: places for name, places in by_file.items() if places}


def test_every_place_has_been_reviewed(found):
    assert found.keys() - REVIEWED.keys() == set()
    assert len(found) >= 25, "fairseq's source was not found"


def test_no_place_allows_objects(found):
    for name, places in found.items():
        for text, node in places:
            given = {keyword.arg for keyword in node.keywords}
            assert not given & {"weights_only", "allow_pickle", "pickle_module"}, f"{name}: {text}"
            assert "yaml.load" not in text or "yaml.FullLoader" in text, f"{name}: {text}"
