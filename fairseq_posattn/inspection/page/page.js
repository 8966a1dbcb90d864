"use strict";

// The data: see view.py. Weights are whole thousandths.
const data = JSON.parse(document.getElementById("data").textContent);
const MEAN = -1; // of all heads
const STRONGEST = 8;
const MOST_SENTENCES = 50; // of those typed

// The choices, counted from 0; `pointed` is the word under the pointer.
const state = { sentence: 0, layer: 0, head: MEAN, word: 0, pointed: null };

const $ = (id) => document.getElementById(id);

/* Texts are set as text, never as HTML. */
const builder = (create) => (name, attributes = {}, ...content) => {
  const made = create(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...content);
  return made;
};
const element = builder((name) => document.createElement(name));
const drawing = builder((name) => document.createElementNS("http://www.w3.org/2000/svg", name));

const layer = () => data.model.layers[state.layer];
const sentence = () => data.sentences[state.sentence];
const attention = () => sentence().attention[state.layer];
const rows = () => sentence().rows;
const language = (row) => data.model.languages?.[row] ?? "";
const query = () => (state.pointed === null ? state.word : state.pointed);

/* One head or the mean of all: a row for each query, or one row if words are pooled. */
function ofHead(heads, head) {
  if (head !== MEAN) return heads[head];
  const mean = (lists) => lists[0].map((_, at) => lists.reduce((sum, list) => sum + list[at], 0) / lists.length);
  if (!Array.isArray(heads[0][0])) return mean(heads);
  return heads[0].map((_, row) => mean(heads.map((lines) => lines[row])));
}

/* The chosen query's weight of each key, in thousandths. */
const weights = () =>
  ofHead(attention().weights.map((lines) => (layer().query ? lines[query()] : lines)), state.head);

/* Colors grow with the root: heads that look everywhere have small weights. */
const depth = (weight) => Math.sqrt(Math.min(Math.max(weight / 1000, 0), 1)).toFixed(3);

/* Points [distance of the key from the query, value] of the mechanism's positional part. */
function plotPoints() {
  const { factors, terms } = attention();
  if (factors) return ofHead(factors, state.head)[query()].map((factor, key) => [key - query(), factor / 1000]);
  const { lines, sigmoid } = layer().plot ?? { lines: [] };
  if (!lines.length || (state.head === MEAN && lines.length > 1)) return [];
  const line = lines[Math.max(Math.min(state.head, lines.length - 1), 0)];
  const value = (number) => (sigmoid ? 1 / (1 + Math.exp(-number - terms[query()])) : number);
  const points = line.map((number, at) => [at - (line.length - 1) / 2, number]);
  return points.filter(([, number]) => number !== null).map(([at, number]) => [at, value(number)]);
}

function set(choices) {
  Object.assign(state, choices);
  show();
}

/* A row of radio buttons; `options` are [value, ...label]. */
function choose(id, title, options, chosen, change) {
  const field = $(id);
  field.hidden = options.length < 2;
  const labels = options.map(([value, ...label]) => {
    const input = element("input", { type: "radio", name: id, value });
    input.checked = value === chosen;
    input.addEventListener("change", () => change(value));
    return element("label", {}, input, ...label);
  });
  // The focus stays when all are rebuilt.
  const hadFocus = field.contains(document.activeElement);
  field.replaceChildren(element("legend", {}, title), ...labels);
  if (hadFocus) field.querySelector("input:checked")?.focus();
}

const hasAll = (wanted) => (item) => Object.keys(wanted).every((key) => item[key] === wanted[key]);

/* Go to the attention layer with these properties that is most like the present layer. */
function goTo(wanted) {
  const now = { ...layer(), ...wanted };
  const likeness = (item) => 4 * (item.part === now.part) + 2 * (item.layer === now.layer) + (item.name === now.name);
  const degrees = data.model.layers.map((item) => hasAll(wanted)(item) * (1 + likeness(item)));
  set({ layer: degrees.indexOf(Math.max(...degrees)) });
}

function showChoices() {
  const here = layer();
  const fixed = {}; // a layer is chosen within a part, a sublayer within both
  for (const [id, title] of [["part", "Part"], ["layer", "Layer"], ["name", "Sublayer"]]) {
    const within = { ...fixed };
    const values = [...new Set(data.model.layers.filter(hasAll(within)).map((item) => item[id]))];
    const options = values.map((value) => [value, `${value}`]);
    choose(id, title, options, here[id], (value) => goTo({ ...within, [id]: value }));
    fixed[id] = here[id];
  }
  const heads = [...(here.heads.length > 1 ? [MEAN] : []), ...here.heads.keys()];
  const label = (head) => {
    const note = here.heads[head];
    const name = head === MEAN ? "mean" : `${head + 1}`;
    return [head, thumbnail(head), name, ...(note ? [element("small", {}, note)] : [])];
  };
  choose("head", "Head", heads.map(label), state.head, (head) => set({ head }));
  const option = ({ text }, index) => element("option", { value: index }, `${index + 1}. ${text}`);
  $("sentence").replaceChildren(...data.sentences.map(option));
  $("sentence").value = state.sentence;
  $("sentences").hidden = data.sentences.length < 2;
}

/* A head's weights as a picture: a row for each query, a column for each key. */
function thumbnail(head) {
  const weights = ofHead(attention().weights, head);
  const lines = layer().query ? weights : [weights];
  const canvas = element("canvas", { width: lines[0].length, height: lines.length, "aria-hidden": "true" });
  const pen = canvas.getContext("2d");
  const color = getComputedStyle(document.documentElement).getPropertyValue("--bright").trim();
  for (const [y, line] of lines.entries()) {
    for (const [x, weight] of line.entries()) {
      pen.fillStyle = `rgb(${color} / ${depth(weight)})`;
      pen.fillRect(x, y, 1, 1);
    }
  }
  return canvas;
}

const TITLES = {
  source: "Source",
  words: "Sentence",
  target: "Output (queries)",
  written: "Output so far (keys)",
  first: "First sentence",
  second: "Second sentence",
};

/* The direction of a row is its text's: "(start)" and "<unk>" have Latin letters. */
function isRightToLeft(name) {
  const { text, outcome } = sentence();
  const whole = { target: outcome.text, written: outcome.text, second: text.split("\t")[1] }[name] ?? text;
  return element("p", { dir: "auto" }, whole).matches(":dir(rtl)");
}

/* A subword, with its joining marks in a fainter tone. */
function subword(word) {
  const [, before, text, after] = /^(▁|##)?(.*?)(@@)?$/su.exec(word);
  const sign = (mark) => (mark ? [element("span", { class: "sign" }, mark)] : []);
  return element("span", { class: "text", dir: "auto" }, ...sign(before), text, ...sign(after));
}

function rowOf(name, points) {
  const words = rows()[name];
  const made = words.map((word, index) => {
    const content = [subword(word), element("span", { class: "number", "aria-hidden": "true" })];
    if (!points) return element("span", { class: "word" }, ...content);
    const button = element("button", { class: "word", type: "button" }, ...content);
    button.addEventListener("pointerenter", () => point(index));
    button.addEventListener("focus", () => pin(index));
    button.addEventListener("click", () => pin(index));
    return button;
  });
  const dir = isRightToLeft(name) ? "rtl" : "ltr";
  const line = element("div", { class: "words", id: `row-${name}`, dir, lang: language(name) }, ...made);
  if (points) {
    line.addEventListener("pointerleave", () => point(null));
    line.addEventListener("keydown", (event) => move(event, made, dir === "rtl"));
  }
  const kind = name === layer().key ? "row keys" : "row";
  return element("div", { class: kind }, element("h2", {}, TITLES[name]), line);
}

function showWords() {
  const here = layer();
  state.word = Math.min(state.word, here.query ? rows()[here.query].length - 1 : 0);
  const queries = here.query && here.query !== here.key ? [rowOf(here.query, true)] : [];
  $("words").replaceChildren(...queries, rowOf(here.key, here.query === here.key));
  $("note").textContent = here.note;
}

function point(index) {
  state.pointed = index;
  showAttention();
}

function pin(index) {
  state.word = index;
  point(null);
  remember();
}

function move(event, words, rightToLeft) {
  const step = rightToLeft ? -1 : 1;
  const keys = { ArrowRight: state.word + step, ArrowLeft: state.word - step, Home: 0, End: words.length - 1 };
  const to = keys[event.key];
  if (to === undefined || !words[to]) return;
  event.preventDefault();
  words[to].focus();
}

function showAttention() {
  const here = layer();
  const values = weights();
  if (here.query) {
    [...$(`row-${here.query}`).children].forEach((word, index) => {
      word.classList.toggle("chosen", index === query());
      word.tabIndex = index === state.word ? 0 : -1;
      word.setAttribute("aria-pressed", index === state.word);
    });
  }
  [...$(`row-${here.key}`).children].forEach((word, index) => {
    word.style.setProperty("--share", depth(values[index]));
    const percent = Math.round(values[index] / 10);
    word.querySelector(".number").textContent = percent ? `${percent}` : "";
  });
  showStrongest(values);
  showPlot();
}

/* A bar for each [name, value]; `most` has full length. */
function bars(shown, most = Math.max(...shown.map(([, value]) => value), 1e-9)) {
  const list = element("dl", { class: "bars" });
  for (const [word, value] of shown) {
    const bar = element("span", { class: "bar" });
    bar.style.setProperty("--share", Math.max(value, 0) / most);
    list.append(
      element("dt", { dir: "auto", title: word }, subword(word)),
      element("dd", {}, element("span", {}, bar), value.toFixed(3)),
    );
  }
  return list;
}

/* The largest values and their words. */
function greatest(words, values) {
  return words
    .map((word, index) => [word, values[index]])
    .filter(([, value]) => value !== 0)
    .sort((first, second) => second[1] - first[1])
    .slice(0, STRONGEST);
}

function showStrongest(values) {
  const here = layer();
  const word = here.query && element("bdi", { lang: language(here.query) }, subword(rows()[here.query][query()]));
  const title = here.query ? ["Largest weights of ", word] : ["Largest pooling weights"];
  const list = bars(greatest(rows()[here.key], values.map((weight) => weight / 1000)));
  list.lang = language(here.key);
  $("strongest").replaceChildren(element("h2", {}, ...title), list);
}

function showPlot() {
  const { plot, key } = layer();
  const shown = [];
  const points = plotPoints();
  if (plot) {
    const about = [plot.parameters?.[state.head], plot.about].filter(Boolean).join("; ");
    shown.push(element("h2", {}, plot.title), ...(points.length ? [curve(points)] : []));
    const text = points.length ? about : "It differs between heads: choose a head.";
    shown.push(element("p", { class: "about" }, text));
  }
  if (attention().words) {
    const weights = ofHead(attention().words, state.head).map((weight) => weight / 1000);
    const title = element("h2", {}, "source2token, mean over the features");
    shown.push(title, bars(greatest(rows()[key], weights)));
  }
  $("plot").replaceChildren(...shown);
}

/* A curve of values by distance, with dots at the words of the sentence; its frame is in page.html. */
function curve(points) {
  const svg = $("curve").content.firstElementChild.cloneNode(true);
  const furthest = Math.max(...points.map(([at]) => Math.abs(at)), 1);
  const top = Math.max(...points.map(([, value]) => value), 0.001);
  const x = (at) => 163 + (131 * at) / furthest;
  const y = (value) => 106 - (96 * value) / top;
  const line = points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  svg.querySelector("polyline").setAttribute("points", line.join(" "));
  const keys = rows()[layer().key].length;
  const near = points.filter(([at]) => query() + at >= 0 && query() + at < keys);
  svg.append(...near.map(([at, value]) => drawing("circle", { cx: x(at), cy: y(value), r: 2.5 })));
  const labels = [top.toPrecision(2), `${furthest} before`, `${furthest} after`];
  labels.forEach((label, at) => svg.querySelectorAll(".label")[at].append(label));
  return svg;
}

function showOutcome() {
  const { text, outcome, notice } = sentence();
  const shown = notice ? [element("p", { class: "about" }, notice)] : [];
  shown.push(...text.split("\t").map((part) => element("p", { dir: "auto", lang: language("source") }, part)));
  if (outcome.text !== undefined) {
    const end = outcome.longest ? "of the maximum length, maybe cut, " : "";
    const written = `The model's output, ${end}mean log2-probability ${outcome.score}`;
    const title = outcome.given ? "The given translation" : written;
    const attributes = { class: "said", dir: "auto", lang: language("target") };
    shown.push(element("h2", {}, title), element("p", attributes, outcome.text));
  } else {
    const said = outcome.label ?? `${outcome.score}`;
    shown.push(element("h2", {}, "Predicted"), element("p", { class: "said" }, said));
    shown.push(bars(greatest(Object.keys(outcome.probabilities), Object.values(outcome.probabilities)), 1));
  }
  $("outcome").replaceChildren(...shown);
}

function show() {
  const { checkpoint, about, layers } = data.model;
  $("model").textContent = `${checkpoint}: ${about}`;
  $("main").hidden = !data.sentences.length;
  if (!data.sentences.length) return;
  const heads = layers[state.layer].heads.length;
  if (heads === 1 || state.head >= heads) state.head = heads === 1 ? 0 : MEAN;
  state.pointed = null;
  showChoices();
  showOutcome();
  showWords();
  showAttention();
  remember();
}

/* The address holds the choices, counted from 1. */
function remember() {
  const { sentence, layer, word } = state;
  const head = state.head === MEAN ? "mean" : state.head + 1;
  const chosen = { sentence: sentence + 1, place: layer + 1, head, word: word + 1 };
  history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
}

function recall() {
  const chosen = new URLSearchParams(location.hash.slice(1));
  const number = (name, most) => {
    const value = Number(chosen.get(name)) - 1;
    return [...Array(most).keys()].includes(value) ? value : 0;
  };
  if (!data.sentences.length) return;
  state.sentence = number("sentence", data.sentences.length);
  state.layer = number("place", data.model.layers.length);
  state.head = Number(chosen.get("head")) ? number("head", layer().heads.length) : MEAN;
  state.word = number("word", layer().query ? rows()[layer().query].length : 1);
}

async function ask(event) {
  event.preventDefault();
  const text = $("typed").value;
  $("answer").textContent = "Computing …";
  try {
    const body = JSON.stringify({ text });
    const headers = { "Content-Type": "application/json" };
    const response = await fetch("look", { method: "POST", headers, body });
    const answer = await response.json();
    $("answer").textContent = answer.error || "";
    if (answer.error) return;
    data.model = answer.model;
    data.sentences = [...data.sentences, answer.sentence].slice(-MOST_SENTENCES);
    set({ sentence: data.sentences.length - 1, word: 0 });
  } catch {
    $("answer").textContent = "The server does not answer; it has been stopped.";
  }
}

$("sentence").addEventListener("change", ({ target }) => set({ sentence: Number(target.value), word: 0 }));
$("ask").hidden = !data.asks;
$("prompt").textContent = data.asks;
$("ask").addEventListener("submit", ask);
addEventListener("hashchange", () => {
  recall();
  show();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
recall();
show();
