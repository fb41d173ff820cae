// Classes for a coloured map: about as many areas in each, with limits that are round numbers.

const MOST = 6;

/** Limits between classes, rising: a value belongs to the first class whose limit is above it. */
export function limits(values, whole) {
  const sorted = values.filter((value) => value > 0).sort((a, b) => a - b);
  const distinct = [...new Set(sorted)];
  if (distinct.length <= 1) return [];
  if (distinct.length <= MOST) return distinct.slice(1);
  const found = [];
  for (let i = 1; i < MOST; i += 1) {
    const at = sorted[Math.floor((i * sorted.length) / MOST)];
    const rounded = round(at, sorted[sorted.length - 1] - sorted[0], whole);
    if (rounded > sorted[0] && rounded <= sorted[sorted.length - 1] && rounded > (found.at(-1) ?? -Infinity))
      found.push(rounded);
  }
  return found;
}

/** To a step that is 1, 2 or 5 times a power of ten and small beside the spread of the values. */
function round(value, spread, whole) {
  const rough = Math.max(spread / 50, 1e-9);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((each) => each >= rough);
  const used = whole ? Math.max(1, step) : step;
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

/** Which steps of the ramp of MOST colours are used by so many classes: spread out, the darkest always among them. */
export function shades(classes) {
  if (classes === 1) return [4];
  return Array.from({ length: classes }, (_, i) => 1 + Math.round((i * (MOST - 1)) / (classes - 1)));
}
