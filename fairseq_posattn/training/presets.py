"""Named architectures: the defaults of its model that each changes. Options of the user win.

``posattn_transformer``: ``dman_*`` have the paper form, an activation on DMAN's heads alone (F of
eq. 5) and fairseq's initialization. The released form is ``--heads-activation relu --start mans``
in translation and ``--heads-activation gelu --heads-dropout 0.1 --start bert`` in summarization.
``dman_summarization`` shares all embeddings as published; the others do with
``--share-all-embeddings``. No paper has DA or MTSA in summarization: there ``da_*`` and ``mtsa_*``
are DMAN's model with another encoder.

``posattn_recommender``: DA-Transformer's Table 5, one layer of 16 heads of 16 features per level
and embeddings of 300 features (section 4.1). The paper does not report whether the layers have a
feed-forward sublayer; here they do. NRMS is that of its authors' notebook: no biases.

``posattn_tagger``: MTSA's Table 4.
"""

from collections.abc import Mapping


def sizes(embed_dim: int, ffn_embed_dim: int, heads: int) -> dict[str, int]:
    """Return the same sizes for encoder and decoder, six layers each."""
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

# Layer norms and regularisation of the released DMAN runs.
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

SEQ2SEQ = {
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

# DA-Transformer section 4.1: one layer, 16 heads of 16 features.
TRANSFORMER = {
    "encoder": "transformer",
    "encoder_hidden_dim": 256,
    "encoder_attention_heads": 16,
    "embedding_scale": "sqrt",
    "dropout": 0.2,
}
TRANSFORMER_CLASSIFIER = {**TRANSFORMER, "pooling": "attention"}
# MPSAN, DiSAN and MTSA: source2token pooling, a hidden layer of 300 features, and dropout before
# every linear layer.
SOURCE2TOKEN = {
    "pooling": "source2token",
    "head_dim": 300,
    "dropout": 0.3,
    "dropout_places": "maps",
}
CSPAN = {"encoder": "cspan", "pooling": "multi_query", "dropout": 0.2}

CLASSIFIERS = {
    "mpsan_classifier": {**SOURCE2TOKEN, "encoder": "mpsan"},
    "cspan_classifier": {**CSPAN, "lstm_layers": 1, "pooling_queries": 16},
    "cspan_big_classifier": {**CSPAN, "lstm_layers": 3, "pooling_queries": 128},
    "mtsa_classifier": {
        **SOURCE2TOKEN,
        "encoder": "mtsa",
        "encoder_hidden_dim": 600,
        "encoder_attention_heads": 2,
        "mtsa_source": "value",
        "mtsa_fusion_gate": True,
        "no_attention_bias": True,
        "head_highway_layers": 1,
    },
    "da_transformer_classifier": {**TRANSFORMER_CLASSIFIER, "encoder_sublayers": "da,ffn"},
    "dman_classifier": {
        **TRANSFORMER_CLASSIFIER,
        "encoder_sublayers": "dman,san,ffn",
        "encoder_normalize_before": True,
    },
    "transformer_classifier": {**TRANSFORMER_CLASSIFIER, "encoder_sublayers": "san,ffn"},
    **{
        f"{name}_classifier": {**TRANSFORMER_CLASSIFIER, "encoder_sublayers": f"{name},ffn"}
        for name in ("rpr", "gaussian", "transformer_xl", "tener")
    },
    **{
        f"{name}_classifier": {**SOURCE2TOKEN, "encoder": name, "encoder_hidden_dim": 600}
        for name in ("disan", "bi_blosan", "bilstm", "bigru")
    },
    "multi_head_classifier": {
        **SOURCE2TOKEN,
        "encoder": "attention",
        "attention_positions": True,
        "encoder_hidden_dim": 600,
        "encoder_attention_heads": 8,
    },
    "cnn_classifier": {
        "encoder": "cnn",
        "encoder_hidden_dim": 600,
        "pooling": "max",
        "dropout": 0.3,
    },
    # Three layers of 300 features (MTSA section 4).
    "hierarchical_cnn_classifier": {
        **SOURCE2TOKEN,
        "encoder": "hierarchical_cnn",
        "encoder_hidden_dim": 300,
        "cnn_widths": "5,5,5",
    },
    # Yang et al. (2016): GRUs of 50 features per direction and one query, at both levels.
    "han_classifier": {
        "encoder": "bigru",
        "encoder_hidden_dim": 100,
        "pooling": "attention",
        "hierarchical": True,
        "sentence_ends": ". ! ?",
        "dropout": 0.2,
    },
    # SWEM-concat of Shen et al. (2018), whose results on Yelp and Yahoo CSPAN's Table 2 quotes.
    "swem_classifier": {
        "encoder": "none",
        "pooling": "mean_max",
        "head_dim": 300,
        "map_activation": "relu",
        "dropout": 0.2,
    },
    # Joulin et al. (2017): mean of words and bigrams of 10 features in 10M buckets.
    "fasttext_classifier": {
        "encoder": "none",
        "encoder_embed_dim": 10,
        "word_ngrams": 2,
        "ngram_buckets": 10_000_000,
        "pooling": "mean",
        "dropout": 0.0,
    },
    # Zhang et al. (2015): mean of an LSTM's 512 features.
    "lstm_classifier": {
        "encoder": "lstm",
        "encoder_hidden_dim": 512,
        "pooling": "mean",
        "dropout": 0.3,
    },
}

RECOMMENDERS = {
    "da_transformer_recommender": {**TRANSFORMER, "encoder_sublayers": "da,ffn"},
    "transformer_recommender": {**TRANSFORMER, "encoder_sublayers": "san,ffn"},
    **{
        f"{name}_recommender": {**TRANSFORMER, "encoder_sublayers": f"{name},ffn"}
        for name in ("rpr", "transformer_xl", "tener")
    },
    "nrms_recommender": {
        "encoder": "attention",
        "encoder_hidden_dim": 400,
        "encoder_attention_heads": 20,
        "no_attention_bias": True,
        "dropout": 0.2,
    },
}

# Tan et al. (2018), the tagger that MTSA extends: ten layers of 200 features, feed-forward first.
DEEP_ATTENTION = {
    "encoder": "transformer",
    "encoder_embed_dim": 100,
    "encoder_layers": 10,
    "encoder_ffn_embed_dim": 800,
    "encoder_attention_heads": 8,
    "dropout": 0.2,
    "activation_dropout": 0.1,
}
TAGGER = {"encoder_embed_dim": 100, "dropout": 0.2, "input_dropout": 0.2}

TAGGERS = {
    "mtsa_tagger": {
        **DEEP_ATTENTION,
        "encoder_sublayers": "ffn,mtsa",
        "attention_dropout": 0.19,  # both factors of a weight 0.1
        "no_token_positional_embeddings": True,
        "mtsa_source": "input",
        "mtsa_source_layers": 1,
        "mtsa_token_scale": "identity",
    },
    "transformer_tagger": {
        **DEEP_ATTENTION,
        "encoder_sublayers": "ffn,san",
        "attention_dropout": 0.1,
        "input_dropout": 0.2,
    },
    # The paper reports neither depth nor width of these two.
    "bilstm_tagger": {**TAGGER, "encoder": "bilstm", "encoder_hidden_dim": 600, "lstm_layers": 4},
    "cnn_tagger": {**TAGGER, "encoder": "cnn", "encoder_hidden_dim": 600},
}

# By the name of the model.
ARCHITECTURES: dict[str, Mapping[str, Mapping[str, object]]] = {
    "posattn_transformer": SEQ2SEQ,
    "posattn_classifier": CLASSIFIERS,
    "posattn_recommender": RECOMMENDERS,
    "posattn_tagger": TAGGERS,
}


def preset(name: str) -> Mapping[str, object]:
    """Return the options that an architecture changes; none for an unknown name."""
    return next((presets[name] for presets in ARCHITECTURES.values() if name in presets), {})
