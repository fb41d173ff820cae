// Names and parents of the areas of a level, and the way from an area up to the whole.

import * as api from "./api.js";
import { Dataset } from "./dataset.js";
import { el } from "./dom.js";

/** The areas of a level: a dimension with codes, labels and parents; undefined when no table has that level. */
export async function areas(release, hierarchy, number, lang) {
  const table = release.smallest(hierarchy, number);
  if (!table) return undefined;
  const known = Dataset.of(await api.metadata(table.id, lang));
  return known.dimension(release.level(hierarchy, number).code);
}

/** From the coarsest area down to this one: a list of { level, code, label }. */
export async function path(release, hierarchy, { level, code }, lang) {
  const found = [];
  let below = code;
  for (let number = level; number >= 1 && below !== undefined; number -= 1) {
    const known = await areas(release, hierarchy, number, lang);
    if (!known || !known.place.has(below)) break;
    found.unshift({ level: number, code: below, label: known.name(below) });
    below = known.parents[below];
  }
  return found;
}

/** Which codes of a dimension lie inside an area of a coarser level. */
export async function inside(release, dimension, within, lang) {
  let up = (code) => dimension.parents[code];
  for (let number = dimension.level - 1; number > within.level; number -= 1) {
    const known = await areas(release, dimension.hierarchy, number, lang);
    if (!known) return dimension.codes;
    const before = up;
    up = (code) => known.parents[before(code)];
  }
  return dimension.codes.filter((code) => up(code) === within.code);
}

/** A link to the page of a place, with the numbers of the time that is shown. */
export function placeLink({ state, release, words }, column, code, name, id) {
  const path = [release.id, column, code].map(encodeURIComponent).join("/");
  const time = state.view === "table" ? undefined : state.pick[release.time];
  const query = new URLSearchParams({ lang: words.lang, ...(time === undefined ? {} : { time }) });
  return el("a", { id, href: `/place/${path}?${query}` }, words.say("placePage", { name }));
}
