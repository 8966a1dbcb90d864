"""Memory and speed of news recommendation on made-up logs of any size, in MIND's layout.

    python benchmarks/news.py --users 1000000 --impressions 100000 --shown 4 --history 4
    python benchmarks/news.py

Prepares the logs, each user with an impression of their own, and impressions for testing, then
iterates over an epoch's batches; tells the most memory that any process of the preparation had, and
how much the epoch's had beside the libraries and the words of the titles (anonymous memory: pages
of files that are mapped can be dropped at any time). Then ranks the impressions for testing with an
untrained model, every title and every user being encoded once, and some with every title encoded
anew for each impression; the seconds of this are the processor's, of all threads together, whatever
else it had to do.
"""

import logging
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import machine
import torch
import translation_pairs as pairs
from tqdm import tqdm

from fairseq_posattn.inference.news_ranking import candidate_scores
from fairseq_posattn.scoring.ranking import Impression, mean_scores
from fairseq_posattn.training.tasks.news_recommendation import NewsRecommendationTask, pad_rows

WORDS, TITLE = 5000, 11  # different words; in a title
SIZES = "--encoder-embed-dim 64 --encoder-hidden-dim 64 --encoder-attention-heads 4"
SIZES += " --encoder-ffn-embed-dim 128 --pooling-dim 32"
BATCH_SIZE = 256
MEGABYTE = 1 << 20


def parse_arguments():
    parser = machine.make_parser(__doc__)
    parser.add_argument("--users", type=int, default=1000, help="each with an impression")
    parser.add_argument("--impressions", type=int, default=10000, help="for testing")
    parser.add_argument("--shown", type=int, default=38, help="candidates of an impression")
    parser.add_argument("--history", type=int, default=20, help="clicks of a user before it")
    parser.add_argument("--news", type=int, default=20000, help="articles")
    parser.add_argument("--anew", type=int, default=200, help="impressions that are encoded anew")
    parser.add_argument("--arch", default="da_transformer_recommender", help="that ranks")
    parser.add_argument("--threads", type=int, default=2, help="of PyTorch")
    return parser.parse_args()


# --- Logs ----------------------------------------------------------------------------------------


def write_logs(folder, arguments):
    """``MINDsmall_train`` and ``MINDsmall_dev``, a line at a time."""
    generator = random.Random(1)
    news = [f"N{number}" for number in range(arguments.news)]
    words = [f"word{number}" for number in range(WORDS)]
    articles = "".join(
        f"{name}\tnews\tworld\t{' '.join(generator.choices(words, k=TITLE))}\t\t\t[]\t[]\n"
        for name in news
    )
    for part, users, days in (
        ("train", arguments.users, (9, 10)),
        ("dev", arguments.impressions, (16, 16)),
    ):
        path = folder / f"MINDsmall_{part}"
        path.mkdir()
        (path / "news.tsv").write_text(articles)
        with open(path / "behaviors.tsv", "w") as file:
            for number in range(users):
                day = days[number % 10 == 0]  # of training a tenth is of its last day
                before = " ".join(generator.choices(news, k=arguments.history))
                clicked, *others = generator.choices(news, k=arguments.shown)
                shown = " ".join([f"{clicked}-1", *(f"{name}-0" for name in others)])
                file.write(f"{number}\tU{number}\t11/{day}/2019 6:42:51 PM\t{before}\t{shown}\n")


# --- Memory --------------------------------------------------------------------------------------


def prepare(source, dest):
    """Seconds, and the most memory of a process in MB."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "fairseq_posattn.cli", "prepare", "recommendation", "mind"]
    options = ["--source", str(source), "--dest", str(dest), "--jobs", "1"]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    # in kilobytes: of the largest of the processes that have ended
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return time.perf_counter() - start, most


def anonymous_memory():
    """In MB, without the pages of files."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status does not tell RssAnon")


def iterate(task):
    """Clicks of an epoch, seconds, and the most memory beside what there was before, in MB."""
    before, start = anonymous_memory(), time.perf_counter()
    dataset = task.load_dataset("train")
    iterator = task.get_batch_iterator(dataset, max_sentences=BATCH_SIZE, seed=1)
    batches = iterator.next_epoch_itr(shuffle=True)
    most = 0.0
    for number, _ in enumerate(tqdm(batches, unit="batch")):
        if number % 100 == 0:
            most = max(most, anonymous_memory() - before)
    return len(dataset), time.perf_counter() - start, max(most, anonymous_memory() - before)


# --- Ranking -------------------------------------------------------------------------------------


def build(task, arch):
    flags = ["--task", "news_recommendation", "--criterion", "news_recommendation"]
    return pairs.build_model([*flags, "--arch", arch, *SIZES.split()], task).eval()


def rank_once(model, task):
    """Impressions, and the processor's seconds in which they were encoded, ranked and scored."""
    dataset = task.load_dataset("test")
    start = time.process_time()
    scores, ends = candidate_scores(model, task, dataset, BATCH_SIZE)
    means = mean_scores(
        Impression(
            str(index),
            dataset.impressions.labels(index).astype(int).tolist(),
            scores[ends[index] : ends[index + 1]].tolist(),
        )
        for index in range(len(dataset))
    )
    if means["scored"] != len(dataset):
        raise RuntimeError(f"{means['skipped']} impressions could not be scored")
    return len(dataset), time.process_time() - start


@torch.no_grad()
def rank_anew(model, task, count):
    """The processor's seconds in which so many impressions were encoded with all their titles."""
    impressions = task.dataset("test").impressions
    start = time.process_time()
    for index in range(count):
        history = pad_rows([impressions.history(index)])
        candidates = pad_rows([impressions.candidates(index)])
        clicks = history.size(1)
        titles = task.titles[torch.cat([history, candidates], dim=1)[0]].long()
        titles = torch.cat([task.titles[:1].long(), titles])
        rows = torch.arange(1, len(titles))[None]
        model(titles, rows[:, :clicks].masked_fill(history == 0, 0), rows[:, clicks:])
    return time.process_time() - start


def main():
    arguments = parse_arguments()
    logging.disable(logging.INFO)
    torch.manual_seed(1)
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        source, dest = Path(folder, "logs"), Path(folder, "mind")
        source.mkdir()
        write_logs(source, arguments)
        logs = sum(path.stat().st_size for path in source.glob("*/behaviors.tsv")) / MEGABYTE
        seconds, largest = prepare(source, dest)
        task = NewsRecommendationTask.setup_task(settings(dest))
        clicks, epoch, most = iterate(task)
        model = build(task, arguments.arch)
        ranked, once = rank_once(model, task)
        anew = rank_anew(model, task, min(arguments.anew, ranked))
    report = {
        **{name: value for name, value in vars(arguments).items() if name != "json"},
        **machine.describe("cpu", "float32"),
        "logs_megabytes": round(logs, 1),
        "preparation_seconds": round(seconds, 1),
        "preparation_megabytes": round(largest, 1),
        "epoch_clicks": clicks,
        "epoch_seconds": round(epoch, 1),
        "epoch_megabytes": round(most, 1),
        "ranked": ranked,
        "ranking_seconds": round(once, 1),
        "impressions_a_second": round(ranked / once, 1),
        "impressions_a_second_anew": round(min(arguments.anew, ranked) / anew, 1),
    }
    print(
        "{device}, {threads} threads, torch {torch}\n"
        "logs of {users:,} users: {logs_megabytes:,.0f} MB; prepared in {preparation_seconds:.0f} "
        "s by processes of {preparation_megabytes:,.0f} MB at most\n"
        "an epoch of {epoch_clicks:,} clicks: {epoch_seconds:.0f} s, {epoch_megabytes:,.0f} MB "
        "more than before\n"
        "{ranked:,} impressions of {shown} candidates ranked and scored in {ranking_seconds:.1f} "
        "s of the processor: {impressions_a_second:,.0f} a second; with all titles encoded anew "
        "{impressions_a_second_anew:,.1f}".format(**report)
    )
    machine.keep(report, arguments.json)


def settings(data):
    return SimpleNamespace(
        data=str(data), title_length=30, max_history=50, negatives=4, train_subset="train", seed=1
    )


if __name__ == "__main__":
    main()
