// Classes for a coloured map, with limits that are round numbers. Values are rounded as they are written, so that two
// classes never show the same number.

export const PALETTES = ["sea", "viridis", "grey"];

/** Limits between classes, rising: a value belongs to the first class whose limit is above it. */
export function limits(values, { step = 1, most = 6, equal = false } = {}) {
  const sorted = values.filter((value) => value > 0).sort((a, b) => a - b);
  const distinct = [...new Set(sorted)];
  if (distinct.length <= 1) return [];
  if (distinct.length <= most) return distinct.slice(1);
  const [least, highest] = [sorted[0], sorted[sorted.length - 1]];
  const found = [];
  for (let i = 1; i < most; i += 1) {
    const at = equal ? least + (i * (highest - least)) / most : sorted[Math.floor((i * sorted.length) / most)];
    const rounded = round(at, highest - least, step);
    if (rounded > least && rounded <= highest && rounded > (found.at(-1) ?? -Infinity)) found.push(rounded);
  }
  return found;
}

/** To a step that is 1, 2 or 5 times a power of ten and small beside the spread of the values. */
function round(value, spread, least) {
  const rough = Math.max(spread / 50, 1e-9);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= rough);
  const used = Math.max(least, step);
  return Number((Math.round(value / used) * used).toPrecision(12));
}

/** The class of a value: 0 for nought, undefined for no number, else 1 to limits.length + 1. */
export function classOf(value, cuts) {
  if (value === undefined || value === null || Number.isNaN(value)) return undefined;
  if (value === 0) return 0;
  let place = 0;
  while (place < cuts.length && value >= cuts[place]) place += 1;
  return place + 1;
}

/** Which steps of a ramp of so many colours are used by so many classes: spread out, the darkest always among them. */
export function shades(classes, colours = 6) {
  if (classes === 1) return [Math.ceil((2 * colours) / 3)];
  return Array.from({ length: classes }, (_, i) => 1 + Math.round((i * (colours - 1)) / (classes - 1)));
}

/**
 * The areas in classes, and the legend: `classes` maps a colour to codes, `items` are [colour, low, high].
 * Changes have two ramps, one below nought and one above.
 */
export function classed(shown, { step, most, equal, signed }) {
  const classes = new Map();
  const items = [];
  const put = (name, code) => (classes.get(name) ?? classes.set(name, []).get(name)).push(code);
  const ramp = (name, sign, colours) => {
    const part = [...shown].filter(([, value]) => value * sign > 0).map(([code, value]) => [code, Math.abs(value)]);
    if (!part.length) return;
    const sizes = part.map(([, value]) => value);
    const cuts = limits(sizes, { step, most: Math.min(most, colours), equal });
    const [least, largest] = sizes.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, 0]);
    const steps = shades(cuts.length + 1, colours);
    const groups = steps.map(() => []);
    for (const [code, value] of part) groups[classOf(value, cuts) - 1].push(code);
    groups.forEach((codes, i) => {
      if (!codes.length) return;
      classes.set(`${name}-${steps[i]}`, codes);
      const low = i ? cuts[i - 1] : least;
      const high = i < cuts.length ? Number((cuts[i] - step).toPrecision(12)) : largest;
      const ends = [sign * low, sign * Math.max(low, high)];
      items.push([`${name}-${steps[i]}`, ...(sign < 0 ? ends.reverse() : ends)]);
    });
  };
  if (signed) ramp("fall", -1, 3);
  items.reverse();
  for (const [code, value] of shown)
    if (value === 0) put(signed ? "still" : "zero", code);
    else if (value === undefined) put("absent", code);
  ramp(signed ? "rise" : "ramp", 1, signed ? 3 : 6);
  return { classes, items };
}
