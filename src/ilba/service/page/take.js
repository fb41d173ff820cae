// What a reader takes along: files of the selection, the link to the view, and the address for programs.

import * as api from "./api.js";
import { el, fill } from "./dom.js";

const FORMATS = [
  ["csv", "CSV"],
  ["xlsx", "Excel"],
  ["parquet", "Parquet"],
  ["px", "PX"],
  ["json-stat2", "JSON-stat"],
];

let follow = () => {};

/** The name of a table's file in readable letters, as the service gives it. */
function fileName(id) {
  const at = id.lastIndexOf(":") + 1;
  return id.slice(0, at).replaceAll(":", ".") + decodeURIComponent(id.slice(at)).replace(/[<>:"/\\|?*\p{Cc}]|^\./gu, "_");
}

export function showTake(place, { table, meta, selection, cells, most, words, fail, measure, release, shown }) {
  const { say } = words;
  // The files have what the view shows; before that is known, everything that is chosen.
  const { from, list, summed, set, ...own } = shown.set ? shown : { from: table, list: selection.list(), summed: [], measure };
  const n = list.reduce((product, { code, values }) => product * (values ?? meta.dimension(code).codes).length, 1);
  const tooMany = n > most;
  const asked = (format) => api.request(from.id, list, words.lang, format, own.measure);
  const files = FORMATS.map(([format, name]) => {
    const wanted = asked(format);
    const named = `${fileName(from.id)}.${format === "json-stat2" ? "json" : format}`;
    const attributes = { id: `get-${format}`, class: "file", href: wanted.address, download: named };
    if (wanted.body || format === "csv") attributes.onclick = (event) => (event.preventDefault(), save(wanted));
    if (tooMany) return el("li", {}, el("span", { class: "file off", "aria-disabled": "true", role: "link" }, name));
    return el("li", {}, el("a", attributes, name));
  });
  if (summed.length)
    files.unshift(el("li", {}, el("button", { type: "button", id: "get-sum", class: "file", onclick: () => hand(written(), `${fileName(from.id)}.sum.csv`) }, `${say("sumFile")} · ${words.count("cells", set.cells)}`)));
  const hints = [summed.length ? say("parts") : n < cells ? say("onlyShown") : "", say("csvNotes")];
  place.hidden = false;
  const program = asked("json-stat2");
  const docs = el("a", { href: "/api/v2/openapi.json" }, "OpenAPI");
  const [before, after] = say("apiNote", { docs: "\u0000" }).split("\u0000");
  fill(
    place,
    el("h2", { id: "take-name" }, say("take")),
    el(
      "div",
      { class: "take-parts" },
      el(
        "div",
        {},
        el("h3", {}, summed.length ? say("downloads") : `${say("downloads")} · ${words.count("cells", n)}`),
        tooMany ? el("p", { class: "hint" }, say("tooMany", { n: words.number(n), most: words.number(most) })) : null,
        el("ul", { class: "files" }, files),
        tooMany ? null : el("p", { class: "hint", id: "files-hint" }, hints.filter(Boolean).join(" ")),
      ),
      el("div", {}, el("h3", { id: "link-name" }, say("link")), copied("link", location.href)),
    ),
    el(
      "details",
      { id: "programs" },
      el("summary", {}, say("forPrograms")),
      el("p", { class: "hint" }, program.body ? say("apiPost") : [before, docs, after]),
      copied("api", new URL(program.address, location.href).href),
      program.body ? el("pre", { tabindex: "0" }, JSON.stringify(program.body)) : snippets(),
    ),
    el("h3", { id: "cite-name" }, say("cite")),
    copied("cite", citation()),
    el("h3", { id: "embed-name" }, say("embed")),
    copied("embed", embedding()),
  );

  follow = () => {
    const now = { link: location.href, cite: citation(), embed: embedding() };
    for (const [name, text] of Object.entries(now)) document.getElementById(`${name}-text`).value = text;
  };

  /** Lines that fetch the same table, to be pasted. */
  function snippets() {
    const address = `${new URL(asked("csv").address, location.href).href}&outputFormatParams=UseCodes`;
    // Codes are text: read as numbers, 0101 would become 101.
    const columns = (as) => list.map(({ code }) => as(JSON.stringify(code))).join(", ");
    const written = {
      Python: `import polars as pl\nfrom urllib.request import urlopen\n\ncodes = [${columns((code) => code)}]\ntable = pl.read_csv(urlopen("${address}").read(), schema_overrides=dict.fromkeys(codes, pl.String))`,
      R: `table <- read.csv("${address}", check.names = FALSE, colClasses = c(${columns((code) => `${code} = "character"`)}))`,
      curl: `curl -g -o table.csv "${address}"`,
    };
    return Object.entries(written).map(([name, text]) => el("div", {}, el("h3", {}, name), el("pre", { tabindex: "0", id: `snippet-${name.toLowerCase()}` }, text)));
  }

  /** The lines that show this view in another page. */
  function embedding() {
    const title = document.getElementById("title").textContent.replaceAll("&", "&amp;").replaceAll('"', "&quot;");
    const address = location.href.replace(`${location.origin}/table/`, `${location.origin}/embed/table/`);
    return `<iframe src="${address.replaceAll("&", "&amp;")}" title="${title}" width="100%" height="640" loading="lazy"></iframe>`;
  }

  function citation() {
    const parts = [release.source, release.title, document.getElementById("title").textContent, words.date(release.created), release.licence, release.note(words).replace(/\.$/, "")];
    return `${parts.filter(Boolean).join(". ")}. ${location.href}`;
  }

  function copied(name, text) {
    const field = el("input", { id: `${name}-text`, type: "text", readonly: "", value: text, "aria-label": say({ link: "link", cite: "cite", embed: "embed" }[name] ?? "forPrograms") });
    const button = el(
      "button",
      {
        type: "button",
        id: `copy-${name}`,
        onclick: async () => {
          field.select();
          try {
            await navigator.clipboard.writeText(field.value);
          } catch {
            document.execCommand("copy"); // plain http has no clipboard
          }
          said.textContent = say("copied");
        },
      },
      say("copy"),
    );
    const said = el("span", { class: "hint", role: "status" });
    return el("div", { class: "copy" }, field, button, said);
  }

  async function save(wanted) {
    try {
      const { content, name } = await api.file(wanted);
      hand(content, name);
    } catch (problem) {
      fail(problem);
    }
  }

  function hand(content, name) {
    // Excel reads a csv file as UTF-8 only behind this mark.
    const address = URL.createObjectURL(name.endsWith(".csv") ? new Blob(["\ufeff", content]) : content);
    el("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  /** The sums that are shown, as csv: the page has added them up, so no address gives them. */
  function written() {
    const quoted = (one) => (typeof one === "number" || one === null ? (one ?? "") : `"${one.replaceAll('"', '""')}"`);
    const added = summed.map((code) => selection.codes(code).map((one) => meta.dimension(code).name(one)).join(" + "));
    const head = [...set.dimensions.map(({ label }) => label), ...summed.map((code) => meta.dimension(code).label), own.measure.heading];
    const rows = set.rows().map((row) => [...row.slice(0, -1), ...added, row.at(-1) === null ? null : Number(row.at(-1).toFixed(3))]);
    return [head, ...rows].map((row) => `${row.map(quoted).join(",")}\n`).join("");
  }
}

/** What is copied and the way to the full page follow the address when the view changes a little. */
export function followLink() {
  follow();
  const full = document.querySelector(".full-page a");
  if (full) full.href = fullPage();
}

/** The address of an embedded view with the page around it. */
export const fullPage = () => location.href.replace("/embed/", "/");
