// Asking the server: addresses, answers kept for the life of the page, and problems in words.

const ROOT = "/api/v2";
const LONGEST = 4000; // characters of an address; a longer request goes into the body
const kept = new Map();

// What every view needs came with the page.
const told = JSON.parse(document.getElementById("told").textContent || "null");
if (told) {
  kept.set(`${ROOT}/config`, Promise.resolve(told.config));
  kept.set(`${ROOT}/releases?lang=${told.lang}`, Promise.resolve(told.releases));
}

/** An answer that is not what was asked for; status 0 when the server could not be reached. */
export class Problem extends Error {
  constructor(status, title, detail = "") {
    super(title);
    this.status = status;
    this.detail = detail;
  }
}

async function ask(address, body) {
  let answer;
  try {
    const sent = body && {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    };
    answer = await fetch(address, sent);
  } catch {
    throw new Problem(0, "offline");
  }
  if (answer.ok) return answer;
  let told = {};
  try {
    told = await answer.json();
  } catch {
    // A proxy in between may answer in HTML; the status says enough then.
  }
  throw new Problem(answer.status, told.title || answer.statusText || String(answer.status), told.detail || "");
}

function once(address, body) {
  const name = body ? `${address} ${JSON.stringify(body)}` : address;
  if (!kept.has(name)) {
    const answer = ask(address, body).then((each) => each.json());
    kept.set(name, answer);
    answer.catch(() => kept.delete(name)); // the next try asks again
  }
  return kept.get(name);
}

export const releases = (lang) => once(`${ROOT}/releases?lang=${lang}`);
export const config = () => once(`${ROOT}/config`);
export const metadata = (table, lang, parts = []) =>
  once(`${ROOT}/tables/${encodeURIComponent(table)}/metadata?lang=${lang}${parts.map((one) => inner(one.code, one)).join("")}`);
export function geometry(release, column, asked = {}) {
  const said = new URLSearchParams(Object.entries(asked).filter(([, value]) => value));
  return once(`${ROOT}/geometry/${encodeURIComponent(release)}/${encodeURIComponent(column)}${said.size ? `?${said}` : ""}`);
}

/** What asks for the areas inside one of a coarser level. */
const inner = (code, { list, area }) => {
  const name = encodeURIComponent(code);
  return `&codelist[${name}]=${encodeURIComponent(list)}&valuecodes[${name}]=${encodeURIComponent(area)}&outputValues[${name}]=single`;
};

/**
 * How to ask for the values of a table. `selection` is a list of { code, values, inside }, values null for all of them,
 * or for all inside an area of a coarser level.
 * The address alone is enough for most; long lists and codes that look like expressions are sent as a body.
 */
export function request(table, selection, lang, format, measure) {
  const name = measure && measure.name !== "count" ? `&measure=${measure.name}` : "";
  const of = name && measure.of ? `&of=${encodeURIComponent(measure.of.map(quoted).join(","))}` : "";
  const range = measure?.ranged && ["json-stat2", "csv"].includes(format) ? "&range=true" : "";
  const address = `${ROOT}/tables/${encodeURIComponent(table)}/data?lang=${lang}&outputFormat=${format}${name}${of}${range}`;
  if (selection.every(({ values, inside }) => values === null && !inside)) return { address, body: null };
  const plain = selection.every(({ values }) => values === null || values.every((code) => !/[,[\]*?()]/.test(code)));
  const asked = selection.map(
    ({ code, values, inside }) =>
      values === null && inside
        ? inner(code, inside)
        : `&valuecodes[${encodeURIComponent(code)}]=${values === null ? "*" : values.map(encodeURIComponent).join(",")}`,
  );
  const whole = address + asked.join("");
  if (plain && whole.length <= LONGEST) return { address: whole, body: null };
  const listed = selection.map(({ code, values, inside }) =>
    values === null && inside
      ? { variableCode: code, valueCodes: [inside.area], codelist: inside.list, outputValues: "single" }
      : { variableCode: code, valueCodes: values ?? ["*"] },
  );
  return { address, body: { selection: listed } };
}

export const rules = (lang) => once(`${ROOT}/rules?lang=${lang}`);

/** How to ask for areas that were put together: a list of { name, codes }. */
export function ownRequest(table, areas, lang, format) {
  return { address: `${ROOT}/tables/${encodeURIComponent(table)}/areas?lang=${lang}&outputFormat=${format}`, body: { areas } };
}

export function own(table, areas, lang) {
  const { address, body } = ownRequest(table, areas, lang, "json-stat2");
  return once(address, body);
}

const quoted = (text) => (/[,"[]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** The values of a table as JSON-stat. */
export function data(table, selection, lang, measure) {
  const { address, body } = request(table, selection, lang, "json-stat2", measure);
  return once(address, body);
}

/** A file for the reader, asked for with a body: its content and the name the server gave it. */
export async function file({ address, body }) {
  const answer = await ask(address, body);
  const named = /filename\*=UTF-8''([^;]+)/.exec(answer.headers.get("Content-Disposition") ?? "");
  return { content: await answer.blob(), name: named ? decodeURIComponent(named[1]) : "table" };
}
