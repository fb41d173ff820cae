// Bars with their numbers beside them. They are a list of words and numbers, so that a screen reader reads what is seen.

import { choice, el, fill } from "./dom.js";
import { absence, measuring } from "./measures.js";
import { PALETTES } from "./classes.js";
import { first, isClose, reach } from "./ranks.js";
import { capital } from "./words.js";
import { barDrawing, lineDrawing, picture as pictureOf, pictureButtons, pyramidDrawing, sharesOf } from "./picture.js";

const COLOURS = 8; // series that can be told apart by colour; more become panels
const PANELS = 30; // small charts beside each other
const FIRST = 40;
const MORE = 200;

const SEX = /^(sex|gender|sexe|sexo|genre|género|genero|성별|geschlecht)/i;
const AGE = /^(age|âge|edad|연령|나이|alter)/i;
const named = (pattern) => ({ code, label }) => pattern.test(code) || pattern.test(label);

export async function showChart(place, context) {
  const { state, release, meta, selection, words, ask, picks, go, tell, entitle } = context;
  const { say } = words;
  const size = ({ code }) => selection.codes(code).length;
  const by = (code) => meta.dimension(code);
  const dimensions = meta.dimensions;
  const time = dimensions.find(({ code }) => code === release.time);
  const sex = dimensions.find((one) => named(SEX)(one) && size(one) === 2);
  const age = dimensions.find((one) => named(AGE)(one) && size(one) > 2);
  const kinds = ["bars"];
  if (sex && age && !(time && state.measure === "change")) kinds.push("pyramid"); // both its sides are taken
  if (time && size(time) > 1) kinds.push("lines");
  const wanted = kinds.includes(state.kind) ? state.kind : kinds.includes("pyramid") && !areaBars() ? "pyramid" : "bars";
  const bars = wanted === "pyramid" ? age : wanted === "lines" ? time : (by(state.bars) ?? usualBars());
  const rest = dimensions.filter((one) => one !== bars && (wanted !== "bars" || one !== time));
  const colours =
    wanted === "pyramid"
      ? sex
      : state.colours === "none"
        ? undefined
        : (rest.find(({ code }) => code === state.colours) ?? usualColours());
  const others = dimensions.filter((one) => one !== bars && one !== colours && size(one) > 1 && size(one) <= PANELS);
  const multiples = others.find(({ code }) => code === state.multiples);
  const free = [bars, colours, multiples].filter(Boolean);
  const fixed = picks(free.map(({ code }) => code), true);
  const measure = measuring(context, fixed);
  const title = measure.title(free, fixed.said);
  entitle(title);
  const set = await ask(free.map(({ code }) => code), fixed.values, measure);
  measure.fit(set.value);

  // Stacking shows a sum. Where tables do not add up, that sum was never published.
  const isCount = measure.name === "count";
  const canStack = wanted === "bars" && Boolean(colours) && release.additive && isCount && size(colours) <= COLOURS;
  const layouts = canStack ? ["grouped", "stacked", "shares"] : ["grouped"];
  const layout = layouts.includes(state.layout) ? state.layout : "grouped";
  const stacked = layout !== "grouped";
  const absent = absence(context, measure, set, stacked ? [colours.code] : []);
  const why = (codes) => absent({ ...codes, ...fixed.values });
  // Bars are sorted by size; what has an order of its own, ages and bands, keeps it.
  const order = state.order || (inOrder(bars) ? "listed" : "largest");
  const names = (list) => list.map(({ code, label }) => [code, label]);
  const picture = () => {
    const told = { title, release, words, measure, set, why, bars, colours, codes: ordered.slice(0, shown), layout, host: body };
    Object.assign(told, { ones: apart, partial: partial() });
    if (multiples) Object.assign(told, { most, least });
    const drawing = { pyramid: pyramidDrawing, lines: lineDrawing, bars: barDrawing }[wanted];
    return pictureOf(told, drawing, multiples && panelsOf.map((one) => [multiples.name(one), { [multiples.code]: one }]));
  };
  const tools = el("div", { class: "bar-tools" }, [
    kinds.length > 1 ? choice("kind", say("kind"), kinds.map((one) => [one, say(`kind_${one}`)]), wanted, (kind) => go({ kind })) : null,
    wanted === "bars" && dimensions.length > 1
      ? choice("bars", say("bars"), names(dimensions), bars.code, (code) =>
          go({ bars: code, colours: code === colours?.code ? bars.code : state.colours }))
      : null,
    wanted !== "pyramid" && rest.length
      ? choice("colours", say("colours"), [["none", say("none")], ...names(rest)], colours?.code ?? "none", (code) =>
          go({ colours: code }))
      : null,
    ...fixed.controls,
    ...measure.controls,
    canStack ? choice("layout", say("layout"), layouts.map((one) => [one, say(one)]), layout, (one) => go({ layout: one })) : null,
    wanted === "bars" && bars
      ? choice("order", say("order"), [["listed", say("listed")], ["largest", say("largest")]], order, (one) => go({ order: one }))
      : null,
    others.length
      ? choice("multiples", say("multiples"), [["", say("none")], ...names(others)], multiples?.code ?? "", (code) => go({ multiples: code }))
      : null,
    colours || wanted !== "bars"
      ? choice("palette", say("inks"), PALETTES.map((one) => [one, say(`palette_${one}`)]), state.palette, (palette) => go({ palette }))
      : null,
    bars ? pictureButtons(words, picture) : null,
  ]);
  const body = el("div", { class: "chart", "data-palette": state.palette });
  fill(place, tools, body, measure.note ? el("p", { class: "hint" }, measure.note) : null);

  if (!bars) {
    const total = set.at({});
    tell(say("summaryTotal", { value: measure.write(total) }));
    fill(body, el("p", { class: "single" }, why({}) ?? measure.told(total, set.span({}))));
    return;
  }
  const shownBars = set.dimension(bars.code);
  const series = colours ? set.dimension(colours.code) : null;
  const panelsOf = multiples ? set.dimension(multiples.code).codes : [undefined];
  const count = (bar, one, panel = panelsOf[0]) =>
    set.at({ [bars.code]: bar, ...(series ? { [series.code]: one } : {}), ...(multiples ? { [multiples.code]: panel } : {}) });
  const span = (bar, one, panel = panelsOf[0]) =>
    set.span({ [bars.code]: bar, ...(series ? { [series.code]: one } : {}), ...(multiples ? { [multiples.code]: panel } : {}) });
  const ones = series ? series.codes : [undefined];
  const long = (bar, panel) =>
    stacked
      ? ones.reduce((sum, one) => sum + (count(bar, one, panel) ?? 0), 0)
      : Math.max(...ones.map((one) => Math.abs(count(bar, one, panel) ?? 0)));
  const tallest = (bar) => Math.max(...panelsOf.map((panel) => long(bar, panel)));
  // A drawing has as many colours as can be told apart: the largest series, in the order in which they are listed.
  const largest = (one) => Math.max(...panelsOf.flatMap((panel) => shownBars.codes.map((bar) => Math.abs(count(bar, one, panel) ?? 0))));
  const kept = series && series.codes.length > COLOURS ? [...ones].sort((a, b) => largest(b) - largest(a)).slice(0, COLOURS) : ones;
  const apart = ones.filter((one) => kept.includes(one));
  const height = new Map(shownBars.codes.map((bar) => [bar, tallest(bar)]));
  // Losses go to the other side of the line at 0.
  const values = set.value.filter((value) => value !== null);
  const [least, most] = stacked ? [0, Math.max(...height.values())] : [Math.min(0, ...values), Math.max(0, ...values)];
  let shown = FIRST;
  const ordered = [...shownBars.codes];
  if (wanted === "bars" && order === "largest") ordered.sort((a, b) => height.get(b) - height.get(a));
  // All values together are published; of some, the sum is of their counts.
  const together = stacked && selection.asked(colours.code) !== null ? ones.length : 1;
  const reasons = new Map(); // why some have no number, and which: bars, or of a drawn line the values that came or went
  const changed = ([of, code]) => of && Object.values(of.nonexistent).some((gone) => gone.has(code));
  const lineOf = (one, panel) => [[colours, one], [multiples, panel]].filter(changed).map(([of, code]) => of.name(code)).join(", ");
  const spots = ordered.flatMap((bar) => panelsOf.flatMap((panel) => (stacked ? [undefined] : ones).flatMap((one) => {
    const codes = { [bars.code]: bar, [colours?.code]: one, [multiples?.code]: panel, ...fixed.values };
    const reason = why(codes);
    if (reason) {
      if (wanted !== "lines") reasons.set(reason, new Set(reasons.get(reason)).add(shownBars.name(bar)));
      else if (apart.includes(one)) reasons.set(reason, new Set(reasons.get(reason)).add(lineOf(one, panel)));
      return [];
    }
    const name = [shownBars.name(bar), one === undefined ? null : series.name(one), multiples ? multiples.name(panel) : null];
    const value = measure.round(stacked ? long(bar, panel) : count(bar, one, panel));
    return { value: wanted === "bars" ? Math.abs(value ?? NaN) : (value ?? NaN), off: reach(context, measure, codes, together), name: name.filter(Boolean).join(", "), text: measure.write(value) };
  })));
  if (!(most > least)) {
    // A 0 is a number, and what did not exist has none.
    const zero = values.length ? say("chartEmpty") : reasons.size ? "" : say("chartBlank");
    tell("");
    fill(body, el("p", { class: "empty" }, measure.nothing || [zero, words.sentence(zero ? whose() : [...reasons.keys()])].filter(Boolean).join(" ")));
    return;
  }
  const drawn = spots.filter(({ value }) => !Number.isNaN(value));
  const top = Math.max(...drawn.map(({ value }) => value));
  const longest = drawn.filter(({ value }) => value === top);
  const said = { high: first(words, longest.map(({ name }) => name)), highValue: [...new Set(longest.map(({ text }) => text))].join(", ") };
  if (!drawn.length) tell(words.sentence([...reasons.keys()]));
  else tell([wanted === "bars" ? words.count("summaryBars", spots.length, said) : words.count("summaryPoints", drawn.length, said), isClose(drawn) ? say(wanted === "bars" ? "closeLong" : "closeHigh") : ""].filter(Boolean).join(" "));
  if (wanted !== "bars") {
    shown = ordered.length;
    const missing = partial();
    fill(body, el("div", { class: "drawn", id: "drawn" }, picture().node()), missing ? el("p", { class: "more" }, missing) : null);
    return;
  }
  const panels = !multiples && series && series.codes.length > COLOURS;
  draw();

  function draw() {
    const now = ordered.slice(0, shown);
    const left = ordered.length - now.length;
    const parts = panels
      ? series.codes.map((one) =>
          el("section", { class: "panel-part" }, el("h2", {}, series.name(one)), list(now, [one], false)))
      : multiples
      ? panelsOf.map((one) =>
          el("section", { class: "panel-part" }, el("h2", {}, multiples.name(one)), list(now, ones, Boolean(series), one)))
      : [series ? key() : null, list(now, ones, Boolean(series))];
    const foot = left
      ? el(
          "p",
          { class: "more" },
          el("span", {}, say("showing", { n: words.number(now.length), all: words.number(ordered.length) })),
          el(
            "button",
            { type: "button", id: "show-more", onclick: () => ((shown += MORE), draw()) },
            say("showMore", { n: words.number(Math.min(left, MORE)) }),
          ),
        )
      : null;
    body.classList.remove("measured");
    body.style.setProperty("--zero", -least / (most - least));
    fill(body, multiples && series ? key() : null, panels || multiples ? el("div", { class: "panels" }, parts) : parts, foot);
    const widest = Math.max(...[...body.querySelectorAll(".bar-number")].map((one) => one.getBoundingClientRect().width));
    body.style.setProperty("--beside", `${widest / Number.parseFloat(getComputedStyle(document.documentElement).fontSize) + 0.6}rem`);
    body.classList.add("measured");
  }

  /** Why some have no number, each reason with their names. */
  function whose() {
    return [...reasons].map(([reason, names]) => {
      const list = first(words, [...names].filter(Boolean));
      return list ? `${list} (${reason})` : capital(reason, words.lang);
    });
  }

  /** What a drawing leaves out, in words. A line has no place for the reason why it has no number at a time. */
  function partial() {
    const some = (n, all) => say("showing", { n: words.number(n), all: words.number(all) });
    return [
      shown < ordered.length ? `${shownBars.label}: ${some(shown, ordered.length)}` : "",
      apart.length < ones.length ? `${series.label}: ${some(apart.length, ones.length)}` : "",
      ...(wanted === "lines" ? whose() : []),
    ].filter(Boolean).join(" · ");
  }

  function key() {
    const items = series.codes.map((code, i) =>
      el("li", {}, el("span", { class: `swatch series-${i + 1}`, "aria-hidden": "true" }), series.name(code)));
    return el("ul", { class: "key", "aria-label": series.label }, items);
  }

  function list(codes, wanted, coloured, panel) {
    return el("ul", { class: stacked ? "bars stacked" : "bars", "aria-label": shownBars.label }, codes.map((bar) => row(bar, wanted, coloured, panel)));
  }

  function row(bar, wanted, coloured, panel) {
    const missing = stacked ? why({ [bars.code]: bar, [multiples?.code]: panel }) : undefined;
    const whole = missing && layout === "shares" ? Infinity : long(bar, panel);
    const lines = wanted.map((one, i) => {
      const n = count(bar, one, panel);
      const drawn = el("span", { class: `bar ${coloured ? `series-${i + 1}` : n < 0 ? "fall-3" : "series-1"}${n < 0 ? " left" : ""}` });
      drawn.style.setProperty("--share", Math.abs(n ?? 0) / (layout === "shares" ? whole || 1 : most - least));
      const name = coloured ? el("span", { class: "unseen" }, `${series.name(one)}: `) : null;
      const text = why({ [bars.code]: bar, [colours?.code]: one, [multiples?.code]: panel }) ?? measure.told(n, span(bar, one, panel));
      const number = el("span", { class: stacked ? "unseen" : "bar-number" }, text);
      drawn.title = coloured ? `${series.name(one)}: ${text}` : text;
      return el("span", { class: "line" }, drawn, name, number);
    });
    const total = stacked ? el("span", { class: "bar-number" }, missing ?? (layout === "shares" ? sharesOf(words, wanted.map((one) => count(bar, one, panel))) : measure.told(whole))) : null;
    return el("li", {}, el("span", { class: "bar-label" }, shownBars.name(bar)), el("span", { class: "lines" }, lines, total));
  }

  /** Whether the values of a variable have an order of their own: times, ages, bands of numbers. */
  function inOrder(one) {
    if (!one || one.hierarchy) return false;
    const bands = one.labels.filter((label) => /\d/.test(label)).length;
    return one === time || named(AGE)(one) || 2 * bands > one.labels.length;
  }

  function areaBars() {
    return dimensions.some((one) => one.hierarchy && size(one) > 1);
  }

  /** Areas are the usual bars, else the variable with most values. */
  function usualBars() {
    const found = dimensions.filter((one) => size(one) > 1 && one !== time);
    return found.find(({ hierarchy }) => hierarchy) ?? found.toSorted((a, b) => size(b) - size(a))[0] ?? dimensions[0];
  }

  function usualColours() {
    // What was picked on the map stays picked, and one value alone needs no colours.
    const free = rest.filter(({ code }) => state.pick[code] === undefined && code !== state.multiples);
    const few = free.filter((one) => size(one) > 1 && size(one) <= COLOURS);
    return few.toSorted((a, b) => size(a) - size(b))[0];
  }
}
