"""The published data sets, one file for each publication."""

from fairseq_posattn.preparation.corpora import (
    amazon,
    cnn_dailymail,
    conll05,
    ewt,
    gigaword,
    iwslt14,
    mind,
    multi30k,
    nli,
    polarity,
    sick,
    sst,
    tatoeba,
    trec,
    wmt14,
    zhang,
)


def _by_name(*modules):
    return {corpus.name: corpus for module in modules for corpus in module.CORPORA}


TRANSLATION = _by_name(iwslt14, wmt14, multi30k, tatoeba)
SUMMARIZATION = _by_name(cnn_dailymail, gigaword)
CLASSIFICATION = _by_name(sst, trec, polarity, sick, zhang, nli, amazon)
TAGGING = _by_name(conll05, ewt)
RECOMMENDATION = _by_name(mind)
