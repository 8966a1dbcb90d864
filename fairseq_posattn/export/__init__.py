"""From a checkpoint of fairseq to what needs no fairseq: Hugging Face's folders, ONNX, int8."""
