// The page: from the address to what is shown, and back.

import * as api from "./api.js";
import { areas, inside, path, placeLink } from "./areas.js";
import { showChart } from "./chart.js";
import { Dataset } from "./dataset.js";
import { choice, el, fill } from "./dom.js";
import { showExplain } from "./explain.js";
import { closeMap, showMap } from "./map.js";
import { measuring } from "./measures.js";
import { showPicker } from "./picker.js";
import { Release } from "./release.js";
import { VIEWS, read, settle, write } from "./state.js";
import { showTable } from "./table.js";
import { followLink, fullPage, showTake } from "./take.js";
import { language, load, nameOf, words as wordsOf } from "./words.js";

const SHOW = { map: showMap, chart: showChart, table: showTable };
/** Nothing went wrong, but the reader has to choose something else: `offers` are [text, what to go to]. */
class Advice extends Error {
  constructor(text, offers = []) {
    super(text);
    this.offers = offers;
  }
}
const OFFERED = 80; // areas that are offered to look into
const NAMED = 6; // values of a sum that a title names
const STALE = Symbol("a newer view is on its way");
const at = (id) => document.getElementById(id);

let state = read(location);
// An address that was shared when one release was served alone names no release: the server knows which table it is.
const canonical = document.querySelector("link[rel=canonical]")?.href;
if (state.table && canonical) state.table = read(new URL(canonical)).table ?? state.table;
let turn = 0;
let words = wordsOf("en");

/** Change what is shown. Quietly: only the address follows, because the view has already changed itself. */
function go(changes, { quietly = false } = {}) {
  if (changes.fresh) state = { ...read({ hash: "" }), lang: state.lang, release: changes.release };
  else Object.assign(state, changes);
  if (changes.levels || changes.keys) Object.assign(state, { page: 1, sort: "", bars: "", colours: "", multiples: "", of: "-" });
  if (!quietly) return show({ push: true });
  history.replaceState(null, "", write(state, go.release));
  followLink();
  return undefined;
}

/** Show the state: everything is asked for again, and what was asked before is at hand. */
async function show({ push = false } = {}) {
  turn += 1;
  const mine = turn;
  const current = () => {
    if (mine !== turn) throw STALE;
  };
  const panel = at("panel");
  panel.setAttribute("aria-busy", "true");
  try {
    await load(state.lang ?? "en");
    const limits = await api.config();
    const offered = limits.languages.map(({ id }) => id);
    const lang = language(state.lang, offered, limits.defaultLanguage);
    await load(lang);
    current();
    words = wordsOf(lang);
    state.lang = lang;
    name(limits.languages);
    if (!panel.hasChildNodes()) tell(words.say("loading"));
    const { releases } = await api.releases(lang);
    current();
    if (!releases.length) throw new api.Problem(404, words.say("gone"));
    const holds = ({ tables }) => state.table && tables.some(({ id }) => id === state.table);
    let release = new Release(releases.find(({ id }) => id === state.release) ?? releases.find(holds) ?? releases[0]);
    if (state.wave && release.wave && release.wave !== state.wave) {
      // Shared when its release was served alone, and others came since.
      const other = releases.find(({ wave, population }) => wave === state.wave && population && population === release.population);
      const table = other && new Release(other).alike(release.named(state.table));
      if (table) [release, state.table] = [new Release(other), table.id];
    }
    state = settle(state, release);
    go.release = release;
    const address = write(state, release);
    if (push && address !== location.pathname + location.search + location.hash) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    const context = { state, release, releases, words, go, current, most: limits.maxDataCells ?? 100_000 };
    await view(context, panel);
    current();
    panel.setAttribute("aria-busy", "false");
    if (!performance.getEntriesByName("first-view").length) performance.mark("first-view");
    if (state.about) explain();
    state.about = false;
  } catch (problem) {
    if (problem === STALE) return;
    panel.setAttribute("aria-busy", "false");
    fail(problem);
  }
}

async function view(context, panel) {
  const { release, current } = context;
  const { say } = words;
  frame(context);
  const table = release.find(state.levels, state.keys);
  const variables = release.variables(state.levels, state.keys);
  context.entitle = (text) => {
    // No line ends inside a band, such as 71-75.
    fill(at("title"), text.split(/(\d+[-–]\d+)/).map((part, i) => (i % 2 ? el("span", { class: "band" }, part) : part)));
    document.title = `${text} – ${release.title}`;
  };
  context.entitle(measuring(context).title(variables, []));
  if (!table) {
    await showPicker(at("picker"), { ...context, meta: null });
    closeMap();
    at("crumbs").hidden = true;
    at("take").hidden = true;
    tell("");
    const button = { type: "button", onclick: () => go(release.beginning()) };
    const together = release.excluded(state.levels, state.keys);
    const why = together ? say("excluded", { list: words.listing(together) }) : say("notThere");
    fill(panel, el("div", { class: "empty" }, el("p", {}, why), el("button", button, say("notThereButton"))));
    return;
  }
  const parts = variables.map((one) => one.hierarchy && release.part(table, one, state.within[one.hierarchy])).filter(Boolean);
  const isPart = ({ code, hierarchy }) => parts.some((one) => one.code === code) || state.within[hierarchy] || state.only[code];
  const entire = variables.filter((one) => !isPart(one));
  const most = Math.max(0, ...entire.map(({ size }) => size));
  if (most > context.most) {
    await showPicker(at("picker"), { ...context, meta: null });
    throw await tooMany(most, context);
  }
  // The map's outlines do not depend on the answer, so they are asked for at once.
  for (const { hierarchy, geometry, code } of variables)
    if (state.view === "map" && hierarchy && geometry && state.pick[release.time] === undefined && !parts.some((one) => one.code === code)) api.geometry(release.id, code).catch(() => {});
  // So are the numbers of a whole table with one variable.
  const [only, ...others] = variables;
  if (only && !others.length && !state.within[only.hierarchy] && !state.only[only.code] && only.size <= context.most)
    if (state.measure === "count") api.data(table.id, [{ code: only.code, values: null }], words.lang).catch(() => {});
  let meta;
  try {
    meta = Dataset.of(await api.metadata(table.id, words.lang, parts));
    meta.parts = parts;
  } catch (problem) {
    await showPicker(at("picker"), { ...context, meta: null }); // another table may be well
    throw problem;
  }
  current();
  const selection = await choose(context, meta);
  current();
  const cells = meta.dimensions.reduce((product, { code }) => product * selection.codes(code).length, 1);
  const asking = questions({ ...context, table, meta, selection });
  const alone = meta.dimensions.filter(({ code, codes }) => code !== release.time && codes.length > 1 && selection.codes(code).length === 1);
  const named = Object.fromEntries(alone.map(({ code }) => [code, meta.dimension(code).name(selection.codes(code)[0])]));
  const times = release.time ? selection.codes(release.time) : [];
  const chosen = { ...context, selection };
  const one = measuring(chosen, { named, times: release.time ? compared(meta.dimension(release.time), times) : [] });
  const whole = { ...chosen, ...asking, table, meta, cells, tell, fail, measure: one, up: (name) => up(context, name) };
  if (state.view === "table") nameTimes(times);
  showTake(at("take"), whole);
  if (state.view !== "map") closeMap();
  await Promise.all([SHOW[state.view](panel, whole), showPicker(at("picker"), whole), crumbs(context)]);
  current();
  showTake(at("take"), whole); // once more: the citation has the title that the view found
}

/** Let the address name the times of a view that shows several, so that it shows no others later. */
function nameTimes(times) {
  go({ times: times.length > 1 ? times : null }, { quietly: true });
}

/** The names of the times that a change compares: several that are shown, or a single one and the time before it. */
function compared(time, codes) {
  return (codes.length > 1 ? codes : withBefore(time, codes[0])).map((code) => time.name(code));
}

/** A time with the one before it, if there is one. */
function withBefore(time, code) {
  const at = time.codes.indexOf(code);
  return time.codes.slice(Math.max(0, at - 1), at + 1);
}

/** Which codes of each variable are meant: those inside the chosen area, then those that were ticked. */
async function choose({ release }, meta) {
  const offered = new Map();
  const around = new Map(); // the names of the chosen areas
  for (const dimension of meta.dimensions) {
    const within = dimension.hierarchy && state.within[dimension.hierarchy];
    const isPart = meta.parts.some(({ code }) => code === dimension.code);
    offered.set(dimension.code, within && !isPart ? await inside(release, dimension, within, words.lang) : dimension.codes);
    const above = within && (await areas(release, dimension.hierarchy, within.level, words.lang));
    if (within) around.set(dimension.code, above?.name(within.code) ?? within.code);
  }
  const codes = (code) => {
    const ticked = new Set(state.only[code] ?? []);
    const some = offered.get(code).filter((one) => ticked.has(one));
    return some.length ? some : offered.get(code);
  };
  const isWhole = (code) => codes(code).length === offered.get(code).length;
  const isAll = (code) => codes(code).length === meta.dimension(code).codes.length;
  // An address names the times that it shows. Where these are all, none is left out; what is asked for names them, too.
  if (release.time && isAll(release.time)) delete state.only[release.time];
  const asked = (code) => (isAll(code) && code !== release.time ? null : codes(code));
  const list = () => meta.dimensions.map(({ code }) => ({ code, values: asked(code), inside: partOf(meta, code) }));
  return { offered, around, codes, isWhole, asked, list };
}

const partOf = (meta, name) => meta.parts.find(({ code }) => code === name);

/**
 * How a view gets its numbers. A variable that a view leaves out is set to one value, to the published total, or to the sum
 * of the values that were chosen.
 */
function questions({ release, table, meta, selection, most, current }) {
  const { say } = words;
  async function values(from, list, measure) {
    const sizes = list.map(({ code, values: some }) => some?.length ?? meta.dimension(code).codes.length);
    const n = sizes.reduce((product, size) => product * size, 1);
    if (n > most) throw await tooMany(n, { release, most, current });
    const found = Dataset.of(await api.data(from.id, list, words.lang, measure));
    current();
    return found;
  }
  // What did not exist adds nothing to a sum of all that lies in an area. A sum of some values has no number without one of them.
  const isNothing = (codes) => {
    const gone = meta.gone(codes, codes[release.time]);
    return gone.length > 0 && gone.every((code) => shown.summed.includes(code) && selection.isWhole(code));
  };
  const isEvery = (code) => selection.asked(code) === null && !partOf(meta, code);
  const shown = { summed: [] }; // what was asked for and what a view shows of it, for its files
  /** The numbers of a view in the measure that is chosen; those of the others than `free` as they are picked. */
  async function ask(free, picked, measure) {
    const summed = Object.keys(picked).filter((code) => picked[code] === "" && !isEvery(code));
    const all = meta.dimensions.map(({ code }) => code);
    const kept = all.filter((code) => picked[code] !== "" || summed.includes(code));
    const question = (codes, times) => {
      const from = codes.length < all.length ? release.without(state.levels, state.keys, all.filter((code) => !codes.includes(code))) : table;
      if (!from) throw new Advice(say("notThere"));
      const chosen = (code) => (free.includes(code) || summed.includes(code) ? selection.asked(code) : [picked[code]]);
      const wanted = (code) => (code === release.time && times ? times : chosen(code));
      return { from, list: codes.map((code) => ({ code, values: wanted(code), inside: partOf(meta, code) })) };
    };
    shown.summed = summed;
    const counts = async (codes, how, times) => {
      const { from, list } = question(codes, times);
      return (await values(from, list, how)).added(summed, isNothing);
    };
    const isSum = summed.length > 0;
    // The change of a sum is the difference of two sums.
    const changes = async () => {
      const time = meta.dimension(release.time);
      const times = free.includes(time.code) ? selection.codes(time.code) : [picked[time.code]];
      return (await counts(kept, undefined, times.length > 1 ? times : withBefore(time, times[0]))).changes(time.code, times);
    };
    const base = measure.of && kept.filter((code) => measure.of.includes(code) || code === release.time);
    const everywhere = (codes) => counts(codes.filter((code) => !meta.dimension(code).hierarchy));
    const isIndex = measure.name === "index";
    const [found, whole, ...shares] = await Promise.all([
      isSum && measure.name === "change" ? changes() : counts(kept, isSum && measure.factor ? undefined : measure),
      base && counts(base),
      ...(isIndex ? [everywhere(kept), everywhere(base)] : []),
    ]);
    const set = isSum && measure.factor ? found.over(whole, measure.factor) : found;
    const average = isIndex ? shares[0].over(shares[1], 1) : null;
    const added = summed.reduce((n, code) => n * selection.codes(code).length, 1);
    Object.assign(shown, { ...question(kept), measure, set, whole, average, added });
    return set;
  }
  function picks(free, totals = false) {
    const others = meta.dimensions.filter(({ code }) => !free.includes(code));
    const found = { values: {}, controls: [], said: [], dropped: [], summed: [], named: {}, times: [] };
    if (free.includes(release.time)) found.times = compared(meta.dimension(release.time), selection.codes(release.time));
    nameTimes(free.includes(release.time) ? selection.codes(release.time) : []);
    const size = (codes) => codes.reduce((product, code) => product * selection.codes(code).length, 1);
    for (const { code, label, ...dimension } of others) {
      const { dropped } = found;
      // The total of all values is published. That of the values that were chosen is their sum, where tables add up.
      const offered = selection.codes(code);
      const several = !isEvery(code) && code !== release.time && offered.length > 1;
      const isSum = several && release.additive && size([...free, ...found.summed, code]) <= most;
      const hasTotal = isSum || (isEvery(code) && Boolean(release.without(state.levels, state.keys, [...dropped, code])));
      let value = state.pick[code];
      const known = value === "" ? hasTotal : offered.includes(value);
      // With several variables a first value of each would often be a combination that nobody has.
      const isOne = Object.keys(found.named).some((one) => !found.summed.includes(one));
      if (!known) value = isSum || ((totals || isOne) && hasTotal) ? "" : code === release.time ? offered.at(-1) : offered[0];
      found.values[code] = value;
      const [k, n] = [offered.length, dimension.codes.length].map((one) => words.number(one));
      const isArea = selection.around.has(code) && selection.isWhole(code);
      const sum = () => (isArea ? selection.around.get(code) : offered.length <= NAMED ? offered.map((one) => meta.dimension(code).name(one)).join(" + ") : `${label} (${say("someOf", { k, n })})`);
      if (value !== "") found.said.push(meta.dimension(code).name(value));
      else if (isSum) found.said.push((found.named[code] = sum()));
      if (value === "") found[isSum ? "summed" : "dropped"].push(code);
      if (value !== "" && code !== release.time) found.named[code] = meta.dimension(code).name(value);
      if (code === release.time) {
        found.times = compared(meta.dimension(code), [value]);
        if (value !== state.pick[code]) go({ pick: { ...state.pick, [code]: value } }, { quietly: true });
        found.controls.push(slider(code, label, offered, value));
        continue;
      }
      const labels = new Map(dimension.codes.map((one, i) => [one, dimension.labels[i]]));
      const options = [...(hasTotal ? [["", isSum ? say("together", { n: words.number(offered.length) }) : say("total")]] : []), ...offered.map((one) => [one, labels.get(one)])];
      found.controls.push(
        choice(`pick-${code}`, label, options, value, (one) => go({ pick: { ...state.pick, [code]: one } })),
      );
    }
    return found;
  }
  /** A slider over the times, which says where it stands. */
  function slider(code, label, offered, value) {
    const name = (one) => meta.dimension(code).name(one);
    const said = el("output", { for: "time" }, name(value));
    const input = el("input", {
      type: "range",
      id: "time",
      min: "0",
      max: String(offered.length - 1),
      step: "1",
      value: String(offered.indexOf(value)),
      "aria-valuetext": name(value),
      oninput: () => (said.textContent = name(offered[Number(input.value)])),
      onchange: () => go({ pick: { ...state.pick, [code]: offered[Number(input.value)] } }),
    });
    return el("label", { class: "field slider", for: "time" }, el("span", {}, label), el("span", { class: "slide" }, input, said));
  }
  return { values, ask, picks, shown };
}

/** More numbers than one answer holds: what to do, with the areas of a coarser level to look into. */
async function tooMany(n, { release, most, current }) {
  const text = words.say("tooMany", { n: words.number(n), most: words.number(most) });
  for (const { name, levels } of release.hierarchies) {
    const [number, within] = [state.levels[name], state.within[name]];
    const size = (one) => levels[one - 1].size;
    const known = Array.from({ length: Math.max(0, number - 1) }, (_, i) => i + 1).filter((one) => size(one) > 1);
    const level = known.findLast((one) => size(one) <= OFFERED) ?? known[0];
    if (!level || within || size(level) > OFFERED) continue;
    const found = await areas(release, name, level, words.lang);
    current();
    if (found) return new Advice(text, found.codes.map((code, i) => [found.labels[i], { within: { ...state.within, [name]: { level, code } } }]));
  }
  return new Advice(text);
}

/** One step back up: to the level above, inside the area above. */
async function up({ release }, name) {
  const within = state.within[name];
  const { [name]: _, ...others } = state.within;
  const number = state.levels[name] - 1;
  if (number < 1 || !release.find({ ...state.levels, [name]: number }, state.keys)) return;
  let above = within;
  if (within && within.level >= number) above = (await path(release, name, within, words.lang)).at(-2);
  const inner = above && { level: above.level, code: above.code };
  go({ levels: { ...state.levels, [name]: number }, within: inner ? { ...others, [name]: inner } : others });
}

async function crumbs({ release, current }) {
  const { say } = words;
  const lists = [];
  for (const [name, within] of Object.entries(state.within)) {
    const { [name]: _, ...others } = state.within;
    const steps = [{ level: 0, label: say("everywhere") }, ...(await path(release, name, within, words.lang))];
    const to = ({ level, code }) => {
      const levels = { ...state.levels, [name]: level + 1 };
      const there = release.find(levels, state.keys) ? levels : state.levels;
      go({ levels: there, within: level ? { ...others, [name]: { level, code } } : others });
    };
    lists.push(
      el("ol", {}, steps.map((step, i) => {
        const last = i === steps.length - 1;
        if (last) return el("li", {}, el("span", { "aria-current": "location" }, step.label));
        return el("li", {}, el("button", { type: "button", class: "text", id: `crumb-${name}-${i}`, onclick: () => to(step) }, step.label));
      })),
    );
  }
  current();
  const nav = at("crumbs");
  nav.setAttribute("aria-label", say("crumbs"));
  const about = await aboutPlace(release);
  current();
  nav.hidden = !lists.length && !about;
  fill(nav, lists, about);
}

/** A link to the page of the place that was found or gone into. */
async function aboutPlace(release) {
  for (const { name } of release.hierarchies) {
    const within = state.within[name];
    const number = state.levels[name];
    const found = state.place && number ? { level: number, code: state.place } : within;
    if (!found) continue;
    const known = (await areas(release, name, found.level, words.lang)) ?? { place: new Map() };
    if (!known.place.has(found.code) || known.missing.has(found.code)) continue;
    return placeLink({ state, release, words }, release.level(name, found.level).code, found.code, known.name(found.code), "place-page");
  }
  return null;
}

/** What stands around the view: tabs, the note about masking, the source. */
function frame({ release }) {
  const { say } = words;
  at("mark").textContent = release.title;
  for (const one of VIEWS) {
    at(`tab-${one}`).setAttribute("aria-selected", String(one === state.view));
    at(`tab-${one}`).tabIndex = one === state.view ? 0 : -1;
  }
  at("panel").setAttribute("aria-labelledby", `tab-${state.view}`);
  const why = el("button", { type: "button", class: "text", id: "why", onclick: explain }, say("why"));
  fill(at("note"), `${release.note(words)} `, why);
  const date = words.date(release.created);
  fill(
    at("foot"),
    el("p", { class: "full-page" }, el("a", { href: fullPage(), target: "_blank", rel: "noopener" }, say("fullPage"))),
    release.description ? el("p", {}, release.description) : null,
    release.source ? el("p", {}, say("source", { source: release.source })) : null,
    release.licence ? el("p", {}, licence(release.licence)) : null,
    date ? el("p", {}, say("made", { date })) : null,
  );
  showExplain(at("explain"), { release, words });
}

/** The licence in a sentence; one that is an address is a link. */
function licence(text) {
  if (!/^https?:\/\/\S+$/.test(text)) return words.say("licence", { licence: text });
  const [before, after] = words.say("licence", { licence: "\u0000" }).split("\u0000");
  return [before, el("a", { href: text, rel: "license" }, text), after];
}

/** The words that are in the page before anything is loaded. */
function name(offered) {
  document.documentElement.lang = words.spoken;
  document.documentElement.dir = words.direction;
  const options = offered.map(({ id, label }) => el("option", { value: id, lang: id, selected: id === words.lang }, label === id ? nameOf(id) : label));
  fill(at("lang"), options);
  for (const one of document.querySelectorAll("[data-word]")) one.textContent = words.say(one.dataset.word);
}

function tell(text) {
  at("summary").textContent = text;
}

function fail(problem) {
  if (problem instanceof Advice) {
    closeMap();
    tell("");
    const offers = problem.offers.map(([text, to]) => el("li", {}, el("button", { type: "button", onclick: () => go(to) }, text)));
    const list = offers.length ? el("ul", { class: "offers", "aria-label": words.say("within") }, offers) : null;
    fill(at("panel"), el("div", { class: "empty" }, el("p", { role: "alert" }, problem.message), list));
    return;
  }
  if (!(problem instanceof api.Problem)) console.error(problem);
  closeMap();
  tell("");
  const offline = problem.status === 0;
  const text = offline ? words.say("offline") : problem.message;
  fill(
    at("panel"),
    el(
      "div",
      { class: "problem", role: "alert" },
      el("h2", {}, words.say("failed")),
      el("p", {}, text),
      problem.detail ? el("p", {}, problem.detail) : null,
      el("button", { type: "button", id: "again", onclick: () => show() }, words.say("again")),
    ),
  );
}

function explain() {
  at("explain").showModal();
  at("explain-name").focus();
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function theme() {
  at("theme").setAttribute("aria-pressed", String(isDark()));
}

at("theme").addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("theme", next);
  } catch {
    // Storage may be off; the choice then lasts as long as the page.
  }
  theme();
  document.dispatchEvent(new Event("themechange"));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", theme);
theme();

at("lang").addEventListener("change", ({ target }) => go({ lang: target.value }));
at("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address describes the view and stays
  at("content").focus();
});
at("open-explain").addEventListener("click", explain);
at("picker-toggle").addEventListener("click", ({ currentTarget }) => {
  const open = currentTarget.getAttribute("aria-expanded") !== "true";
  currentTarget.setAttribute("aria-expanded", String(open));
});
for (const one of VIEWS) {
  at(`tab-${one}`).addEventListener("click", () => go({ view: one }));
  at(`tab-${one}`).addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = event.key === "Home" ? VIEWS[0] : event.key === "End" ? VIEWS.at(-1) : by && VIEWS.at((VIEWS.indexOf(one) + by) % VIEWS.length);
    if (!next) return;
    event.preventDefault();
    at(`tab-${next}`).focus();
    go({ view: next });
  });
}
window.addEventListener("popstate", () => {
  state = read(location);
  show();
});
show();
