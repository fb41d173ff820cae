// The map of one hierarchy's areas, coloured by the measure that is chosen.

import * as api from "./api.js";
import { placeLink } from "./areas.js";
import { AreaCanvas } from "./canvas.js";
import { PALETTES, classed } from "./classes.js";
import { choice, el, fill } from "./dom.js";
import { absence, measuring } from "./measures.js";
import { ownAreas } from "./own.js";
import { mapPicture, pictureButtons } from "./picture.js";
import { first, isClose, reach } from "./ranks.js";
import { shapes } from "./shapes.js";

let open = null;
const AROUND = 20_000; // areas up to which those that are not chosen are drawn, too
const drawn = new Map(); // shapes that were made, by release, level and drawing

/** Forget the canvas of the map that was shown. */
export function closeMap() {
  open?.close();
  open = null;
}

export async function showMap(place, context) {
  const { state, release, meta, selection, words, ask, picks, go, tell, entitle } = context;
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
  const measure = measuring(context, fixed);
  const title = measure.title([mapped], fixed.said);
  const isInTable = !fixed.summed.length && !fixed.dropped.length; // the table has no total and no sum of values
  entitle(title);

  const kind = release.drawing(hierarchy, level, mapped.codes);
  const when = fixed.values[release.time];
  const isGone = (code) => meta.gone({ [mapped.code]: code }, when).length > 0;
  const [set, drawing] = await Promise.all([ask([mapped.code], fixed.values, measure), outline()]);
  context.current();
  const made = drawing.areas;

  const raw = codes.map((code) => [code, set.at({ [mapped.code]: code, ...fixed.values })]);
  measure.fit(raw.map(([, value]) => value).filter((value) => value !== undefined));
  const shown = new Map(raw.map(([code, value]) => [code, measure.round(value)]));
  const missed = measure.nothing ? say("absent") : say("noTotal");
  const write = (value) => (value === undefined ? missed : measure.write(value));
  const absent = absence(context, measure, set);
  const why = (code) => absent({ [mapped.code]: code, ...fixed.values });
  const told = (code) => (shown.get(code) === undefined ? (why(code) ?? missed) : measure.told(shown.get(code), set.span({ [mapped.code]: code, ...fixed.values })));
  const [most, equal] = [Number.parseInt(state.cuts, 10) || 6, state.cuts.endsWith("e")];
  const signed = measure.name === "change";
  const { classes, items } = classed(new Map([...shown].filter(([code]) => made.has(code))), { step: measure.step, most, equal, signed });

  // Going into an area: one level finer, the same variables.
  const finer = release.hierarchy(hierarchy).levels[level];
  const levels = { ...state.levels, [hierarchy]: level + 1 };
  const canOpen = Boolean(finer && release.find(levels, state.keys));
  const enter = (code) =>
    canOpen ? go({ levels, within: { ...state.within, [hierarchy]: { level, code } } }) : strip.querySelector("a")?.focus();
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
  const hint = canOpen ? say("openFiner", { level: finer.label }) : finer ? say("finerNotPublished") : say("finest");
  const gone = codes.filter(isGone);
  const notThen = gone.length ? words.count("notInList", gone.length, { time: meta.dimension(release.time).name(when), list: first(words, gone.map((code) => mapped.name(code))) }) : "";
  const missing = codes.filter((code) => !made.has(code) && !isGone(code)).length;
  const notes = [
    hint,
    kind === "squares" ? say("squares") : kind === "tiles" ? say("tiles", { level: mapped.label }) : null,
    missing ? words.count("notDrawn", missing) : null,
    notThen,
    measure.note,
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
      measure.controls,
    ),
    el("div", { class: "map-and-legend" }, frame, legend()),
    strip,
    el("div", { class: "bar-tools" }, pictureButtons(words, () => mapPicture({ canvas: open, title, release, words, entries: entries(), heading: measure.heading, note: [notThen, measure.note].filter(Boolean).join(" ") }))),
    look(),
    ownAreas(context, mapped, fixed, () => open),
    el("p", { class: "hint" }, notes.filter(Boolean).join(" ")),
    spoken,
    el("p", { class: "unseen", id: "map-help" }, [say("mapHelp"), isInTable ? say("mapSame") : ""].filter(Boolean).join(" ")),
  );

  open = new AreaCanvas(host, { point, open: enter, up: () => context.up(hierarchy) });
  open.place(made, codes, (code) => mapped.name(code), drawing.ground, !within);
  host.dataset.palette = state.palette;
  open.paint([...classes].map(([name, list]) => ({ ink: name, codes: list })));
  summarise();
  if (state.place && codes.includes(state.place)) open.fly(state.place);

  async function outline() {
    // Of a nation only the chosen areas are drawn; of fewer the others lie around them in grey.
    const above = meta.parts.some(({ code }) => code === mapped.code) ? state.within[hierarchy] : null;
    const all = kind === "tiles" || mapped.codes.length > AROUND ? codes : mapped.codes;
    const wanted = kind === "geometry" ? all.filter((code) => !isGone(code)) : all;
    // A map without a time is that of the last one.
    const time = kind === "geometry" && when !== meta.dimension(release.time)?.codes.at(-1) ? when : undefined;
    const name = JSON.stringify([release.id, mapped.code, kind, time, all === codes ? codes : mapped.codes.length]);
    if (!drawn.has(name)) {
      // The coarsest map lies below a finer one: areas that do not touch can be placed by it.
      const first = release.level(hierarchy, 1);
      const [own, coarsest] = await Promise.all([
        kind === "geometry" ? api.geometry(release.id, mapped.code, { time, within: above && `${release.level(hierarchy, above.level).code}:${above.code}` }) : null,
        kind === "geometry" && level > 1 && first.geometry ? api.geometry(release.id, first.code, { time }) : null,
      ]);
      drawn.set(name, shapes(kind, wanted, own, coarsest));
    }
    return drawn.get(name);
  }

  function point(code, x, y, changed) {
    tooltip.hidden = code === null;
    if (code === null) return; // what was offered below the map stays: a finger on it takes the focus from the map first
    if (changed) {
      tooltip.replaceChildren(el("strong", {}, mapped.name(code)), el("span", {}, told(code)));
      spoken.textContent = `${mapped.name(code)}: ${told(code)}`;
      if (matchMedia("(pointer: coarse)").matches || host.matches(":focus-visible"))
        fill(
          strip,
          canOpen ? el("button", { type: "button", onclick: () => enter(code) }, say("open", { name: mapped.name(code) })) : null,
          mapped.missing.has(code) ? null : placeLink(context, mapped.code, code, mapped.name(code)),
        );
    }
    const [width, height] = [frame.clientWidth, frame.clientHeight];
    const right = x + 16 + tooltip.offsetWidth > width;
    const low = y + 16 + tooltip.offsetHeight > height;
    const left = Math.max(4, right ? x - 12 - tooltip.offsetWidth : x + 14);
    tooltip.style.transform = `translate(${left}px, ${low ? y - 12 - tooltip.offsetHeight : y + 14}px)`;
  }

  /** The legend: each class with its limits, written so that no number stands in two of them. */
  function entries() {
    const text = (low, high) => (low === high ? measure.write(low) : `${measure.write(low)} ${signed ? "…" : "–"} ${measure.write(high)}`);
    const found = items.map(([name, low, high]) => [name, text(low, high)]);
    const nought = signed ? measure.write(0) : say("zero", { zero: measure.write(0) });
    const none = signed ? "still" : "zero";
    if (classes.has(none)) found.splice(signed ? items.filter(([, low]) => low < 0).length : 0, 0, [none, nought]);
    if (classes.has("absent")) found.push(["absent", words.listing([...new Set(classes.get("absent").map((code) => why(code) ?? say("absent")))])]);
    return found;
  }

  function legend() {
    return el(
      "div",
      { class: "legend", "data-palette": state.palette },
      el("p", { id: "legend-name", class: "legend-name" }, measure.heading),
      el(
        "ul",
        { "aria-labelledby": "legend-name" },
        entries().map(([name, text]) =>
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

  /** The choice of colours and classes. */
  function look() {
    const classCounts = ["3", "4", "5", "6"].map((n) => [n, say("classesOf", { n })]);
    const steps = ["3", "4", "5", "6"].map((n) => [`${n}e`, say("stepsOf", { n })]);
    return el(
      "details",
      { id: "look" },
      el("summary", {}, say("look")),
      el(
        "div",
        { class: "bar-tools" },
        choice("palette", say("palette"), PALETTES.map((one) => [one, say(`palette_${one}`)]), state.palette, (palette) => go({ palette })),
        choice("cuts", say("cuts"), [...classCounts, ...steps], state.cuts, (cuts) => go({ cuts })),
      ),
    );
  }

  function summarise() {
    const known = codes.filter((code) => shown.get(code) !== undefined && !mapped.missing.has(code));
    if (!known.length) return tell(measure.nothing || why(codes[0]) || "");
    const numbers = known.map((code) => shown.get(code));
    const [high, low] = [Math.max(...numbers), Math.min(...numbers)];
    const having = (value) => first(words, known.filter((code) => shown.get(code) === value).map((code) => mapped.name(code)));
    const values = { label: mapped.label, high: having(high), highValue: write(high), low: having(low), lowValue: write(low) };
    if (high === low) return tell(words.count("summaryEqual", known.length, values));
    const off = (code) => reach(context, measure, { [mapped.code]: code, ...fixed.values });
    const close = (sign) => isClose(known.map((code) => ({ value: sign * shown.get(code), off: off(code) })));
    const doubt = [close(1) ? "High" : "", close(-1) ? "Low" : ""].join("");
    return tell([say("summaryAreas", { ...values, n: words.number(known.length) }), doubt ? say(`close${doubt}`) : ""].filter(Boolean).join(" "));
  }
}
