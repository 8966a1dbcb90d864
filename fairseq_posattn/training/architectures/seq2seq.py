"""Named architectures of ``posattn_transformer``: the papers' sizes and regularisation.

What the user gives goes before what is written here. ``dman_*`` have the paper form: an
activation on DMAN's heads alone (F of eq. 5) and fairseq's initialization. The released form is
``--heads-activation relu --start mans`` in translation, ``--heads-activation gelu --heads-dropout
0.1 --start bert`` in summarization. ``dman_summarization`` shares all embeddings, as
published; the others do with ``--share-all-embeddings``, as fairseq's own. No paper has DA or MTSA
in summarization: there da_* and mtsa_* are DMAN's model with another encoder.
"""


def sizes(embed_dim: int, ffn_embed_dim: int, heads: int) -> dict[str, int]:
    """The same widths on both sides, six layers each."""
    return {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("embed_dim", embed_dim),
            ("ffn_embed_dim", ffn_embed_dim),
            ("attention_heads", heads),
            ("layers", 6),
        )
    }


DMAN_ENCODER = {"encoder_sublayers": "dman,san,ffn"}
DMAN_BOTH = {**DMAN_ENCODER, "decoder_sublayers": "dman,san,cross,ffn"}
DA_ENCODER = {"encoder_sublayers": "da,ffn"}
MTSA_ENCODER = {"encoder_sublayers": "mtsa,ffn"}

# Layer norms and regularisation of the published DMAN runs, of translation and of summarization.
TRANSLATION = {
    "encoder_normalize_before": True,
    "decoder_normalize_before": True,
    "attention_dropout": 0.1,
    "activation_dropout": 0.1,
}
SUMMARIZATION = {
    **sizes(768, 1536, 12),
    "layernorm_embedding": True,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "activation_dropout": 0.1,
    "activation_fn": "gelu",
    "encoder_learned_pos": True,
    "decoder_learned_pos": True,
    "max_source_positions": 512,
    "max_target_positions": 512,
}
# The sizes of fairseq's transformer_iwslt_de_en and transformer_wmt_en_de.
STOCK_IWSLT = sizes(512, 1024, 4)
STOCK_WMT = sizes(512, 2048, 8)

ARCHITECTURES = {
    "dman_iwslt_de_en": {**DMAN_ENCODER, **sizes(512, 512, 4), **TRANSLATION, "dropout": 0.3},
    "dman_wmt_en_de": {**DMAN_BOTH, **sizes(512, 1024, 8), **TRANSLATION, "dropout": 0.1},
    "dman_wmt_en_de_big": {**DMAN_BOTH, **sizes(1024, 2048, 16), **TRANSLATION, "dropout": 0.3},
    "dman_summarization": {**DMAN_BOTH, **SUMMARIZATION, "share_all_embeddings": True},
    "da_transformer_iwslt_de_en": {**DA_ENCODER, **STOCK_IWSLT},
    "da_transformer_wmt_en_de": {**DA_ENCODER, **STOCK_WMT},
    "da_transformer_summarization": {**DA_ENCODER, **SUMMARIZATION},
    "mtsa_transformer_iwslt_de_en": {**MTSA_ENCODER, **STOCK_IWSLT},
    "mtsa_transformer_wmt_en_de": {**MTSA_ENCODER, **STOCK_WMT},
    "mtsa_transformer_summarization": {**MTSA_ENCODER, **SUMMARIZATION},
}
