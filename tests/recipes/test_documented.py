"""Recipes parse their documented command lines; listing them needs no PyTorch."""

import re
import shlex
from pathlib import Path

import pytest

import fairseq_posattn
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.commands.recipe import main

ROOT = Path(fairseq_posattn.__file__).parents[1]
RECIPE = re.compile(r"(?:bash examples/(\w+/\w+)\.sh|posattn recipe (\w+/\w+))([^`\n|']*)")
PAGES = (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/README.md"))


def typed(page):
    """Yield the recipes' command lines on a page: name and options."""
    for match in RECIPE.finditer(page.read_text(encoding="utf-8")):
        name = match[1] or match[2]
        if not name.startswith(("distributed/", "quickstart/")):
            # Where a sentence goes on after the command, its options have ended.
            yield name, tuple(shlex.split(re.split(r"\s{2,}|\s#|\.\s|,\s|\\", match[3])[0]))


@pytest.mark.slow
def test_command_lines_are_taken(capsys):
    lines = {line for page in PAGES for line in typed(page)}
    assert len(lines) > 50
    for name, arguments in lines:
        how = [] if {"--dry-run", "--help"} & set(arguments) else ["--dry-run"]
        index = arguments.index("--") if "--" in arguments else len(arguments)
        main([name, *arguments[:index], *how, *arguments[index:]], root=ROOT)
        assert "\nfairseq-" in capsys.readouterr().out, (name, arguments)


@pytest.mark.parametrize("arguments", [[], ["--list"]])
def test_all_recipes_are_listed(arguments, capsys):
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.split()[:1] == ["dman/table3_sublayers"]] != []
    assert sum("/" in line.split()[0] for line in lines if line.startswith("  ")) == 48


@pytest.mark.parametrize("name, helps", [("dman/iwslt", "mean dman/iwslt14"), ("x", "lists")])
def test_an_unknown_recipe_is_one_short_line(name, helps):
    with pytest.raises(UsageError, match=helps) as error:
        main([name])
    assert len(str(error.value)) < 200
