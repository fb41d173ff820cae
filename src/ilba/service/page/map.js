// The map of one hierarchy's areas, coloured by count or by share of the area's published total.

import * as api from "./api.js";
import { AreaCanvas } from "./canvas.js";
import { classOf, limits, shades } from "./classes.js";
import { buttons, choice, el, fill } from "./dom.js";
import { shapes } from "./shapes.js";

let open = null;
const drawn = new Map(); // shapes that were made, by release, level and drawing

/** Forget the canvas of the map that was shown. */
export function closeMap() {
  open?.close();
  open = null;
}

export async function showMap(place, context) {
  const { state, release, title, meta, selection, words, ask, picks, go, tell } = context;
  const { say } = words;
  const hierarchies = meta.dimensions.filter(({ hierarchy }) => hierarchy);
  if (!hierarchies.length) {
    fill(place, el("p", { class: "empty" }, say("noMap")));
    tell("");
    return;
  }
  const mapped =
    hierarchies.find(({ hierarchy }) => hierarchy === state.mapped) ??
    hierarchies.find(({ hierarchy, level }) => release.level(hierarchy, level).geometry) ??
    hierarchies[0];
  const { hierarchy, level } = mapped;
  const codes = selection.codes(mapped.code);
  const fixed = picks([mapped.code]);
  const narrowed = Object.values(fixed.values).some((value) => value !== "");
  const whole = release.find({ [hierarchy]: level }, []);
  const measure = state.measure === "share" && narrowed && whole ? "share" : "count";

  const kind = release.drawing(hierarchy, level, mapped.codes);
  const [set, total, drawing] = await Promise.all([
    ask([mapped.code], fixed.values),
    measure === "share" ? context.values(whole, [{ code: mapped.code, values: selection.asked(mapped.code) }]) : null,
    outline(),
  ]);
  context.current();
  const made = drawing.areas;

  const counts = new Map(codes.map((code) => [code, set.at({ [mapped.code]: code, ...fixed.values })]));
  const totals = total && new Map(codes.map((code) => [code, total.at({ [mapped.code]: code })]));
  const shareOf = (code) => (totals.get(code) ? counts.get(code) / totals.get(code) : undefined);
  const shown = totals ? new Map(codes.map((code) => [code, shareOf(code)])) : counts;
  const write = (value) =>
    value === undefined ? say("noTotal") : totals ? words.percent(value) : words.number(value);
  const told = (code) => {
    const value = write(shown.get(code));
    if (!totals) return value;
    const of = { value: words.number(counts.get(code)), total: words.number(totals.get(code)) };
    return shown.get(code) === undefined ? value : `${value} (${say("of", of)})`;
  };

  const cuts = limits([...shown.values()].filter((value) => value !== undefined), !totals);
  const steps = shades(cuts.length + 1);
  const classes = new Map();
  for (const code of codes) {
    const number = classOf(shown.get(code), cuts);
    const name = number === undefined ? "absent" : number === 0 ? "zero" : `ramp-${steps[number - 1]}`;
    if (!classes.has(name)) classes.set(name, []);
    classes.get(name).push(code);
  }

  // Going into an area: one level finer, the same variables.
  const finer = release.hierarchy(hierarchy).levels[level];
  const levels = { ...state.levels, [hierarchy]: level + 1 };
  const canOpen = Boolean(finer && release.find(levels, state.keys));
  const enter = (code) =>
    canOpen && go({ levels, within: { ...state.within, [hierarchy]: { level, code } } });
  const within = state.within[hierarchy];

  closeMap();
  const tooltip = el("div", { class: "tooltip", "aria-hidden": "true", hidden: true });
  const spoken = el("p", { class: "unseen", "aria-live": "polite", id: "map-spoken" });
  const strip = el("p", { class: "map-strip" });
  const host = el("div", {
    class: "canvas",
    id: "map",
    tabindex: "0",
    role: "application",
    "aria-label": say("mapName", { title }),
    "aria-describedby": "map-help",
  });
  const why = !narrowed ? say("shareNeeds") : !whole ? say("shareNoTotal") : null;
  const hint = canOpen ? say("openFiner", { level: finer.label }) : finer ? say("finerNotPublished") : say("finest");
  const missing = codes.filter((code) => !made.has(code)).length;
  const notes = [
    hint,
    kind === "squares" ? say("squares") : kind === "tiles" ? say("tiles") : null,
    missing ? say("notDrawn", { n: words.number(missing) }) : null,
    measure === "share" ? say("shareNote") : why,
  ];
  const button = (id, name, text, onclick, disabled) =>
    el("button", { type: "button", id, "aria-label": say(name), title: say(name), onclick, disabled }, text);
  const frame = el(
    "div",
    { class: "map-frame" },
    host,
    el(
      "div",
      { class: "map-buttons" },
      button("zoom-in", "zoomIn", "+", () => open.zoomBy(1.6)),
      button("zoom-out", "zoomOut", "−", () => open.zoomBy(1 / 1.6)),
      button("zoom-all", "zoomAll", "⤢", () => open.zoomAll()),
      within || level > 1 ? button("zoom-up", "up", "↑", () => context.up(hierarchy)) : null,
    ),
    tooltip,
  );
  fill(
    place,
    el(
      "div",
      { class: "bar-tools" },
      hierarchies.length > 1
        ? choice("mapped", say("mapOf"), hierarchies.map((one) => [one.hierarchy, one.label]), hierarchy, (name) => go({ mapped: name }))
        : null,
      fixed.controls,
      el(
        "div",
        { class: "field" },
        el("span", { "aria-hidden": "true" }, say("measure")),
        buttons(say("measure"), [["count", say("count")], ["share", say("share"), Boolean(why), why]], measure, (one) => go({ measure: one })),
      ),
    ),
    el("div", { class: "map-and-legend" }, frame, legend()),
    strip,
    el("p", { class: "hint" }, notes.filter(Boolean).join(" ")),
    spoken,
    el("p", { class: "unseen", id: "map-help" }, say("mapHelp")),
  );

  open = new AreaCanvas(host, { point, open: enter, up: () => context.up(hierarchy) });
  open.place(made, codes, (code) => mapped.name(code), drawing.ground, !within);
  open.paint([...classes].map(([name, list]) => ({ ink: name, codes: list })));
  summarise();

  async function outline() {
    const name = JSON.stringify([release.id, mapped.code, kind, kind === "tiles" ? codes : mapped.codes.length]);
    if (!drawn.has(name)) {
      // The coarsest map lies below a finer one: areas that do not touch can be placed by it.
      const first = release.level(hierarchy, 1);
      const [own, coarsest] = await Promise.all([
        kind === "geometry" ? api.geometry(release.id, mapped.code) : null,
        kind === "geometry" && level > 1 && first.geometry ? api.geometry(release.id, first.code) : null,
      ]);
      drawn.set(name, shapes(kind, kind === "tiles" ? codes : mapped.codes, own, coarsest));
    }
    return drawn.get(name);
  }

  function point(code, x, y, changed) {
    tooltip.hidden = code === null;
    if (code === null) {
      if (changed) strip.replaceChildren();
      return;
    }
    if (changed) {
      tooltip.replaceChildren(el("strong", {}, mapped.name(code)), el("span", {}, told(code)));
      spoken.textContent = `${mapped.name(code)}: ${told(code)}`;
      if (matchMedia("(pointer: coarse)").matches && canOpen)
        strip.replaceChildren(
          el("button", { type: "button", onclick: () => enter(code) }, say("open", { name: mapped.name(code) })),
        );
    }
    const [width, height] = [frame.clientWidth, frame.clientHeight];
    const right = x + 16 + tooltip.offsetWidth > width;
    const low = y + 16 + tooltip.offsetHeight > height;
    const left = Math.max(4, right ? x - 12 - tooltip.offsetWidth : x + 14);
    tooltip.style.transform = `translate(${left}px, ${low ? y - 12 - tooltip.offsetHeight : y + 14}px)`;
  }

  function legend() {
    const edge = (value) => (totals ? words.percent(value) : words.number(value));
    const positive = [...shown.values()].filter((value) => value > 0);
    const least = Math.min(...positive);
    const most = Math.max(...positive);
    const items = positive.length
      ? steps.map((shade, i) => {
          const low = i ? cuts[i - 1] : least;
          const high = i < cuts.length ? cuts[i] - (totals ? 0 : 1) : most;
          return [`ramp-${shade}`, low >= high ? edge(low) : `${edge(low)} – ${edge(high)}`];
        })
      : [];
    if (classes.has("zero")) items.unshift(["zero", say("zero", { zero: edge(0) })]);
    if (classes.has("absent")) items.push(["absent", say("absent")]);
    return el(
      "div",
      { class: "legend" },
      el("p", { id: "legend-name", class: "legend-name" }, measure === "share" ? say("share") : say("count")),
      el(
        "ul",
        { "aria-labelledby": "legend-name" },
        items.map(([name, text]) =>
          el(
            "li",
            {},
            el("span", { class: `swatch ${name}`, "aria-hidden": "true" }),
            el("span", {}, text),
            el("span", { class: "size" }, words.number(classes.get(name)?.length ?? 0)),
          ),
        ),
      ),
    );
  }

  function summarise() {
    const known = codes.filter((code) => shown.get(code) !== undefined);
    if (!known.length) return tell("");
    const by = (better) => known.reduce((best, code) => (better(shown.get(code), shown.get(best)) ? code : best));
    const high = by((a, b) => a > b);
    const low = by((a, b) => a < b);
    tell(
      say("summaryAreas", {
        label: mapped.label,
        n: words.number(known.length),
        high: mapped.name(high),
        highValue: write(shown.get(high)),
        low: mapped.name(low),
        lowValue: write(shown.get(low)),
      }),
    );
  }
}
