"""HTTP application that translates, in LibreTranslate's form; for ``posattn serve``."""

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException as Refused  # status and reason
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.hypotheses import BLANK, Translation
from fairseq_posattn.inference.stream import batches
from fairseq_posattn.inference.tokens import Line
from fairseq_posattn.inference.translation import Translator
from fairseq_posattn.text.languages import CHINESE, code_of, file_code, name_of

FORM = "application/x-www-form-urlencoded"
STALLED = 20  # seconds without a byte of a request that has begun
METRICS = {  # by name: its kind for Prometheus, and its description
    "requests_total": ("counter", "requests by HTTP status"),
    "lines_total": ("counter", "translated lines"),
    "longest_total": ("counter", "lines answered with the maximum output length, maybe cut"),
    "batches_total": ("counter", "batches of lines that were translated together"),
    "seconds_total": ("counter", "seconds of translation"),
    "waiting": ("gauge", "lines that wait for their translation"),
}


@dataclass(frozen=True)
class Limits:
    batch: int = 32  # lines that are translated together, at most
    waiting: int = 1024  # lines of all requests that wait for their translation
    body: int = 1 << 20  # bytes of a request


class Batches:
    """Queue of a model; requests that wait at the same time share a batch in the ``pool``."""

    def __init__(
        self, translator: Translator, pool: ThreadPoolExecutor, limits: Limits, counts: Counter[str]
    ):
        self.translator, self.pool, self.limits, self.counts = translator, pool, limits, counts
        self.queue: asyncio.Queue[tuple[list[Line], asyncio.Future[list[Translation]]]]
        self.queue = asyncio.Queue()

    async def translate(self, texts: Sequence[str]) -> list[Translation]:
        """Return the translations of lines; raise Refused for too many or too long lines."""
        longest, most = self.translator.lines.longest, self.limits.waiting
        if len(texts) > most:
            raise Refused(413, f"q: has {len(texts):,} lines; send at most {most:,}")
        lines = await asyncio.to_thread(self.translator.encode, texts)
        for text, line in zip(texts, lines, strict=True):
            if line.cut:
                has = f"has over {longest - 1} subwords"
                raise Refused(400, f"q: {text[:40]!r}... {has}; split the text")
        if self.counts["waiting"] + len(lines) > most:
            raise Refused(429, "too many texts are waiting; try again later")
        results, loop = [BLANK] * len(lines), asyncio.get_running_loop()
        waiting = len(lines)
        self.counts["waiting"] += waiting
        try:  # a batch at a time: shorter requests need not wait for all of them
            for rows in batches([len(line.tokens) for line in lines], self.limits.batch):
                result: asyncio.Future[list[Translation]] = loop.create_future()
                self.queue.put_nowait(([lines[row] for row in rows], result))
                for row, translation in zip(rows, await result, strict=True):
                    results[row] = translation
                self.counts["waiting"] -= len(rows)
                waiting -= len(rows)
            return results
        finally:
            self.counts["waiting"] -= waiting

    async def run(self) -> None:
        """Translate what is in the queue, until the task is cancelled."""
        while True:
            requests = [await self.queue.get()]
            while not self.queue.empty() and sum(len(r[0]) for r in requests) < self.limits.batch:
                requests.append(self.queue.get_nowait())
            requests = [request for request in requests if not request[1].done()]  # client is gone
            for part in await self._answer(requests):
                await self._answer([part])

    async def _answer(self, requests: list[Any]) -> list[Any]:
        """Translate requests as a batch; return those to try alone, since the batch failed."""
        lines = [line for some, _ in requests for line in some]
        loop = asyncio.get_running_loop()
        try:
            results, seconds = await loop.run_in_executor(self.pool, self._translate, lines)
        except Exception as error:  # any other would end this task: nobody would get an answer
            if len(requests) > 1:
                return requests
            for _, result in requests:
                if not result.done():
                    result.set_exception(Refused(500, str(error)))
            return []
        self.counts["lines_total"] += len(lines)
        self.counts["batches_total"] += bool(lines)
        self.counts["seconds_total"] += seconds  # type: ignore[assignment]
        for some, result in requests:
            translations = [next(results) for _ in some]
            self.counts["longest_total"] += sum(each.is_longest for each in translations)
            if not result.done():
                result.set_result(translations)
        return []

    def _translate(self, lines: Sequence[Line]) -> tuple[Iterator[Translation], float]:
        """Return translations, and the seconds without the wait for other models in the pool."""
        started = time.perf_counter()
        results = iter(self.translator.translate_all(lines, self.limits.batch))
        return results, time.perf_counter() - started


def application(translators: Iterable[Translator], limits: Limits) -> Starlette:
    """Return the application of models; two of the same languages are a UsageError."""
    counts: Counter[str] = Counter()
    pool = ThreadPoolExecutor(1)  # PyTorch uses all cores for one batch
    models: dict[tuple[str, str], Batches] = {}
    for translator in translators:
        pair = languages_of(translator)
        if pair in models:
            names = f"{models[pair].translator.path} and {translator.path}"
            raise UsageError(f"{names}: both translate {'-'.join(pair)}; serve them on two ports")
        models[pair] = Batches(translator, pool, limits, counts)

    async def translate(request: Request) -> JSONResponse:
        try:
            fields = await _fields(request, limits.body)
            answer, status = await _while_connected(request, _translated(fields, models)), 200
        except Refused as error:
            answer, status = {"error": error.detail}, error.status_code
        except ClientDisconnect:
            answer, status = {}, 499  # nobody reads it
        counts[f'requests_total{{status="{status}"}}'] += 1
        return JSONResponse(answer, status, {"Retry-After": "1"} if status == 429 else None)

    async def languages(request: Request) -> JSONResponse:
        codes = sorted({code for pair in models for code in pair})
        targets = {code: sorted(end for start, end in models if start == code) for code in codes}
        return JSONResponse([{"code": c, "name": name_of(c), "targets": targets[c]} for c in codes])

    @contextlib.asynccontextmanager
    async def running(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(model.run()) for model in models.values()]
        yield
        for task in tasks:
            task.cancel()
        pool.shutdown()

    routes = [
        Route("/translate", translate, methods=["POST"]),
        Route("/languages", languages),
        Route("/health", lambda request: JSONResponse({"status": "ok"})),
        Route("/metrics", lambda request: PlainTextResponse("".join(_exposition(counts)))),
    ]
    return Starlette(routes=routes, lifespan=running)


def languages_of(translator: Translator) -> tuple[str, str]:
    """Return a model's languages as tags of BCP 47, ``pt-BR`` for ``pt_BR``."""
    source, target = translator.languages
    return source.replace("_", "-"), target.replace("_", "-")


async def _fields(request: Request, most: int) -> Mapping[str, Any]:
    """Return the fields of a body in JSON or of a form."""
    body, stream = b"", request.stream()
    try:  # a client whose network is gone would keep the server from ending
        while (part := await asyncio.wait_for(anext(stream, None), STALLED)) is not None:
            body += part
            if len(body) > most:
                raise Refused(413, f"the request has over {most:,} bytes; send fewer texts")
    except asyncio.TimeoutError:
        raise Refused(408, "the rest of the request did not arrive; send it again") from None
    try:
        if request.headers.get("content-type", "").lower().startswith(FORM):
            form = parse_qs(body.decode(), keep_blank_values=True, errors="strict")
            if len(form.get("q", [])) > 1:
                raise Refused(400, "q: is given more than once; send a list in JSON")
            return {name: values[-1] for name, values in form.items()}
        fields = json.loads(body)
    except UnicodeDecodeError:
        raise Refused(400, "the request is not UTF-8; send the text in UTF-8") from None
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise Refused(400, 'the request is no JSON object; send {"q": ..., "source": ...}')
    return fields


async def _while_connected(
    request: Request, work: Coroutine[Any, Any, dict[str, Any]]
) -> dict[str, Any]:
    """Return the result of ``work``; cancel it and raise ClientDisconnect if the client is gone."""

    async def wait_for_end() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    result, end = asyncio.create_task(work), asyncio.create_task(wait_for_end())
    await asyncio.wait([result, end], return_when=asyncio.FIRST_COMPLETED)
    if not result.done():
        result.cancel()
        raise ClientDisconnect
    end.cancel()
    return result.result()


async def _translated(fields: Mapping[str, Any], models: Mapping[Any, Batches]) -> dict[str, Any]:
    query: Any = fields.get("q")
    several = isinstance(query, list)
    texts = query if several else [query]
    if not all(isinstance(text, str) for text in texts):
        raise Refused(400, "q: must be a text or a list of texts")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise Refused(400, "q: has half of a surrogate pair; send whole characters") from None
    if (kind := fields.get("format", "text")) != "text":
        raise Refused(400, f"format: {kind!r} is not supported; send text")
    model = models[_requested(fields, list(models))]
    wanted, most = fields.get("alternatives", 0), model.translator.generation.nbest - 1
    if str(wanted) not in map(str, range(most + 1)):
        raise Refused(400, f"alternatives: must be a number from 0 to {most}, the beam less one")
    lines = [_lines(text) for text in texts]  # each is translated by itself
    results = iter(await model.translate([line for some in lines for line in some]))
    answers = [_versions([next(results) for _ in some], 1 + int(wanted)) for some in lines]
    best, others = [best for best, *_ in answers], [others for _, *others in answers]
    answer: dict[str, Any] = {"translatedText": best if several else best[0]}
    if int(wanted):
        answer["alternatives"] = others if several else others[0]
    return answer


def _lines(text: str) -> list[str]:
    """Return the lines of a text, divided as a file's; no byte order mark."""
    text = text.replace("\r\n", "\n").removesuffix("\n").removeprefix("\ufeff")
    return text.split("\n")


def _versions(translations: Sequence[Translation], count: int) -> list[str]:
    """Return versions of a text from those of its lines, best first, without repetitions."""
    texts = [[hypothesis.text for hypothesis in line.hypotheses] or [""] for line in translations]
    ranks = range(min(count, max(map(len, texts))))
    joined = ("\n".join(some[min(rank, len(some) - 1)] for some in texts) for rank in ranks)
    return list(dict.fromkeys(joined))


def _requested(fields: Mapping[str, Any], pairs: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the pair of languages of a request; ``auto`` is the only source of the target."""
    left = pairs
    names = sorted(enumerate(("source", "target")), key=lambda item: fields.get(item[1]) == "auto")
    for number, name in names:
        value = fields.get(name)
        if not isinstance(value, str):
            raise Refused(400, f"{name}: must be a language code")
        known = sorted({pair[number] for pair in left})
        if name == "source" and value == "auto":
            if len(known) > 1:
                raise Refused(400, f"source: cannot be detected; choose from {', '.join(known)}")
            continue
        tags = _matching(value, known)
        if not tags:
            raise Refused(400, f"{name}: no model for {value!r}; choose from {', '.join(known)}")
        left = [pair for pair in left if pair[number] in tags]
    if len(left) > 1:
        fitting = ", ".join(" to ".join(pair) for pair in sorted(left))
        raise Refused(400, f"source, target: more than one model fits; choose from {fitting}")
    return left[0]


def _matching(value: str, known: list[str]) -> list[str]:
    """Return the tag that equals the value or its beginning, else all tags of its language."""
    tags = {file_code(tag).lower(): tag for tag in known}
    beginning = file_code(value).lower()
    while beginning and beginning not in tags:
        beginning = beginning.rpartition("_")[0]
    first, code = file_code(value).lower().partition("_")[0], code_of(value)
    if first in CHINESE and not beginning:
        return [tag for name, tag in tags.items() if name.startswith(f"{first}_")]
    tag = tags.get(beginning or code)
    return [tag] if tag else [tag for tag in known if code_of(tag) == code]


def _exposition(counts: Counter[str]) -> Iterable[str]:
    """Yield the metrics in Prometheus' text format."""
    for name, (kind, about) in METRICS.items():
        yield f"# HELP posattn_{name} {about}\n# TYPE posattn_{name} {kind}\n"
        keys = [key for key in sorted(counts) if key.partition("{")[0] == name] or [name]
        yield from (f"posattn_{key} {counts[key]}\n" for key in keys)
