"""The pictures of the documentation can be drawn."""

import pytest

pytest.importorskip("matplotlib")


@pytest.mark.slow
def test_all_pictures_are_drawn(tmp_path):
    from tools.pictures import main

    main([str(tmp_path)])
    heads = {path.name: path.read_bytes()[:4] for path in tmp_path.iterdir()}
    assert heads == dict.fromkeys(("idea.png", "results.png", "sequence_length.png"), b"\x89PNG")
