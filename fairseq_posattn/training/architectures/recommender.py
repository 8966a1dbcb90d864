"""Named architectures of ``posattn_recommender``: DA-Transformer's Table 5.

What the user gives goes before what is written here. One layer of 16 heads of 16 features at either
level, words of 300 features (section 4.1); whether the published layers keep their feed-forward
part is not said; ours do. NRMS is as its authors' notebook has it: attention alone, without biases.
"""

TRANSFORMER = {
    "encoder": "transformer",
    "encoder_hidden_dim": 256,
    "encoder_attention_heads": 16,
    "embedding_scale": "sqrt",
    "dropout": 0.2,
}

ARCHITECTURES = {
    "da_transformer_recommender": {**TRANSFORMER, "encoder_sublayers": "da,ffn"},
    "transformer_recommender": {**TRANSFORMER, "encoder_sublayers": "san,ffn"},
    "rpr_recommender": {**TRANSFORMER, "encoder_sublayers": "rpr,ffn"},
    "transformer_xl_recommender": {**TRANSFORMER, "encoder_sublayers": "transformer_xl,ffn"},
    "tener_recommender": {**TRANSFORMER, "encoder_sublayers": "tener,ffn"},
    "nrms_recommender": {
        "encoder": "attention",
        "encoder_hidden_dim": 400,
        "encoder_attention_heads": 20,
        "no_attention_bias": True,
        "dropout": 0.2,
    },
}
