"""fairseq-train as it is on two GPUs, without any: it spawns a process for each, and they spawn
processes to load data."""

import multiprocessing

if __name__ == "__main__":
    import torch

    torch.cuda.device_count = lambda: 2  # how many processes fairseq spawns
    multiprocessing.set_start_method("spawn")

    from fairseq_cli.train import cli_main

    cli_main()
