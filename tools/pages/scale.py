"""What large models would cost on many GPUs: the tables of docs/scale.md."""

from collections.abc import Callable

from tools.pages.kernels import markdown
from tools.pages.results import Results


def on_gpus(results: Results) -> str:
    """Memory, network and time of an update, predicted."""
    rows = [
        {
            "architecture": f"`{row['arch']}`",
            "GPUs": row["gpus"],
            "batches x tokens, a GPU": f"{row['batches']} x {row['tokens']}",
            "memory, GB": f"{row['memory_bytes'] / 1e9:.1f}",
            "sent by a GPU, GB": f"{row['network_bytes'] / 1e9:.2f}",
            "device, ms": f"{1e3 * row['device_seconds']:.0f}",
            "with the host, ms": f"{1e3 * row['batches_seconds']:.0f}",
            "optimiser, ms": f"{1e3 * row['step_seconds']:.1f}",
            "network, ms": f"{1e3 * row['network_seconds']:.1f}",
            "of it waited for, ms": f"{1e3 * row['exposed_seconds']:.1f}",
            "update, ms": f"{1e3 * row['update_seconds']:.0f}",
            "words/s": f"{row['words_per_second'] / 1e6:.2f}M",
        }
        for report in results.reports("scale.json")
        for row in report["gpus"]
    ]
    return markdown(rows)


def here(results: Results) -> str:
    """Updates by processes of one machine, measured beside what is predicted of them."""
    rows = [
        {
            "processes": row["processes"],
            "products, GFLOP/s": f"{row['matrix'] / 1e9:.0f}",
            "memory, GB/s": f"{row['memory'] / 1e9:.1f}",
            "network, GB/s": f"{row['network'] / 1e9:.2f}" if row["network"] else "",
            "predicted, s": f"{row['update_seconds']:.2f}",
            "measured, s": f"{row['measured_seconds']:.2f}",
            "measured / predicted": f"{row['measured_seconds'] / row['update_seconds']:.2f}",
        }
        for report in results.reports("scale.json")
        for row in report["here"]
    ]
    told = [
        f"`{report['pair']}`, {report['sentences']} sentences of up to {report['source_length']} "
        f"and {report['target_length']} words a process; {report['device']}, one thread each, "
        f"{report['dtype']}, PyTorch {report['torch']}, {report['date']}."
        for report in results.reports("scale.json")
    ]
    return "\n\n".join([markdown(rows), *told])


def inputs(results: Results) -> str:
    """What is put in, and whose word it is."""
    rows = [
        {"input": f"`--{name.replace('_', '-')}`", "value": f"{value['value']:g}"}
        | {"what": value["unit"], "source": value["source"]}
        for report in results.reports("scale.json")
        for name, value in report["inputs"].items()
    ]
    return markdown(rows)


PLACES: dict[str, Callable[[Results], str]] = {
    "scale": on_gpus,
    "scale here": here,
    "scale inputs": inputs,
}
