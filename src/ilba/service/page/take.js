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

export function showTake(place, { table, meta, selection, cells, most, words, fail, measure, release }) {
  const { say } = words;
  const tooMany = cells > most;
  const asked = (format) => api.request(table.id, selection.list(), words.lang, format, measure);
  const files = FORMATS.map(([format, name]) => {
    const wanted = asked(format);
    const named = `${table.id.replaceAll(":", ".")}.${format === "json-stat2" ? "json" : format}`;
    const attributes = { id: `get-${format}`, class: "file", href: wanted.address, download: named };
    if (wanted.body || format === "csv") attributes.onclick = (event) => (event.preventDefault(), save(wanted));
    if (tooMany) return el("li", {}, el("span", { class: "file off", "aria-disabled": "true", role: "link" }, name));
    return el("li", {}, el("a", attributes, name));
  });
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
        el("h3", {}, `${say("downloads")} · ${words.count("cells", cells)}`),
        tooMany ? el("p", { class: "hint" }, say("tooMany", { n: words.number(cells), most: words.number(most) })) : null,
        el("ul", { class: "files" }, files),
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

  /** Lines that fetch the same table, to be pasted. */
  function snippets() {
    const address = `${new URL(asked("csv").address, location.href).href}&outputFormatParams=UseCodes`;
    // Codes are text: read as numbers, 0101 would become 101.
    const columns = (as) => meta.dimensions.map(({ code }) => as(JSON.stringify(code))).join(", ");
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
      // Excel reads a csv file as UTF-8 only behind this mark.
      const address = URL.createObjectURL(name.endsWith(".csv") ? new Blob(["\ufeff", content]) : content);
      el("a", { href: address, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    } catch (problem) {
      fail(problem);
    }
  }
}

/** The link and the way to the full page follow the address when the view changes a little. */
export function followLink() {
  const field = document.getElementById("link-text");
  if (field) field.value = location.href;
  const full = document.querySelector(".full-page a");
  if (full) full.href = fullPage();
}

/** The address of an embedded view with the page around it. */
export const fullPage = () => location.href.replace("/embed/", "/");
