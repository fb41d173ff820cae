// What is shown, as an address: /table/ID?lang=.. names the table, and what stands after '#' the view of it. A link
// brings anyone to the same view; the server sees the table and the language alone. The address says the time or the
// times that are shown, so that it shows the same numbers when a newer time is published; without one it means the newest.

const list = (text) => (text ? text.split(",").map(decodeURIComponent) : []);
const joined = (codes) => codes.map(encodeURIComponent).join(",");

export const VIEWS = ["map", "chart", "table"];
const PLAIN = { view: "", measure: "count", of: "-", kind: "", palette: "sea", cuts: "6", bars: "", colours: "", layout: "grouped", multiples: "", order: "", sort: "", q: "", mapped: "", place: "" };

/** The table that an address names, and whether it stands in the page of somebody else. */
const NAMED = /^(\/embed)?\/table\/(.+)$/;

/** The state that an address describes; what it does not say is left to `settle`. */
export function read({ hash, search = "", pathname = "/" }) {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  const asked = new URLSearchParams(search);
  const state = { lang: said.get("lang") ?? asked.get("lang"), release: said.get("release"), wave: said.get("wave"), levels: null, keys: null };
  state.table = NAMED.test(pathname) ? decodeURIComponent(NAMED.exec(pathname)[2]) : null;
  Object.assign(state, { within: {}, only: {}, pick: {}, page: Number(said.get("page")) || 1 });
  for (const [name, usual] of Object.entries(PLAIN)) state[name] = said.get(name) ?? usual;
  if (state.measure === "share") state.measure = "percent"; // as links of an earlier version say
  state.range = said.get("range") === "1";
  state.about = said.get("about") === "1"; // leads to the explanation, once
  state.across = said.get("across") === "1";
  state.zeros = said.get("zeros") !== "0";
  for (const [name, value] of said) {
    const [kind, ...rest] = name.split(".");
    const of = rest.join(".");
    if (kind === "level") (state.levels ??= {})[of] = value;
    else if (kind === "by") state.keys = list(value);
    else if (kind === "only") state.only[of] = list(value);
    else if (kind === "pick") state.pick[of] = value;
    else if (kind === "in") {
      const [column, ...code] = value.split(":");
      state.within[of] = { column, code: code.join(":") };
    }
  }
  return state;
}

/** The address of a settled state: of its table where that is published, else with all in the part after '#'. */
export function write(state, release) {
  const said = new URLSearchParams();
  const table = release.find(state.levels, state.keys);
  if (!table) {
    said.set("release", state.release);
    for (const [name, number] of Object.entries(state.levels))
      said.set(`level.${name}`, number ? release.level(name, number).code : "");
    said.set("by", joined(state.keys));
  }
  // A release that is served alone has no name in the address: its wave tells it from those that come later.
  if (table && !table.id.includes(":") && release.wave) said.set("wave", release.wave);
  for (const [name, { level, code }] of Object.entries(state.within))
    said.set(`in.${name}`, `${release.level(name, level).code}:${code}`);
  for (const [code, values] of Object.entries(state.only)) said.set(`only.${code}`, joined(values));
  for (const [code, value] of Object.entries(state.pick)) if (!state.times || code !== release.time) said.set(`pick.${code}`, value);
  if (state.times) said.set(`only.${release.time}`, joined(state.times));
  for (const [name, usual] of Object.entries(PLAIN)) if (state[name] !== usual) said.set(name, state[name]);
  if (state.range) said.set("range", "1");
  if (state.across) said.set("across", "1");
  if (!state.zeros) said.set("zeros", "0");
  if (state.page > 1) said.set("page", String(state.page));
  const embed = NAMED.exec(location.pathname)?.[1] ?? "";
  const path = table ? `${embed}/table/${encodeURIComponent(table.id).replaceAll("%3A", ":")}` : "/";
  return `${path}?lang=${encodeURIComponent(state.lang)}${said.size ? `#${said}` : ""}`;
}

/** Complete a state from an address by what the release holds: level columns become numbers, unknown names go. */
export function settle(state, release) {
  const settled = { ...state, release: release.id, wave: null, within: {}, table: null };
  const named = state.levels === null && state.keys === null && release.named(state.table);
  if (named) Object.assign(settled, { levels: { ...named.levels }, keys: [...named.keys] });
  else if (state.levels === null && state.keys === null) Object.assign(settled, release.beginning());
  else {
    settled.levels = {};
    for (const [name, column] of Object.entries(state.levels ?? {})) {
      const known = release.hierarchy(name)?.levels ?? [];
      const number = typeof column === "number" ? column : known.findIndex(({ code }) => code === column) + 1;
      if (number >= 1 && number <= known.length) settled.levels[name] = number;
    }
    settled.keys = (state.keys ?? []).filter((code) => release.keys.some((key) => key.code === code));
  }
  // A series has a time in every table.
  if (release.time && !settled.keys.includes(release.time)) settled.keys = [...settled.keys, release.time];
  for (const { name, levels } of release.hierarchies) {
    settled.levels[name] ??= 0;
    const within = state.within[name];
    if (!within) continue;
    const level = within.level ?? levels.findIndex(({ code }) => code === within.column) + 1;
    if (level >= 1 && level < settled.levels[name]) settled.within[name] = { level, code: within.code };
  }
  const there = new Set(release.variables(settled.levels, settled.keys).map(({ code }) => code));
  settled.only = Object.fromEntries(Object.entries(state.only).filter(([code]) => there.has(code)));
  settled.pick = Object.fromEntries(Object.entries(state.pick).filter(([code]) => there.has(code)));
  const hasAreas = Object.values(settled.levels).some(Boolean);
  if (!VIEWS.includes(settled.view)) settled.view = hasAreas ? "map" : "chart";
  return settled;
}
