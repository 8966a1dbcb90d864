import pytest

from fairseq_posattn.model.transformer_layer import parse_sublayers


def test_spaces_are_allowed():
    names = parse_sublayers("dman, san, cross, ffn", flag="--decoder-sublayers", cross=True)
    assert names == ["dman", "san", "cross", "ffn"]


@pytest.mark.parametrize(
    ("text", "cross", "complaint"),
    [
        ("dmam,ffn", False, "--x dmam,ffn: unknown sublayer 'dmam'; known: san, dman, sman, "),
        ("", False, "--x : unknown sublayer ''; known: san, "),
        ("san", False, "--x san: the last sublayer must be ffn"),
        ("ffn,san", False, "--x ffn,san: the last sublayer must be ffn"),
        ("san,cross,ffn", False, "--x san,cross,ffn: an encoder has no cross attention"),
        ("san,ffn", True, "--x san,ffn: cross must occur once, not 0 times"),
        ("cross,cross,ffn", True, "must occur once, not 2 times"),
    ],
)
def test_a_wrong_list_is_one_line(text, cross, complaint):
    with pytest.raises(ValueError) as error:
        parse_sublayers(text, flag="--x", cross=cross)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)
