// Choosing what to see: the publication, a level for each hierarchy, variables and their values. Only what is published
// can be chosen.

import { areas } from "./areas.js";
import { choice, el, fill } from "./dom.js";
import { placeSearch } from "./places.js";
import { folded } from "./search.js";

const LONG = 12; // values from which a search helps
const SHOWN = 150; // values drawn at once; the search finds the others

export async function showPicker(place, { state, release, releases, meta, selection, words, go, current }) {
  const { say } = words;
  const parts = [];
  if (releases.length > 1) {
    // A wave that is part of a series is reached by its time; alone it is shown to those who have a link to it.
    const own = releases.filter(({ id, series }) => !series || id === release.id);
    const options = own.map(({ id, title, wave, time }) => [id, wave && !time ? `${title}, ${wave}` : title]);
    const alike = (id) => releases.find((one) => one.id === id).population === release.population && release.population;
    if (own.length > 1)
      parts.push(choice("release", say("release"), options, release.id, (id) => go({ release: id, fresh: !alike(id) })));
  }
  parts.push(placeSearch({ state, release, words, go }));
  parts.push(...(await Promise.all(release.hierarchies.map(levels))));
  if (release.keys.some(({ code }) => code !== release.time)) parts.push(variables());
  if (meta?.dimensions.length) parts.push(values());
  current();
  fill(place, parts);

  async function levels({ name, label, levels: known }) {
    const alone = release.hierarchies.length === 1;
    const offered = [{ label: alone ? say("noArea") : say("noLevel"), number: 0 }];
    offered.push(...known.map((level, i) => ({ ...level, number: i + 1 })));
    const why = reasons();
    const options = offered.map(({ label: text, size, number }) => {
      const levels = { ...state.levels, [name]: number };
      const there = release.find(levels, state.keys);
      const reason = there ? {} : why.of(`no-level-${name}`, levels, state.keys);
      return el(
        "label",
        { class: there ? "option" : "option off", title: reason.title },
        el("input", {
          type: "radio",
          "aria-describedby": reason.id,
          name: `level-${name}`,
          id: `level-${name}-${number}`,
          checked: (state.levels[name] ?? 0) === number,
          disabled: !there && state.levels[name] !== number,
          onchange: () => go({ levels: { ...state.levels, [name]: number } }),
        }),
        el("span", {}, text),
        number ? el("span", { class: "size" }, words.number(size)) : null,
      );
    });
    const title = alone ? say("areaLevel") : label.charAt(0).toUpperCase() + label.slice(1);
    return el("fieldset", { id: `levels-${name}` }, el("legend", {}, title), options, why.hints(), await inside(name));
  }

  /** The areas of the coarser levels, to look at one of them only. */
  async function inside(name) {
    const number = state.levels[name];
    if (number < 2) return null;
    const above = Array.from({ length: number - 1 }, (_, i) => i + 1);
    const known = await Promise.all(above.map((one) => areas(release, name, one, words.lang)));
    const groups = above
      .filter((one) => known[one - 1]?.codes.length > 1)
      .map((one) => ({
        group: release.level(name, one).label,
        options: known[one - 1].codes.map((code, i) => [`${one}:${code}`, known[one - 1].labels[i]]),
      }));
    if (!groups.length) return null;
    const now = state.within[name];
    return choice(
      `within-${name}`,
      say("within"),
      [["", say("everywhere")], ...groups],
      now ? `${now.level}:${now.code}` : "",
      (value) => {
        const { [name]: _, ...others } = state.within;
        const [level, ...code] = value.split(":");
        go({ within: value ? { ...others, [name]: { level: Number(level), code: code.join(":") } } : others });
      },
    );
  }

  /** Why something cannot be chosen, to be read below; each reason once. */
  function reasons() {
    const found = new Map();
    return {
      of(name, levels, keys) {
        const together = release.excluded(levels, keys);
        const text = together ? say("excluded", { list: words.listing(together) }) : say("notPublished");
        if (!found.has(text)) found.set(text, together ? `${name}-excluded-${found.size}` : name);
        return { id: found.get(text), title: together ? text : null };
      },
      hints: () => [...found].map(([text, id]) => el("p", { class: "hint", id }, text)),
    };
  }

  function variables() {
    const why = reasons();
    const options = release.keys.filter(({ code }) => code !== release.time).map(({ code, label, size }) => {
      const chosen = state.keys.includes(code);
      const keys = chosen ? state.keys.filter((one) => one !== code) : [...state.keys, code];
      const there = Boolean(release.find(state.levels, keys));
      const reason = there ? {} : why.of("not-published", state.levels, keys);
      return el(
        "label",
        { class: there ? "option" : "option off", title: reason.title },
        el("input", {
          type: "checkbox",
          id: `key-${code}`,
          checked: chosen,
          disabled: !there,
          "aria-describedby": reason.id,
          onchange: () => go({ keys }),
        }),
        el("span", {}, label),
        el("span", { class: "size" }, words.number(size)),
      );
    });
    return el("fieldset", { id: "keys" }, el("legend", {}, say("variables")), options, why.hints());
  }

  function values() {
    return el(
      "fieldset",
      { id: "values", class: "values" },
      el("legend", {}, say("values")),
      meta.dimensions.map((dimension) => filter(dimension)),
    );
  }

  function filter(dimension) {
    const offered = selection.offered.get(dimension.code) ?? dimension.codes;
    const chosen = state.only[dimension.code]?.filter((code) => offered.includes(code)) ?? [];
    const told = chosen.length
      ? say("someOf", { k: words.number(chosen.length), n: words.number(offered.length) })
      : say("allOf", { n: words.number(offered.length) });
    const list = el("div", { class: "checks", id: `checks-${dimension.code}`, "data-scroll": "" });
    const search = el("input", {
      type: "search",
      value: document.getElementById(`find-${dimension.code}`)?.value ?? "",
      id: `find-${dimension.code}`,
      placeholder: say("find"),
      "aria-label": say("findIn", { name: dimension.label }),
      oninput: () => draw(),
      onkeydown: (event) => event.key === "Enter" && event.preventDefault(),
    });
    const details = el(
      "details",
      { id: `filter-${dimension.code}`, class: "filter", ontoggle: () => details.open && draw() },
      el("summary", {}, el("span", {}, dimension.label), el("span", { class: "size" }, told)),
      offered.length > LONG ? search : null,
      list,
      chosen.length
        ? el(
            "button",
            { type: "button", class: "text", id: `clear-${dimension.code}`, onclick: () => choose([]) },
            say("clear"),
          )
        : null,
    );
    if (document.getElementById(details.id)?.open) draw(); // it stays open, and the focus may be inside
    return details;

    function choose(codes) {
      const { [dimension.code]: _, ...others } = state.only;
      const some = codes.length && codes.length < offered.length;
      go({ only: some ? { ...others, [dimension.code]: codes } : others });
    }

    // Lists may be long, so they are drawn when they are opened, and the chosen values come first.
    function draw() {
      const wanted = folded(search.value.trim());
      const fits = (code) => !wanted || folded(dimension.name(code)).includes(wanted) || folded(code).includes(wanted);
      const found = offered.filter(fits);
      if (found.length > SHOWN) found.sort((a, b) => chosen.includes(b) - chosen.includes(a));
      const boxes = found.slice(0, SHOWN).map((code) =>
        el(
          "label",
          { class: "option" },
          el("input", {
            type: "checkbox",
            id: `only-${dimension.code}-${code}`,
            checked: chosen.includes(code),
            onchange: ({ target }) => {
              const rest = chosen.filter((one) => one !== code);
              const now = target.checked ? [...rest, code] : rest;
              choose(offered.filter((one) => now.includes(one)));
            },
          }),
          el("span", {}, dimension.name(code)),
        ),
      );
      const hidden = found.length - SHOWN;
      const rest = hidden > 0 ? el("p", { class: "hint" }, words.count("more", hidden)) : null;
      fill(list, boxes, rest);
    }
  }
}
