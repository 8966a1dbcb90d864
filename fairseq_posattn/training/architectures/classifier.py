"""Named architectures of ``posattn_classifier``: the papers' sizes.

What the user gives goes before what is written here. All start from word vectors of 300
features.
"""

# DA-Transformer's experiments: one layer, 16 heads of 16 features (section 4.1).
TRANSFORMER = {
    "encoder": "transformer",
    "encoder_hidden_dim": 256,
    "encoder_attention_heads": 16,
    "embedding_scale": "sqrt",
    "pooling": "attention",
    "dropout": 0.2,
}
# MPSAN's experiments, and DiSAN's and MTSA's: source2token pooling, a layer of 300 features, and
# dropout before every affine map.
SOURCE2TOKEN = {
    "pooling": "source2token",
    "head_dim": 300,
    "dropout": 0.3,
    "dropout_places": "maps",
}
CSPAN = {"encoder": "cspan", "pooling": "multi_query", "dropout": 0.2}

ARCHITECTURES = {
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
    "da_transformer_classifier": {**TRANSFORMER, "encoder_sublayers": "da,ffn"},
    "dman_classifier": {
        **TRANSFORMER,
        "encoder_sublayers": "dman,san,ffn",
        "encoder_normalize_before": True,
    },
    "transformer_classifier": {**TRANSFORMER, "encoder_sublayers": "san,ffn"},
    "rpr_classifier": {**TRANSFORMER, "encoder_sublayers": "rpr,ffn"},
    "gaussian_classifier": {**TRANSFORMER, "encoder_sublayers": "gaussian,ffn"},
    "transformer_xl_classifier": {**TRANSFORMER, "encoder_sublayers": "transformer_xl,ffn"},
    "tener_classifier": {**TRANSFORMER, "encoder_sublayers": "tener,ffn"},
    "disan_classifier": {**SOURCE2TOKEN, "encoder": "disan", "encoder_hidden_dim": 600},
    "bi_blosan_classifier": {**SOURCE2TOKEN, "encoder": "bi_blosan", "encoder_hidden_dim": 600},
    "bilstm_classifier": {**SOURCE2TOKEN, "encoder": "bilstm", "encoder_hidden_dim": 600},
    "bigru_classifier": {**SOURCE2TOKEN, "encoder": "bigru", "encoder_hidden_dim": 600},
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
    # Yang et al. (2016): GRUs of 50 features each way and a query, over words and over sentences.
    "han_classifier": {
        "encoder": "bigru",
        "encoder_hidden_dim": 100,
        "pooling": "attention",
        "hierarchical": True,
        "sentence_ends": ". ! ?",
        "dropout": 0.2,
    },
    # SWEM-concat of Shen et al. (2018): its numbers on Yelp and Yahoo are those of CSPAN's Table 2.
    "swem_classifier": {
        "encoder": "none",
        "pooling": "mean_max",
        "head_dim": 300,
        "map_activation": "relu",
        "dropout": 0.2,
    },
    # Joulin et al. (2017): words and bigrams of 10 features, 10M bins, their mean, the classes.
    "fasttext_classifier": {
        "encoder": "none",
        "encoder_embed_dim": 10,
        "word_ngrams": 2,
        "ngram_buckets": 10_000_000,
        "pooling": "mean",
        "dropout": 0.0,
    },
    # Zhang et al. (2015): the mean of an LSTM's 512 features, and the classes.
    "lstm_classifier": {
        "encoder": "lstm",
        "encoder_hidden_dim": 512,
        "pooling": "mean",
        "dropout": 0.3,
    },
}
