// Areas that a reader puts together: drawn on the map or named by codes, several at once, as numbers and as a file. They
// are sums of published counts, so they are offered where tables add up.

import * as api from "./api.js";
import { Dataset } from "./dataset.js";
import { el, fill } from "./dom.js";
import { lacking } from "./measures.js";
import { first } from "./ranks.js";

const kept = new Map(); // own areas by release and level

/** Whether a point lies inside a polygon. */
export function within([x, y], polygon) {
  let found = false;
  polygon.forEach(([ax, ay], i) => {
    const [bx, by] = polygon.at(i - 1);
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) found = !found;
  });
  return found;
}

/** The part of the map's view that puts areas together; nothing where tables do not add up. */
export function ownAreas({ state, release, table, meta, selection, shown, words, fail }, mapped, fixed, canvas) {
  if (!release.additive) return null;
  const { say } = words;
  const place = `${release.id} ${mapped.code}`;
  if (!kept.has(place)) kept.set(place, []);
  const areas = kept.get(place);
  const [time, when] = [meta.dimension(release.time), fixed.values[release.time]];
  // The service combines areas of the first hierarchy of a table; of another one, everybody is counted.
  const isShown = meta.dimensions.find(({ code, hierarchy }) => hierarchy && !fixed.dropped.includes(code)) === mapped;
  const name = el("input", { type: "text", id: "own-name", maxlength: "200", value: say("ownNamed", { n: areas.length + 1 }) });
  const codes = el("input", { type: "text", id: "own-codes", autocomplete: "off" });
  const said = el("p", { class: "hint", role: "status" });
  const rules = el("ul", { class: "hint", id: "own-rules" });
  const result = el("div", { id: "own-result" });
  const draw = el("button", { type: "button", id: "own-draw", "aria-pressed": "false", onclick: drawing }, say("ownDraw"));
  const field = (input, text) => el("label", { class: "field", for: input.id }, el("span", {}, text), input);
  const details = el(
    "details",
    { id: "own", ontoggle: () => details.open && told() },
    el("summary", {}, say("own")),
    el("p", { class: "hint" }, say("ownNote")),
    rules,
    el(
      "div",
      { class: "bar-tools" },
      field(name, say("ownName")),
      field(codes, say("ownCodes", { name: mapped.label })),
      el("button", { type: "button", id: "own-add", onclick: () => add(codes.value.split(/[\s,;]+/).filter(Boolean)) }, say("ownAdd")),
      draw,
    ),
    said,
    result,
  );
  if (areas.length) show();
  return details;

  /** The rules are read before anything is asked. */
  async function told() {
    if (rules.childElementCount) return;
    const answer = await api.rules(words.lang).catch(fail);
    if (answer) fill(rules, answer.rules.map((text) => el("li", {}, text)));
  }

  function drawing() {
    const map = canvas();
    const on = draw.getAttribute("aria-pressed") !== "true";
    draw.setAttribute("aria-pressed", String(on));
    if (on) {
      said.textContent = say("ownDrawing");
      map.drawn = [];
      map.host.focus();
      return;
    }
    const polygon = map.drawn ?? [];
    map.drawn = null;
    map.redraw();
    add(polygon.length < 3 ? [] : mapped.codes.filter((code) => map.shapes.has(code) && within(map.shapes.get(code).centre, polygon)));
  }

  function add(list) {
    const known = [...new Set(list)];
    const wrong = known.find((code) => !mapped.place.has(code));
    said.textContent = wrong !== undefined ? say("ownUnknown", { code: wrong }) : known.length ? "" : say("ownNothing");
    if (said.textContent) return;
    let called = name.value.trim() || say("ownNamed", { n: areas.length + 1 });
    while (areas.some((one) => one.name === called)) called += "′";
    areas.push({ name: called, codes: known });
    name.value = say("ownNamed", { n: areas.length + 1 });
    codes.value = "";
    show();
  }

  async function show() {
    if (!areas.length) return fill(result);
    let counts;
    try {
      counts = await countsOf();
    } catch (problem) {
      said.textContent = problem.detail || problem.message;
      counts = () => "–";
    }
    const unit = release.unit || say("count");
    const everybody = [release.unit ? say("allUnits", { unit }) : say("everybody"), time?.name(when)];
    const counted = (isShown ? [unit, ...fixed.said] : everybody).filter(Boolean).join(", ");
    const rows = areas.map((one, i) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, one.name),
        el("td", { class: "number" }, words.number(one.codes.length)),
        el("td", { class: "number" }, counts(one)),
        el("td", {}, el("button", { type: "button", class: "text", "aria-label": `${say("ownRemove")}: ${one.name}`, onclick: () => (areas.splice(i, 1), show()) }, say("ownRemove"))),
      ),
    );
    const head = [say("ownName"), mapped.label, counted, ""].map((text) => el(text ? "th" : "td", text ? { scope: "col" } : {}, text));
    return fill(
      result,
      el("table", { class: "place-table" }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)),
      el("button", { type: "button", id: "own-get", onclick: save }, say("ownGet")),
    );
  }

  /** The counts of what the map shows, or in words why there is none. */
  async function countsOf() {
    const from = isShown ? release.without(state.levels, state.keys, fixed.dropped) : release.find({ [mapped.hierarchy]: mapped.level }, release.always);
    if (!from) return () => "–";
    const set = Dataset.of(await api.own(from.id, areas, words.lang));
    const summed = isShown ? shown.summed.map((code) => [code, selection.codes(code)]) : [];
    return ({ name: called, codes: inside }) => {
      const gone = lacking(mapped, inside, when);
      if (gone.length) return say("partNotIn", { name: first(words, gone), time: time.name(when) });
      const count = set.sum({ ...fixed.values, own_area: called }, summed);
      return count === undefined ? "–" : words.number(count);
    };
  }

  async function save() {
    try {
      const { content } = await api.file(api.ownRequest(table.id, areas, words.lang, "csv"));
      const address = URL.createObjectURL(content);
      el("a", { href: address, download: "areas.csv" }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    } catch (problem) {
      said.textContent = problem.detail || problem.message;
    }
  }
}
