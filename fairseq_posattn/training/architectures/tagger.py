"""Named architectures of ``posattn_tagger``: MTSA's Table 4.

What the user gives goes before what is written here.
"""

# Tan et al. (2018), whose tagger MTSA's is: ten layers of 200 features, feed-forward first.
DEEP_ATTENTION = {
    "encoder": "transformer",
    "encoder_embed_dim": 100,
    "encoder_layers": 10,
    "encoder_ffn_embed_dim": 800,
    "encoder_attention_heads": 8,
    "dropout": 0.2,
    "activation_dropout": 0.1,
}
PLAIN = {"encoder_embed_dim": 100, "dropout": 0.2, "input_dropout": 0.2}

ARCHITECTURES = {
    "mtsa_tagger": {
        **DEEP_ATTENTION,
        "encoder_sublayers": "ffn,mtsa",
        "attention_dropout": 0.19,  # of either part of a weight 0.1
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
    # The paper gives neither depth nor width of these two.
    "bilstm_tagger": {**PLAIN, "encoder": "bilstm", "encoder_hidden_dim": 600, "lstm_layers": 4},
    "cnn_tagger": {**PLAIN, "encoder": "cnn", "encoder_hidden_dim": 600},
}
