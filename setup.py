import re
from pathlib import Path

from setuptools import find_packages, setup

# Ranges that the plugin is meant to work with; requirements.txt holds the versions it is tested
# with. scripts/missing_requirements.py reads these names without running this file.
INSTALL_REQUIRES = [
    "torch>=2.10",
    "fairseq-fixed>=0.12.3.1,<0.13",
    "filelock>=3.12",
    "numpy>=1.26",
    "regex>=2023.6.3",
    "sacrebleu>=2.3",
    "sacremoses>=0.1",
    "scikit-learn>=1.3",
    "scipy>=1.10",
    "sentencepiece>=0.2",
    "subword-nmt>=0.3.8",
    "tabulate>=0.9",
    "tqdm>=4.60",
]
DOCS_REQUIRES = ["pdoc>=15"]
ANALYSIS_REQUIRES = ["matplotlib>=3.8"]
SUMMARIZATION_REQUIRES = ["rouge-score>=0.1.2", "pyarrow>=15"]
# A torch for CUDA brings its own Triton; elsewhere only the tests use it, to interpret the kernels.
TEST_REQUIRES = [
    "mypy>=2.4,<2.5",
    "pytest>=8",
    "pytest-xdist>=3.5",
    "ruff>=0.17,<0.18",
    "triton>=3.3; platform_system == 'Linux'",
]

ROOT = Path(__file__).parent
VERSION = re.search(
    r'__version__ = "(.+)"', (ROOT / "fairseq_posattn" / "__init__.py").read_text(encoding="utf-8")
)[1]
readme = ROOT / "README.md"

setup(
    name="fairseq-posattn",
    version=VERSION,
    description="Position-aware attention mechanisms as a plugin for fairseq",
    long_description=readme.read_text(encoding="utf-8") if readme.exists() else "",
    long_description_content_type="text/markdown",
    license="MIT",
    license_files=["LICENSE"],
    python_requires=">=3.10,<3.14",
    install_requires=INSTALL_REQUIRES,
    extras_require={
        "analysis": ANALYSIS_REQUIRES,
        "docs": DOCS_REQUIRES,
        "summarization": SUMMARIZATION_REQUIRES,
        "test": TEST_REQUIRES + ANALYSIS_REQUIRES + SUMMARIZATION_REQUIRES,
    },
    entry_points={"console_scripts": ["posattn = fairseq_posattn.command_line:main"]},
    packages=find_packages(include=["fairseq_posattn", "fairseq_posattn.*"]),
    package_data={"fairseq_posattn.scoring": ["wordnet_exceptions.txt"]},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: Console",
        "Environment :: Plugins",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
    ],
)
