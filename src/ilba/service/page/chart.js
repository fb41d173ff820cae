// Bars with their numbers beside them. They are a list of words and numbers, so that a screen reader reads what is seen.

import { buttons, choice, el, fill } from "./dom.js";

const COLOURS = 8; // series that can be told apart by colour; more become panels
const FIRST = 40;
const MORE = 200;

export async function showChart(place, { state, release, meta, selection, words, ask, picks, go, tell }) {
  const { say } = words;
  const size = ({ code }) => selection.codes(code).length;
  const by = (code) => meta.dimension(code);
  const dimensions = meta.dimensions;
  const bars = by(state.bars) ?? usualBars();
  const rest = dimensions.filter((one) => one !== bars);
  const colours = state.colours === "none" ? undefined : (rest.find(({ code }) => code === state.colours) ?? usualColours());
  const free = [bars, colours].filter(Boolean).map(({ code }) => code);
  const fixed = picks(free, true);
  const set = await ask(free, fixed.values);

  // Stacking shows a sum. Where tables do not add up, that sum was never published.
  const canStack = Boolean(colours) && release.additive && size(colours) <= COLOURS;
  const stacked = canStack && state.layout === "stacked";
  const names = (list) => list.map(({ code, label }) => [code, label]);
  const tools = el("div", { class: "bar-tools" }, [
    dimensions.length > 1
      ? choice("bars", say("bars"), names(dimensions), bars.code, (code) =>
          go({ bars: code, colours: code === colours?.code ? bars.code : state.colours }))
      : null,
    rest.length
      ? choice("colours", say("colours"), [["none", say("none")], ...names(rest)], colours?.code ?? "none", (code) =>
          go({ colours: code }))
      : null,
    ...fixed.controls,
    canStack
      ? buttons(say("layout"), [["grouped", say("grouped")], ["stacked", say("stacked")]], stacked ? "stacked" : "grouped", (layout) => go({ layout }))
      : null,
    bars ? choice("order", say("order"), [["listed", say("listed")], ["largest", say("largest")]], state.order, (order) => go({ order })) : null,
  ]);
  const body = el("div", { class: "chart" });
  fill(place, tools, body);

  if (!bars) {
    const total = set.at({});
    tell(say("summaryTotal", { value: words.number(total) }));
    fill(body, el("p", { class: "single" }, words.number(total)));
    return;
  }
  const shownBars = set.dimension(bars.code);
  const series = colours ? set.dimension(colours.code) : null;
  const count = (bar, one) => set.at({ [bars.code]: bar, ...(series ? { [series.code]: one } : {}) });
  const ones = series ? series.codes : [undefined];
  const longest = (bar) =>
    stacked ? ones.reduce((sum, one) => sum + count(bar, one), 0) : Math.max(...ones.map((one) => count(bar, one)));
  const height = new Map(shownBars.codes.map((bar) => [bar, longest(bar)]));
  const most = Math.max(...height.values());
  if (!(most > 0)) {
    tell("");
    fill(body, el("p", { class: "empty" }, say("chartEmpty")));
    return;
  }
  const ordered = [...shownBars.codes];
  if (state.order === "largest") ordered.sort((a, b) => height.get(b) - height.get(a));
  const high = ordered.reduce((best, bar) => (height.get(bar) > height.get(best) ? bar : best));
  const inside = series && !stacked ? ones.find((one) => count(high, one) === most) : undefined;
  const longestName = [shownBars.name(high), inside === undefined ? null : series.name(inside)].filter(Boolean).join(", ");
  tell(
    say("summaryBars", {
      n: words.number(ordered.length * (stacked ? 1 : ones.length)),
      high: longestName,
      highValue: words.number(most),
    }),
  );
  const panels = series && series.codes.length > COLOURS;
  let shown = FIRST;
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
      const drawn = el("span", { class: `bar ${coloured ? `series-${i + 1}` : "series-1"}` });
      drawn.style.width = `${(100 * n) / most}%`;
      const name = coloured ? el("span", { class: "unseen" }, `${series.name(one)}: `) : null;
      const number = el("span", { class: stacked ? "unseen" : "bar-number" }, words.number(n));
      drawn.title = coloured ? `${series.name(one)}: ${words.number(n)}` : words.number(n);
      return el("span", { class: "line" }, drawn, name, number);
    });
    const total = stacked ? el("span", { class: "bar-number" }, words.number(height.get(bar))) : null;
    return el("li", {}, el("span", { class: "bar-label" }, shownBars.name(bar)), el("span", { class: "lines" }, lines, total));
  }

  /** Areas are the usual bars, else the variable with most values. */
  function usualBars() {
    const found = dimensions.filter((one) => size(one) > 1);
    return found.find(({ hierarchy }) => hierarchy) ?? found.toSorted((a, b) => size(b) - size(a))[0] ?? dimensions[0];
  }

  function usualColours() {
    const few = rest.filter((one) => size(one) <= COLOURS);
    return few.toSorted((a, b) => size(a) - size(b))[0];
  }
}
