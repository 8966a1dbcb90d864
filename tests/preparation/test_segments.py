"""Sentences in the campaigns' XML and SGML."""

import io

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpora.iwslt14 import read_segments


def segments(text):
    return list(read_segments(io.BytesIO(text.encode()), "set.xml"))


def test_only_segments_are_read():
    text = """<?xml version="1.0" encoding="UTF-8"?>
<mteval><srcset setid="s" srclang="german"><doc docid="69" genre="lectures">
<title>Wade Davis</title>
<seg id="1"> Eins & zwei. </seg>
<seg id="2">“It’s” R&amp;D</seg>
  <hl><seg id=3>drei</seg></hl>
</doc></srcset></mteval>
"""
    with pytest.raises(UsageError, match="set.xml:6: "):
        segments(text)
    text = text.replace("<hl>", "").replace("</hl>", "")
    assert segments(text) == ["Eins & zwei.", "“It's” R&amp;D", "drei"]


def test_segment_that_does_not_end_is_one_line():
    with pytest.raises(UsageError) as caught:
        segments('<seg id="1">eins</seg>\n<seg id="2">zwei\n')
    assert str(caught.value) == "set.xml:2: not <seg id=...> ... </seg> on one line"


def test_file_without_segments():
    with pytest.raises(UsageError, match="set.xml: holds no <seg id=...>"):
        segments("<html>moved</html>\n")
