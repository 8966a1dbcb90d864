"""What pyproject.toml leaves to this file: the ranges of versions that the plugin works with.

requirements.txt holds the versions it is tested with; scripts/missing_requirements.py reads the
names here without running this file.
"""

from setuptools import setup

INSTALL_REQUIRES = [
    "torch>=2.10",
    "fairseq-fixed>=0.12.3.1,<0.13",
    "filelock>=3.29.7",
    "numpy>=1.26",
    "PyYAML>=5.1",
    "regex>=2023.6.3",
    "sacrebleu>=2.3",
    "sacremoses>=0.1",
    "scikit-learn>=1.3",
    "scipy>=1.11",
    "sentencepiece>=0.2",
    "subword-nmt>=0.3.8",
    "tabulate>=0.9",
    "tokenizers>=0.20",
    "tqdm>=4.60",
]
DOCS_REQUIRES = ["mkdocs>=1.6,<2", "mkdocs-material>=9.5,<10", "mkdocstrings[python]>=1,<2"]
# ONNX and accelerate, which transformers' Trainer needs, beside what reads and writes models.
EXPORT_REQUIRES = [
    "transformers>=5.20,<6",
    "safetensors>=0.8",
    "accelerate>=1.1",
    "onnx>=1.18",
    "onnxruntime>=1.22",
    "onnxscript>=0.5",
]
CTRANSLATE2_REQUIRES = ["ctranslate2>=4.6,<5"]
ANALYSIS_REQUIRES = ["matplotlib>=3.8"]
SERVE_REQUIRES = ["starlette>=0.40", "uvicorn>=0.30"]
SLURM_REQUIRES = ["submitit>=1.5"]
SUMMARIZATION_REQUIRES = ["rouge-score>=0.1.2", "pyarrow>=15"]
TRACKING_REQUIRES = ["tensorboard>=2.17", "wandb>=0.18"]
# A torch for CUDA brings its own Triton; elsewhere only the tests use it, to interpret the kernels.
TEST_REQUIRES = [
    "libretranslatepy>=2.1",
    "mypy>=2.4,<2.5",
    "pytest>=9",
    "pytest-xdist>=3.5",
    "ruff>=0.17,<0.18",
    "triton>=3.6; platform_system == 'Linux'",
]

setup(
    license="MIT",  # which old and new setuptools want in two ways in pyproject.toml
    install_requires=INSTALL_REQUIRES,
    extras_require={
        "analysis": ANALYSIS_REQUIRES,
        "ctranslate2": EXPORT_REQUIRES + CTRANSLATE2_REQUIRES,
        "docs": DOCS_REQUIRES,
        "export": EXPORT_REQUIRES,
        "serve": SERVE_REQUIRES,
        "slurm": SLURM_REQUIRES,
        "summarization": SUMMARIZATION_REQUIRES,
        "tracking": TRACKING_REQUIRES,
        "test": TEST_REQUIRES
        + ANALYSIS_REQUIRES
        + SERVE_REQUIRES
        + SLURM_REQUIRES
        + SUMMARIZATION_REQUIRES,
    },
)
