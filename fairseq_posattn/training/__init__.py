"""fairseq's view of the plugin: models, tasks, criterions, presets, and readers of its logs."""
