// Finding a place by its name, in any script, with slips of the fingers; choosing one leads to it on the map.

import * as api from "./api.js";
import { areas } from "./areas.js";
import { el, fill } from "./dom.js";
import { fitness, spaced } from "./search.js";

const SHOWN = 8;
const LONGEST = 20_000; // areas of a level that are searched

/** The places of all levels that have a table of their own: { hierarchy, level, code, name, kind, above }. */
async function places(release, lang) {
  const found = [];
  for (const { name: hierarchy, levels } of release.hierarchies) {
    let before = null;
    for (const [i, { label, size }] of levels.entries()) {
      if (size > LONGEST) break;
      const known = await areas(release, hierarchy, i + 1, lang);
      if (!known) continue;
      known.codes.forEach((code, at) => {
        if (known.missing.has(code)) return;
        const name = known.labels[at];
        const above = before?.place.has(known.parents[code]) ? before.name(known.parents[code]) : "";
        found.push({ hierarchy, level: i + 1, code, name, plain: spaced(name), kind: label, above });
      });
      before = known;
    }
  }
  return found;
}

/** The places that fit what was typed: { place, score }. `others` has the names in other languages, in the same order. */
function fits(typed, all, others) {
  const wanted = spaced(typed);
  const score = (place, i) =>
    place.code === typed.trim() ? -1 : Math.min(...[place, ...others.map((named) => named[i])].map(({ plain }) => fitness(wanted, plain)));
  return all.map((place, i) => ({ place, score: score(place, i) })).filter((one) => one.score < Infinity);
}

const kept = new Map();

/** A field to type a name into, and below it the places that fit best. */
export function placeSearch({ state, release, words, go }) {
  const { say } = words;
  const list = el("ul", { class: "places", id: "places", "aria-label": say("placesFound") });
  const said = el("p", { class: "unseen", role: "status" });
  const field = el("input", {
    type: "search",
    id: "place",
    autocomplete: "off",
    placeholder: say("findPlace"),
    "aria-label": say("findPlace"),
    oninput: look,
    onkeydown: (event) => {
      if (event.key === "Enter") list.querySelector("button")?.click();
      else if (event.key === "ArrowDown") list.querySelector("button")?.focus();
      else return;
      event.preventDefault();
    },
  });
  return el("div", { class: "place-search" }, field, list, said);

  function known(lang) {
    const name = `${release.id} ${lang}`;
    if (!kept.has(name)) kept.set(name, places(release, lang));
    return kept.get(name);
  }

  async function look() {
    const typed = field.value;
    if (!spaced(typed)) return fill(list);
    const all = await known(words.lang);
    let found = fits(typed, all, []);
    if (!found.some(({ score }) => score <= 1)) {
      // Nothing has it in this language: the name may be one of another.
      const { languages } = await api.config();
      found = fits(typed, all, await Promise.all(languages.map(({ id }) => known(id))));
    }
    if (typed !== field.value) return undefined;
    const fitting = found.sort((a, b) => a.score - b.score || a.place.level - b.place.level || words.compare(a.place.name, b.place.name));
    said.textContent = words.count("placesCount", fitting.length);
    return fill(
      list,
      fitting.slice(0, SHOWN).map(({ place }) =>
        el(
          "li",
          {},
          el(
            "button",
            { type: "button", class: "place", onclick: () => lead(place) },
            el("span", {}, place.name),
            el("span", { class: "size" }, [place.kind, place.above].filter(Boolean).join(", ")),
          ),
        ),
      ),
      fitting.length ? null : el("li", { class: "hint" }, say("nothing")),
    );
  }

  /** To the map of its level, which goes to the place; where that table is not published, without the variables. */
  function lead({ hierarchy, level, code }) {
    const levels = { ...state.levels, [hierarchy]: level };
    const keys = release.find(levels, state.keys) ? state.keys : release.always;
    const { [hierarchy]: _, ...within } = state.within;
    field.value = "";
    fill(list);
    go({ levels, keys, within, view: "map", place: code });
    // On a phone the choices lie over the map: they have done their work.
    const toggle = document.getElementById("picker-toggle");
    if (getComputedStyle(toggle).pointerEvents !== "none") toggle.setAttribute("aria-expanded", "false");
    document.getElementById("content").focus();
  }
}
