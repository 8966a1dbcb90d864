"""What was measured of speed and memory on a CPU: docs/speed.md, and README.md in short."""

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from tools.pages.kernels import EMPTY
from tools.pages.results import Results

MECHANISMS = ("mpsan", "mtsa", "cspan", "da_transformer", "dman")
Report = dict[str, Any]


def training(results: Results) -> str:
    """An update of ours beside fairseq's own model with as many parameters."""
    rows = [
        [
            *(_names(pair), _sizes(pair), _lengths(pair), pair["threads"]),
            *(_processor(pair), _library(pair), _ratio(pair, "updates"), _memory(pair)),
        ]
        for pair in _by_model(results, "training_cpu*.json")
    ]
    header = ["pair", "parameters", "sentences x longest source, target", "threads"]
    header += ["processor", "products", "ours / fairseq's (rounds)"]
    header.append("peak memory, ours / fairseq's")
    return _table(header, rows)


def switches(results: Results) -> str:
    """An update under each switch, over fairseq's own model and flags; none on a GPU is said."""
    of_cpu = _contestants(results, "switches_cpu*.json")
    others = [
        _contestants(results, "switches_cpu_intel.json"),
        _contestants(results, "switches_cpu_intel.json", "dman_summarization"),
        _contestants(results, "gpu/switches*.json"),
    ]
    rows = [
        [
            *(name, f"`{one['flags']}`", f"{one['milliseconds']:,.0f}", one["launches"]),
            *(_ratio(of[name]) if name in of else "not measured" for of in (of_cpu, *others)),
        ]
        for name, one in of_cpu.items()
    ]
    header = ["update", "flags", "EPYC, ms", "operations", "over fairseq's", "on the Xeon"]
    return _table([*header, "summaries, on the Xeon", "on a GPU"], rows)


def parts(results: Results) -> str:
    """Where an update's time goes on a CPU."""
    keys = "part", "milliseconds", "stock_milliseconds", "launches", "stock_launches"
    rows = [
        [part[key] for key in keys]
        for pair in _pairs(results, "update_cpu.json")
        for part in pair["parts"]
    ]
    return _table(["part", "ms", "fairseq's, ms", "operations", "fairseq's"], rows)


def launches(results: Results) -> str:
    """What an update of half precision launches on a GPU, and moves, as counted without one."""
    keys = "launches", "stock_launches", "bytes", "stock_bytes"
    rows = []
    for pair in _pairs(results, "launches.json"):
        everything = {key: sum(group[key] for group in pair["groups"]) for key in keys}
        for group in [*pair["groups"], {"group": "all", **everything}]:
            counts = [f"{group[key]:,}" for key in keys[:2]]
            rows.append(
                [group["group"], *counts, *(f"{group[key] / 1e6:,.0f}" for key in keys[2:])]
            )
    return _table(["", "launches", "fairseq's", "MB", "fairseq's"], rows)


def norms(results: Results) -> str:
    """What a kernel of sum, dropout and layer norm would save."""
    host = {row["by"]: row for report in results.reports("norms.json") for row in report["rows"]}
    for pair in _pairs(results, "launches.json"):
        saved = pair["norms"]
        launched, moved = (
            sum(group[key] for group in pair["groups"]) for key in ("launches", "bytes")
        )
        ours, theirs = (f"{host[by]['microseconds']:.0f}" for by in ("kernels", "PyTorch"))
        return (
            f"Of `{pair['arch']}` it would serve {saved['places']} norms, which follow a sum of "
            f"their own layer. It would launch {saved['launches']} less of {launched:,} "
            f"({saved['launches'] / launched:.0%}), and move {saved['bytes'] / 1e6:,.0f} MB less "
            f"of {moved / 1e6:,.0f} ({saved['bytes'] / moved:.0%}). The host would take {ours} "
            f"microseconds a norm for kernels that do nothing, and takes {theirs} for PyTorch's, "
            f"in both without the driver's part of {host['kernels']['launches']} and "
            f"{host['PyTorch']['launches']} launches."
        )
    return EMPTY


def translating(results: Results) -> str:
    """The beam search of ours beside fairseq's own model."""
    rows = [
        [_names(pair), _lengths(pair), _processor(pair), _library(pair), _ratio(pair, "batches")]
        for pair in _by_model(results, "decoding_cpu*.json")
    ]
    header = ["pair", "sentences x longest source, output", "processor", "products"]
    return _table([*header, "ours / fairseq's (rounds)"], rows)


def losses(results: Results) -> str:
    """The label-smoothed loss that keeps less over fairseq's."""
    rows = [
        [f"{loss['rows']} x {loss['words']:,}", loss["milliseconds"], loss["stock_milliseconds"]]
        + [_ratio(loss, "rounds")]
        for report in results.reports("loss_cpu.json")
        for loss in report["losses"]
    ]
    header = ["words x dictionary", "ms", "fairseq's, ms", "ours / fairseq's (rounds)"]
    return _table(header, rows)


def plain_text(results: Results) -> str:
    """``posattn translate`` beside ``fairseq-generate``, and its memory."""
    texts = []
    for report in results.reports("translate_cpu.json"):
        lines = {int(count): most for count, most in report["megabytes"].items()}
        memory = " and ".join(f"{most:.0f} MB on {count:,}" for count, most in lines.items())
        texts.append(
            f"{report['sentences']:,} sentences, {report['alike']:,} of them translated alike, "
            f"beam {report['beam']}, by `{report['arch']}` of "
            f"{report['layers']} layers and {report['features']} features ({report['words']:,} "
            f"words, {report['parameters'] / 1e6:.2f}M parameters): {report['seconds']:.1f} "
            f"seconds of processor time, where `fairseq-generate` takes "
            f"{report['fairseq_seconds']:.1f}: {_ratio(report, 'rounds')} of its. Given lines of "
            f"three words, `posattn translate` has {memory} lines at most."
        )
    return "\n\n".join(texts) or EMPTY


def classifying(results: Results) -> str:
    """An update of each classifier over the Transformer of its width; of some, without dropout."""
    others = [
        {model["name"]: _ratio(model) for model in _classifiers(results, f"{name}.json")}
        for name in ("classification_cpu_without_dropout", "classification_cpu_intel")
    ]
    rows = [
        [
            *(f"`{model['name']}`", model["width"], f"{model['parameters']:,}", _ratio(model)),
            *(ratios.get(model["name"], "") for ratios in others),
        ]
        for model in _classifiers(results)
    ]
    header = ["classifier", "width", "parameters", "over the Transformer"]
    return _table([*header, "both without dropout", "on the Xeon"], rows)


def roles_and_news(results: Results) -> str:
    """An update of each tagger and recommender over the same with fairseq's layers."""
    rows = [
        [f"`{model['name']}`", f"{model['parameters']:,}", _ratio(model)]
        for report in results.reports("roles_and_news_cpu.json")
        for model in report["models"]
        if not model["name"].startswith("plain")
    ]
    return _table(["", "parameters", "over fairseq's layers"], rows)


def ranking(results: Results) -> str:
    """Of news."""
    texts = [
        f"{report['ranked']:,} impressions of {report['shown']} candidates, {report['history']} "
        "clicks before each, ranked and scored by a model of 64 features: "
        f"{report['ranking_seconds']:g} seconds of processor time, {report['threads']} threads "
        f"together. That is {report['impressions_a_second']:,.0f} a second, titles and users being "
        f"encoded once, where {report['impressions_a_second_anew']:.0f} a second are ranked if all "
        "titles of an impression are encoded for it."
        for report in results.reports("news_ranking_cpu.json")
    ]
    return "\n\n".join(texts) or EMPTY


def memory_of_news(results: Results) -> str:
    """What preparation and an epoch take, by how many users there are."""
    reports = sorted(results.reports("news_*_cpu.json"), key=lambda report: int(report["users"]))
    measured = {
        "largest process of the preparation": "preparation_megabytes",
        "an epoch over their clicks, beside libraries and titles": "epoch_megabytes",
    }
    rows = [
        [what, *(f"{report[key]:.0f} MB" for report in reports)] for what, key in measured.items()
    ]
    header = ["memory", *(f"{report['users']:,} users" for report in reports)]
    return _table(header, rows if reports else [])


def length(results: Results, words: int = 128) -> str:
    """MTSA beside DiSAN and multi-head attention, at one length."""
    for report in results.reports("sequence_length_cpu.json"):
        points = [point for point in report["points"] if point["length"] == words]
        memory = {point["mechanism"]: point["bytes"] for point in points}
        time = {point["mechanism"]: median(point["seconds"]) for point in points}
        return (
            f"At {words} words DiSAN takes {memory['DiSAN'] / memory['MTSA']:.1f} times the memory "
            f"of MTSA and {time['DiSAN'] / time['MTSA']:.1f} times the time; MTSA takes "
            f"{memory['MTSA'] / memory['multi-head']:.1f} times the memory of plain multi-head "
            f"attention and {time['MTSA'] / time['multi-head']:.1f} times the time."
        )
    return EMPTY


def in_short(results: Results) -> str:
    """The costs of the five papers' models over plain attention's, in a list."""
    lines = []
    for what, pattern, int8 in (
        ("an update of DMAN's models takes", "training_cpu*.json", False),
        ("a translation by beam search", "decoding_cpu*.json", False),
        ("a translation in int8", "decoding_cpu*.json", True),
    ):
        pairs = (pair for pair in _pairs(results, pattern) if pair.get("int8", False) == int8)
        ratios = [pair["time_ratio"] for pair in pairs]
        if ratios:
            span = f"{min(ratios):.2f} to {max(ratios):.2f} times"
            lines.append(f"- {what} {span} that of fairseq's own Transformers of equal size;")
    models = {model["name"].removesuffix("_classifier"): model for model in _classifiers(results)}
    costs = [f"{name} {models[name]['time_ratio']:.2f}" for name in MECHANISMS if name in models]
    if costs:
        lines.append(
            "- an update of a classifier over a Transformer's of the same width: "
            f"{', '.join(costs)}."
        )
    return "\n".join(lines) or EMPTY


PLACES: dict[str, Callable[[Results], str]] = {
    "speed of training": training,
    "speed of switches": switches,
    "speed of parts": parts,
    "speed of launches": launches,
    "speed of norms": norms,
    "speed of translating": translating,
    "speed of plain text": plain_text,
    "speed of losses": losses,
    "speed of classifying": classifying,
    "speed of roles and news": roles_and_news,
    "speed of ranking": ranking,
    "memory of news": memory_of_news,
    "speed by length": length,
    "speed in short": in_short,
}


def _pairs(results: Results, pattern: str) -> Iterator[Report]:
    """All pairs, each with what its report says of all of them."""
    for report in results.reports(pattern):
        for pair in report["pairs"]:
            yield {**report, **pair}


def _by_model(results: Results, pattern: str) -> list[Report]:
    """All pairs, those of the same models next to each other."""
    return sorted(_pairs(results, pattern), key=lambda pair: (pair["arch"], pair["device"]))


def _contestants(
    results: Results, pattern: str, arch: str = "dman_iwslt_de_en"
) -> dict[str, Report]:
    """The ways to make an update of this pair, by name."""
    found: dict[str, Report] = {}
    for pair in _pairs(results, pattern):
        if pair["arch"] == arch:
            for one in pair["contestants"]:
                found.setdefault(one["name"], one)
    return found


def _classifiers(results: Results, pattern: str = "classification_cpu.json") -> Iterator[Report]:
    """Those that were measured; what they are measured over has a space in its name."""
    for report in results.reports(pattern):
        yield from (model for model in report["models"] if " " not in model["name"])


def _names(pair: Report) -> str:
    return f"`{pair['arch']}`, `{pair['stock']}`"


def _sizes(pair: Report) -> str:
    return ", ".join(f"{pair[key] / 1e6:.2f}M" for key in ("parameters", "stock_parameters"))


def _lengths(pair: Report) -> str:
    return f"{pair['sentences']} x {pair['source_length']}, {pair['target_length']}"


def _processor(pair: Report) -> str:
    return str(pair["device"]).replace("(R)", "").removesuffix(" Processor")


def _library(pair: Report) -> str:
    """Whose matrix products ours are."""
    if pair.get("int8"):
        return "int8"
    return {"onednn": "oneDNN", "torch": "MKL"}[pair["linear"]]


def _memory(pair: Report) -> str:
    """The ratio of the peaks, and what they are."""
    ours, theirs = (pair[key] / 1e6 for key in ("peak_bytes", "stock_peak_bytes"))
    return f"{pair['memory_ratio']:.2f} ({ours:,.0f} MB, {theirs:,.0f} MB)"


def _ratio(measured: Report, rounds: str = "") -> str:
    """With the lowest and the highest, and of how many rounds they are."""
    low, high = measured["time_ratio_lowest"], measured["time_ratio_highest"]
    count = f", {measured[rounds]}" if rounds else ""
    return f"{measured['time_ratio']:.2f} ({low:.2f} to {high:.2f}{count})"


def _table(header: list[str], rows: list[list[Any]]) -> str:
    if not rows:
        return EMPTY
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
