"""posattn hydra-train: the arguments of fairseq-hydra-train."""

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

import fairseq_posattn
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.commands.hydra_train import build_arguments, main

PLUGIN = Path(fairseq_posattn.__file__).parent


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("{}")
    return path


def test_the_plugin_is_the_user_dir(file):
    words = build_arguments(file, ["optimization.max_update=3", "--cfg", "job"])
    assert words == [
        *("--config-dir", str(file.parent), "--config-name", "mine"),
        *(f"common.user_dir='{PLUGIN}'", "optimization.max_update=3", "--cfg", "job"),
    ]
    for setting in ("common.user_dir=other", "++common.user_dir=other"):
        assert build_arguments(file, [setting])[4:] == [setting]


def test_the_papers_settings_have_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = build_arguments(Path("dman/iwslt14"), [])
    assert (Path(words[1]) / f"{words[3]}.yaml").is_file()
    with pytest.raises(UsageError, match="no such file; packaged names are cspan/ag_news, "):
        build_arguments(Path("dman/iwslt"), [])


@pytest.mark.parametrize("text", ["dman,san,ffn", "(0.9,0.98)", '{"beam": 1}', "a,it's"])
def test_a_value_that_hydra_would_misread_is_quoted(file, text):
    assigned = f"++model.encoder_sublayers={text}"
    *_, word = build_arguments(file, [assigned])
    parser = OverridesParser.create()
    assert parser.parse_override(word).value() == text
    assert build_arguments(file, [word])[-1] == word
    assert build_arguments(file, [assigned, "-m", DIFFERS])[-2] == assigned  # one value each


@pytest.mark.parametrize(
    "setting", ["optimization.lr=[1,2]", "common.seed=choice(1,2)", "--cfg=job", "a=${b.c}"]
)
def test_other_values_are_left_to_hydra(file, setting):
    assert build_arguments(file, [setting])[-1] == setting


DIFFERS = "checkpoint.save_dir=a/${hydra:job.num}"


@pytest.mark.parametrize("several", ["-m", "--multirun"])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_the_multirun_flag_precedes_all_settings(file, several, index):
    """Hydra does not read settings on both sides of a flag."""
    settings = ["common.seed=1,2", DIFFERS]
    words = build_arguments(file, [*settings[:index], several, *settings[index:]])
    assert words[4:] == [several, f"common.user_dir='{PLUGIN}'", *settings]


@pytest.mark.parametrize(
    "text, settings, save_dir",
    [
        ("{}", [], "checkpoints"),
        ("checkpoint: {save_dir: mine}", [], "mine"),
        ("checkpoint: {save_dir: mine}", ["++checkpoint.save_dir=yours"], "yours"),
    ],
)
def test_trainings_of_a_sweep_must_not_share_a_folder(file, text, settings, save_dir):
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        build_arguments(file, ["-m", "common.seed=1,2", *settings])
    assert f"give 'checkpoint.save_dir={save_dir}/${{hydra:job.num}}'" in str(refused.value)
    build_arguments(file, ["common.seed=1", *settings])  # one training


@pytest.mark.parametrize(
    "text, settings",
    [
        ("checkpoint: {save_dir: 'a/${optimization.lr}'}", []),
        ("{}", [DIFFERS]),
        ("{}", ["checkpoint.save_dir=a,b"]),
        ("a: [", []),  # Hydra reports the error
    ],
)
def test_trainings_of_a_sweep_in_separate_folders_are_accepted(file, text, settings):
    file.write_text(text)
    assert build_arguments(file, ["-m", *settings])[4] == "-m"


LOGGING = "{handlers: {f: {(): subprocess.Popen, args: [touch, x]}}}"


@pytest.mark.parametrize(
    "text, setting",
    [
        (f"hydra: {{job_logging: {LOGGING}}}", "hydra.job_logging.handlers"),
        (f"when: 2020-99-99\nhydra: {{job_logging: {LOGGING}}}", "hydra.job_logging.handlers"),
        (f"a: &a {{hydra: {{job_logging: {LOGGING}}}}}\n<<: *a", "hydra.job_logging.handlers"),
        ("hydra: {job: {env_set: {LD_PRELOAD: x.so}}}", "hydra.job.env_set"),
        ("hydra: {job: {chdir: {_target_: os.getcwd}}}", "hydra.job.chdir"),
        ("hydra: {launcher: {_target_: os.getcwd}}", "hydra.launcher._target_"),
        ("hydra: {searchpath: [pkg://this]}", "hydra.searchpath: "),
        ("hydra: {job: '${common.x}'}", "hydra.job: "),
        ("hydra: '${common.x}'", "hydra.${common.x}: "),
        (f"# @package hydra.job_logging\n{LOGGING[1:-1]}", "@package"),
        ("defaults: [other@hydra.job_logging]", "defaults"),
    ],
)
def test_files_that_could_run_code_are_refused(file, text, setting):
    file.write_text(text)
    with pytest.raises(UsageError) as refused:
        build_arguments(file, [])
    assert str(refused.value).startswith(f"{file}: {setting}")


def test_files_may_set_the_folders_of_hydra(file):
    file.write_text(
        "# @package _group_\n"
        "hydra: {job: {chdir: false}, run: {dir: a}, sweep: {dir: a, subdir: '${hydra:job.num}'}}"
    )
    setting = "hydra.job_logging.root.level=INFO"
    assert build_arguments(file, [setting])[-1] == setting


def test_missing_and_misnamed_files_are_refused(file, capsys):
    assert main([str(file.with_name("no.yaml"))], "posattn hydra-train") == 1
    assert "posattn hydra-train: error: " in capsys.readouterr().err
    other = file.rename(file.with_suffix(".yml"))
    assert main([str(other)], "posattn hydra-train") == 1
    assert "mine.yml: must end in .yaml" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([], "posattn hydra-train")
    assert "the following arguments are required: FILE.yaml|NAME\n" in capsys.readouterr().err
