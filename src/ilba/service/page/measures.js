// What the numbers are: counts, percent of a chosen denominator, per 1,000, an index against all areas, or the change
// since the previous time. The server computes them from published counts; here they are chosen, written and named.

import { choice, el } from "./dom.js";
import { first } from "./ranks.js";
import { capital } from "./words.js";

export const MEASURES = ["count", "percent", "rate", "index", "change"];

const NAMED = 6; // times that a title names

/** The sets of variables whose table is published, and can be divided by: lists of codes, the areas alone first. */
function denominators(release, variables, find) {
  const always = variables.filter(({ code }) => code === release.time);
  const others = variables.filter(({ code }) => code !== release.time);
  const found = [];
  for (let mask = 0; mask < 2 ** others.length - 1; mask += 1) {
    const kept = others.filter((_, i) => mask & (1 << i));
    if (find([...kept, ...always])) found.push(kept);
  }
  const areas = (kept) => kept.length > 0 && kept.every(({ hierarchy }) => hierarchy);
  return found.toSorted((a, b) => areas(b) - areas(a) || b.length - a.length);
}

/**
 * In words, why there is no number at some codes: one of them did not exist at its time or, of a change, at the time before;
 * or one of the values of which a sum is shown, also by the view itself (`stacked`), did not.
 */
export function absence({ release, meta, selection, shown, words }, measure, set, stacked = []) {
  const [time, own] = [meta, set].map((one) => one.dimension(release.time));
  if (!own) return () => undefined;
  const times = own.codes.length > 1 ? own.codes : time.codes; // a change is since the one before among these
  const parts = [...shown.summed, ...stacked];
  // Of all that lies in an area a part may be missing, but not everything.
  const missing = (code, when) => {
    const [gone, all] = [lacking(meta.dimension(code), selection.codes(code), when), selection.codes(code)];
    if (!selection.isWhole(code)) return gone;
    return gone.length < all.length ? [] : [selection.around.get(code) ?? meta.dimension(code).label];
  };
  return (codes) => {
    const at = codes[time.code] ?? own.codes[0];
    const before = measure.name === "change" ? times.slice(0, times.indexOf(at)).slice(-1) : [];
    for (const when of [at, ...before]) {
      if (meta.gone(codes, when).length) return words.say("notIn", { time: time.name(when) });
      const without = parts.filter((code) => !codes[code]).flatMap((code) => missing(code, when));
      if (without.length) return words.say("partNotIn", { name: first(words, without), time: time.name(when) });
    }
    return undefined;
  };
}

/** The names of the values that did not exist at a time. */
export const lacking = (dimension, codes, time) => codes.filter((code) => dimension.nonexistent[time]?.has(code)).map((code) => dimension.name(code));

/**
 * The measure that is shown for a table without some of its variables, and the controls to choose it. `named` has the
 * label of each variable of which one value is shown, so that a denominator is called by it: all women, not all of a sex.
 * Of the variables `summed` some values are shown, added up, and called by `named`, too. `times` are the names of the times that are
 * compared: the one that is shown and the one before it, or several that are shown.
 */
export function measuring({ state, release, selection, words, go }, { dropped = [], named = {}, summed = [], times = [] } = {}) {
  const { say } = words;
  const variables = release.variables(state.levels, state.keys).filter(({ code }) => !dropped.includes(code));
  const all = new Set(release.variables(state.levels, state.keys).map(({ code }) => code));
  const find = (kept) => {
    const codes = new Set(kept.map(({ code }) => code));
    return release.without(state.levels, state.keys, [...all].filter((code) => !codes.has(code)));
  };
  const options = variables.length <= 8 ? denominators(release, variables, find) : [];
  const keysOf = (list) => list.filter(({ hierarchy }) => !hierarchy);
  const timeOf = variables.filter(({ code }) => code === release.time);
  // An index compares a share inside each area with that of all areas together, so the denominator has the areas.
  const areasOf = variables.filter(({ hierarchy }) => hierarchy);
  const inAreas = options.filter((kept) => areasOf.length && areasOf.every((one) => kept.includes(one)));
  const compared = inAreas.filter((kept) => find(keysOf(variables)) && find([...keysOf(kept), ...timeOf]));
  const offered = MEASURES.filter(
    (name) =>
      name === "count" ||
      (name === "change" ? Boolean(timeOf.length) : name === "index" ? compared.length && !summed.length : options.length),
  );
  const name = offered.includes(state.measure) ? state.measure : "count";
  const divided = name === "percent" || name === "rate" || name === "index";
  const bases = name === "index" ? compared : options;
  const spelled = (kept) => kept.map(({ code }) => code).join(",");
  const base = divided ? (bases.find((kept) => spelled(kept) === state.of) ?? bases[0]) : null;
  const unit = release.unit;
  // A range needs a bound for the table itself, and for what is divided by.
  const keysBase = base && [...base, ...timeOf];
  const divisors = !divided ? [] : name === "index" ? [keysBase, keysOf(variables), keysOf(keysBase)] : [keysBase];
  const canRange = !summed.length && [variables, ...divisors].every((kept) => find(kept)?.bound);
  const whom = (kept) => {
    if (!kept.length) return unit ? say("allUnits", { unit }) : say("everybody");
    const chosen = kept.filter(({ code }) => named[code] !== undefined);
    const list = words.listing(kept.filter((one) => !chosen.includes(one)).map(({ label }) => label));
    const picks = chosen.map(({ code }) => named[code]).join(", ");
    return say(!picks ? "allSame" : list ? "allPickedSame" : "allPicked", { unit, list, picks });
  };
  const listed = (times.length > NAMED ? [times[0], "…", times.at(-1)] : times).join(", ");
  const form = (name === "change" && { 1: "what_alone", 2: "what_since" }[times.length]) || `what_${name}`;
  const plain = name === "count" ? unit || say("count").toLocaleLowerCase(words.lang) : say(form, { unit, time: times[0], times: listed }).replace(/[,\s]+$/, "");
  const what = divided && name !== "index" ? say("whatOf", { measure: plain, whom: whom(base) }) : plain;
  const controls = [
    choice("measure", say("measure"), offered.map((one) => [one, say(one)]), name, (one) => go({ measure: one })),
    divided && bases.length > 1
      ? choice("of", say("ofWhom"), bases.map((kept) => [spelled(kept), whom(kept)]), spelled(base), (of) => go({ of }))
      : null,
    canRange
      ? el(
          "label",
          { class: "option", for: "box-range" },
          el("input", { type: "checkbox", id: "box-range", checked: state.range, onchange: () => go({ range: !state.range }) }),
          el("span", {}, say("range")),
        )
      : null,
  ].filter(Boolean);
  const notes = {
    percent: say("ratioNote"),
    rate: say("ratioNote"),
    index: `${say("indexNote")} ${say("ratioNote")}`,
    change: `${say("changeNote")} ${canRange ? say("changeMost", { most: words.number(2 * find(variables).bound) }) : ""}`,
  };
  let digits = 0;
  const nothing = name === "change" && times.length === 1 ? say("noEarlier", { time: times[0] }) : "";

  return {
    name,
    /** Why there is no number at all, if that is known. */
    nothing,
    ranged: canRange && state.range,
    of: base?.map(({ code }) => code) ?? null,
    factor: { percent: 100, rate: 1000 }[name],
    controls,
    what,
    heading: capital(what, words.lang),
    /** In a word, where there is little room; the title says the rest. */
    brief: name === "count" ? "" : say(name),
    note: nothing || (notes[name] ?? ""),
    /** Take the digits that these values need, so that a small one is not written as nought. */
    fit(values) {
      const least = Math.min(...values.filter((value) => value > 0));
      digits = !divided ? 0 : name === "index" ? 0 : least >= 0.1 || least === Infinity ? 1 : least >= 0.01 ? 2 : 3;
      return digits;
    },
    round: (value) => (value === undefined ? undefined : Number(value.toFixed(digits))),
    get step() {
      return 10 ** -digits;
    },
    write(value) {
      if (value === undefined || value === null) return "–";
      if (name === "percent") return words.percentage(value, digits);
      if (name === "change") return words.signed(value);
      return divided ? words.decimal(value, digits) : words.number(value);
    },
    /** A round number beside a drawing, with as few digits as it needs. */
    mark(value) {
      const needed = Number.isInteger(value) ? 0 : String(Number(value.toFixed(6))).split(".")[1].length;
      if (name === "percent") return words.percentage(value, needed);
      return name === "change" ? words.signed(value) : words.decimal(value, needed);
    },
    /** A number with its range, where a bound is known and ranges are wanted. */
    told(value, span) {
      const plainly = this.write(value);
      if (!span || value === undefined) return plainly;
      return `${plainly} (${this.write(span[0])} – ${span[1] === null ? "…" : this.write(span[1])})`;
    },
    /** The title of a view: where, what is shown, of whom, by which variables. "Of each district" is not also by district. */
    title(free, picked) {
      const by = free.filter((one) => name === "index" || !base?.some(({ code }) => code === one.code));
      const shown = divided && by.length ? say("whatLong", { what }) : what;
      const list = words.listing(by.map(({ label }) => label));
      const inside = free.map(({ code }) => selection?.around.get(code));
      const picks = [...inside, ...picked, release.wave].filter(Boolean).join(", "); // a series has no wave of its own
      const form = by.length ? (picks ? "titlePicked" : "titleBy") : picks ? "titleOnly" : "titleAll";
      const text = !by.length && !picks && free.length ? what : say(form, { what: shown, list, picks });
      return capital(text, words.lang);
    },
  };
}
