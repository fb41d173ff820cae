// What is shown, as the part of the address after '#': a link brings anyone to the same view. The server never sees it.

const list = (text) => (text ? text.split(",").map(decodeURIComponent) : []);
const joined = (codes) => codes.map(encodeURIComponent).join(",");

export const VIEWS = ["map", "chart", "table"];
const PLAIN = { view: "", measure: "count", of: "-", kind: "", palette: "sea", cuts: "6", bars: "", colours: "", layout: "grouped", order: "", sort: "", q: "", mapped: "", place: "" };

/** The state that an address describes; what it does not say is left to `settle`. */
export function read(hash) {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  const state = { lang: said.get("lang"), release: said.get("release"), levels: null, keys: null };
  Object.assign(state, { within: {}, only: {}, pick: {}, page: Number(said.get("page")) || 1 });
  for (const [name, usual] of Object.entries(PLAIN)) state[name] = said.get(name) ?? usual;
  if (state.measure === "share") state.measure = "percent"; // as links of an earlier version say
  state.range = said.get("range") === "1";
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

/** The address of a settled state. */
export function write(state, release) {
  const said = new URLSearchParams();
  said.set("lang", state.lang);
  said.set("release", state.release);
  for (const [name, number] of Object.entries(state.levels))
    said.set(`level.${name}`, number ? release.level(name, number).code : "");
  said.set("by", joined(state.keys));
  for (const [name, { level, code }] of Object.entries(state.within))
    said.set(`in.${name}`, `${release.level(name, level).code}:${code}`);
  for (const [code, values] of Object.entries(state.only)) said.set(`only.${code}`, joined(values));
  for (const [code, value] of Object.entries(state.pick)) said.set(`pick.${code}`, value);
  for (const [name, usual] of Object.entries(PLAIN)) if (state[name] !== usual) said.set(name, state[name]);
  if (state.range) said.set("range", "1");
  if (state.across) said.set("across", "1");
  if (!state.zeros) said.set("zeros", "0");
  if (state.page > 1) said.set("page", String(state.page));
  return `#${said}`;
}

/** Complete a state from an address by what the release holds: level columns become numbers, unknown names go. */
export function settle(state, release) {
  const settled = { ...state, release: release.id, within: {} };
  if (state.levels === null && state.keys === null) Object.assign(settled, release.beginning());
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
