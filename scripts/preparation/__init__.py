"""What the scripts prepare_translation, prepare_summarization and prepare_classification share."""
