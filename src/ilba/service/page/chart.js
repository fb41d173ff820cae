// Bars with their numbers beside them. They are a list of words and numbers, so that a screen reader reads what is seen.

import { choice, el, fill } from "./dom.js";
import { measuring } from "./measures.js";
import { barPicture, linePicture, pictureButtons, pyramidPicture } from "./picture.js";

const COLOURS = 8; // series that can be told apart by colour; more become panels
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
  if (sex && age) kinds.push("pyramid");
  if (time && size(time) > 1) kinds.push("lines");
  const wanted = kinds.includes(state.kind) ? state.kind : sex && age && !areaBars() ? "pyramid" : "bars";
  const bars = wanted === "pyramid" ? age : wanted === "lines" ? time : (by(state.bars) ?? usualBars());
  const rest = dimensions.filter((one) => one !== bars && (wanted !== "bars" || one !== time));
  const colours =
    wanted === "pyramid"
      ? sex
      : state.colours === "none"
        ? undefined
        : (rest.find(({ code }) => code === state.colours) ?? usualColours());
  const free = [bars, colours].filter(Boolean);
  const fixed = picks(free.map(({ code }) => code), true);
  const measure = measuring(context, fixed.dropped);
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
  // Areas are sorted by size; what has an order of its own keeps it.
  const order = state.order || (bars?.hierarchy ? "largest" : "listed");
  const names = (list) => list.map(({ code, label }) => [code, label]);
  const picture = () => {
    const told = { title, release, words, measure, set, bars, colours, codes: ordered.slice(0, shown), layout };
    return wanted === "pyramid" ? pyramidPicture(told) : wanted === "lines" ? linePicture(told) : barPicture(told);
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
    bars ? pictureButtons(words, picture) : null,
  ]);
  const body = el("div", { class: "chart" });
  fill(place, tools, body, measure.note ? el("p", { class: "hint" }, measure.note) : null);

  if (!bars) {
    const total = set.at({});
    tell(say("summaryTotal", { value: measure.write(total) }));
    fill(body, el("p", { class: "single" }, measure.told(total)));
    return;
  }
  const shownBars = set.dimension(bars.code);
  const series = colours ? set.dimension(colours.code) : null;
  const count = (bar, one) => set.at({ [bars.code]: bar, ...(series ? { [series.code]: one } : {}) });
  const ones = series ? series.codes : [undefined];
  const longest = (bar) =>
    stacked ? ones.reduce((sum, one) => sum + count(bar, one), 0) : Math.max(...ones.map((one) => Math.abs(count(bar, one) ?? 0)));
  const height = new Map(shownBars.codes.map((bar) => [bar, longest(bar)]));
  const most = Math.max(...height.values());
  let shown = FIRST;
  const ordered = [...shownBars.codes];
  if (wanted === "bars" && order === "largest") ordered.sort((a, b) => height.get(b) - height.get(a));
  if (!(most > 0)) {
    tell("");
    fill(body, el("p", { class: "empty" }, say("chartEmpty")));
    return;
  }
  const high = ordered.reduce((best, bar) => (height.get(bar) > height.get(best) ? bar : best));
  const inside = series && !stacked ? ones.find((one) => Math.abs(count(high, one)) === most) : undefined;
  const longestName = [shownBars.name(high), inside === undefined ? null : series.name(inside)].filter(Boolean).join(", ");
  tell(
    say(wanted === "bars" ? "summaryBars" : "summaryPoints", {
      n: words.number(ordered.length * (stacked ? 1 : ones.length)),
      high: longestName,
      highValue: measure.write(stacked || inside === undefined ? (stacked ? most : count(high, undefined)) : count(high, inside)),
    }),
  );
  if (wanted !== "bars") {
    shown = ordered.length;
    fill(body, el("div", { class: "drawn", id: "drawn" }, picture().node()));
    return;
  }
  const panels = series && series.codes.length > COLOURS;
  draw();

  function draw() {
    const now = ordered.slice(0, shown);
    const left = ordered.length - now.length;
    const parts = panels
      ? series.codes.map((one) =>
          el("section", { class: "panel-part" }, el("h2", {}, series.name(one)), list(now, [one], false)))
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
    fill(body, panels ? el("div", { class: "panels" }, parts) : parts, foot);
  }

  function key() {
    const items = series.codes.map((code, i) =>
      el("li", {}, el("span", { class: `swatch series-${i + 1}`, "aria-hidden": "true" }), series.name(code)));
    return el("ul", { class: "key", "aria-label": series.label }, items);
  }

  function list(codes, wanted, coloured) {
    return el("ul", { class: stacked ? "bars stacked" : "bars", "aria-label": shownBars.label }, codes.map((bar) => row(bar, wanted, coloured)));
  }

  function row(bar, wanted, coloured) {
    const lines = wanted.map((one, i) => {
      const n = count(bar, one);
      const drawn = el("span", { class: `bar ${coloured ? `series-${i + 1}` : n < 0 ? "fall-3" : "series-1"}` });
      drawn.style.width = `${(100 * Math.abs(n ?? 0)) / (layout === "shares" ? height.get(bar) || 1 : most)}%`;
      const name = coloured ? el("span", { class: "unseen" }, `${series.name(one)}: `) : null;
      const number = el("span", { class: stacked ? "unseen" : "bar-number" }, measure.told(n));
      drawn.title = coloured ? `${series.name(one)}: ${measure.told(n)}` : measure.told(n);
      return el("span", { class: "line" }, drawn, name, number);
    });
    const total = stacked ? el("span", { class: "bar-number" }, measure.told(height.get(bar))) : null;
    return el("li", {}, el("span", { class: "bar-label" }, shownBars.name(bar)), el("span", { class: "lines" }, lines, total));
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
    const few = rest.filter((one) => size(one) <= COLOURS);
    return few.toSorted((a, b) => size(a) - size(b))[0];
  }
}
