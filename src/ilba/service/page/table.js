// The table: sorted, searched and paged in the page itself; one row per combination, or the last variable across.

import { el, fill } from "./dom.js";
import { absence } from "./measures.js";
import { folded } from "./search.js";

const ROWS = 50;
const SHORT = 24; // letters of a name that stays on one line
const WIDEST = 40; // values that can stand across

export async function showTable(place, context) {
  const { state, meta, words, ask, go, tell, measure, entitle } = context;
  const { say } = words;
  const set = await ask(meta.dimensions.map(({ code }) => code), {}, measure);
  const dimensions = set.dimensions;
  measure.fit(set.value);
  const single = dimensions.filter(({ code, codes }) => codes.length === 1 && meta.dimension(code).codes.length > 1);
  const title = measure.title(dimensions.filter((one) => !single.includes(one)), single.map(({ labels }) => labels[0]));
  entitle(title);
  const last = dimensions.at(-1);
  const canTurn = dimensions.length > 1 && last.codes.length <= WIDEST;
  const across = canTurn && state.across ? last : null;
  const down = across ? dimensions.slice(0, -1) : dimensions;
  const width = across ? across.codes.length : 1;
  const all = set.cells / width;

  const steps = [];
  let step = 1;
  for (let i = down.length - 1; i >= 0; i -= 1) {
    steps[i] = step;
    step *= down[i].codes.length;
  }
  const part = (row, i) => Math.floor(row / steps[i]) % down[i].codes.length;
  const count = (row, column) => set.value[row * width + column];
  const why = absence(context, measure, set);
  const codesAt = (row, column) =>
    Object.fromEntries([...down.map(({ code, codes }, i) => [code, codes[part(row, i)]]), ...(across ? [[across.code, across.codes[column]]] : [])]);

  const bar = el(
    "div",
    { class: "bar-tools" },
    el(
      "label",
      { class: "field", for: "search" },
      el("span", {}, say("search")),
      el("input", {
        type: "search",
        id: "search",
        value: state.q,
        oninput: ({ target }) => {
          state.q = target.value;
          state.page = 1;
          draw();
          go({ q: target.value, page: 1 }, { quietly: true });
        },
      }),
    ),
    measure.controls,
    canTurn ? box("across", state.across, { across: !state.across, sort: "", page: 1 }) : null,
    box("zeros", state.zeros, { zeros: !state.zeros, page: 1 }),
  );
  const body = el("div", { class: "table-body" });
  fill(place, bar, body);
  draw();

  function box(name, checked, changes) {
    return el(
      "label",
      { class: "option", for: `box-${name}` },
      el("input", { type: "checkbox", id: `box-${name}`, checked, onchange: () => go(changes) }),
      el("span", {}, say(name)),
    );
  }

  /** The column that is sorted by and its direction; a code in the column's name may hold any letter. */
  function sorting() {
    const cut = state.sort.lastIndexOf(":");
    return [state.sort.slice(0, Math.max(cut, 0)), state.sort.slice(cut + 1)];
  }

  function rows() {
    const terms = folded(state.q).trim().split(/\s+/).filter(Boolean);
    // For each word and dimension: which of its values have it. A row fits when every word is somewhere in it.
    const hits = terms.map((term) =>
      down.map(({ codes, labels }) =>
        codes.map((code, i) => folded(labels[i]).includes(term) || folded(code).includes(term)),
      ),
    );
    const found = [];
    for (let row = 0; row < all; row += 1) {
      if (!hits.every((has) => has.some((values, i) => values[part(row, i)]))) continue;
      if (!state.zeros) {
        let any = false;
        for (let column = 0; column < width && !any; column += 1) any = Boolean(count(row, column));
        if (!any) continue;
      }
      found.push(row);
    }
    const [by, direction] = sorting();
    const sign = direction === "down" ? -1 : 1;
    const place = down.findIndex(({ code }) => `v-${code}` === by);
    if (place >= 0) {
      const ranks = down[place].labels.map((label, i) => [label, i]).sort((a, b) => words.compare(a[0], b[0]));
      const rank = [];
      ranks.forEach(([, i], r) => (rank[i] = r));
      found.sort((a, b) => sign * (rank[part(a, place)] - rank[part(b, place)]) || a - b);
    } else if (by.startsWith("n-")) {
      const column = across ? across.place.get(by.slice(2)) : 0;
      if (column !== undefined) found.sort((a, b) => sign * ((count(a, column) ?? -Infinity) - (count(b, column) ?? -Infinity)) || a - b);
    }
    return found;
  }

  function heading(name, text, scope, numeric, short) {
    const [by, direction] = sorting();
    const sorted = by === name ? (direction === "down" ? "descending" : "ascending") : null;
    const next = by === name ? (direction === "down" ? "up" : "down") : numeric ? "down" : "up";
    return el(
      "th",
      { scope, class: numeric ? "number" : null, "aria-sort": sorted },
      el(
        "button",
        {
          type: "button",
          id: `sort-${name}`,
          class: "sort",
          onclick: () => {
            state.sort = `${name}:${next}`;
            state.page = 1;
            draw();
            go({ sort: state.sort, page: 1 }, { quietly: true });
          },
        },
        short ? [el("span", { class: "long" }, text), el("span", { class: "brief" }, short)] : el("span", {}, text),
        el("span", { class: "arrow", "aria-hidden": "true" }, sorted ? (direction === "down" ? "↓" : "↑") : "↕"),
      ),
    );
  }

  function draw() {
    const found = rows();
    const pages = Math.max(1, Math.ceil(found.length / ROWS));
    state.page = Math.min(Math.max(1, state.page), pages);
    tell(
      found.length === all
        ? words.count("summaryRows", all)
        : words.count("summaryFound", found.length, { all: words.number(all) }),
    );
    if (!found.length) {
      const every = { type: "button", id: "every", onclick: () => go({ only: {}, page: 1 }) };
      const button = Object.keys(state.only).length ? el("button", every, say("clear")) : null;
      fill(body, el("div", { class: "empty" }, el("p", {}, say("nothing")), button));
      return;
    }
    const stub = down.map(({ code, label }) => heading(`v-${code}`, label, "col", false));
    const head = across
      ? [
          el(
            "tr",
            {},
            down.length ? el("td", { colspan: down.length }) : null,
            el("th", { scope: "colgroup", colspan: width, class: "spanning" }, across.label),
          ),
          el("tr", {}, stub, across.codes.map((code, i) => heading(`n-${code}`, across.labels[i], "col", true))),
        ]
      : [el("tr", {}, stub, heading("n-", measure.heading, "col", true, measure.brief))];
    const shown = found.slice((state.page - 1) * ROWS, state.page * ROWS);
    const lines = shown.map((row) => {
      const names = down.map(({ code: variable, codes, labels }, i) => {
        const place = part(row, i);
        const code = meta.dimension(variable).hierarchy && labels[place] !== codes[place] && !labels[place].includes(codes[place]);
        const text = [labels[place], code ? el("span", { class: "code" }, codes[place]) : null];
        const short = labels[place].length <= SHORT ? "short" : null;
        return i === down.length - 1 ? el("th", { scope: "row", class: short }, text) : el("td", { class: short }, text);
      });
      const counts = Array.from({ length: width }, (_, column) => {
        const n = count(row, column);
        const missing = typeof n === "number" ? undefined : why(codesAt(row, column));
        return el("td", { class: n ? "number" : "number nought" }, missing ?? measure.told(n ?? undefined, set.spanAt(row * width + column)));
      });
      return el("tr", {}, names, counts);
    });
    const table = el(
      "table",
      { class: across ? "across" : "down" },
      el("caption", {}, el("span", {}, title)),
      el("thead", {}, head),
      el("tbody", {}, lines),
    );
    const frame = el("div", { class: "scroll", role: "region", "aria-label": say("scrollable"), tabindex: "0", id: "scroll", "data-scroll": "" }, table);
    fill(
      body,
      frame,
      pages > 1 ? pager(pages) : null,
      measure.note ? el("p", { class: "hint" }, measure.note) : null,
    );
    if (across) return;
    fit();
    new ResizeObserver(() => requestAnimationFrame(fit)).observe(table);

    /** Whether the columns have room beside each other; page.css says what follows on a narrow screen. */
    function fit() {
      table.classList.remove("narrow");
      table.classList.toggle("narrow", frame.scrollWidth > frame.clientWidth);
    }
  }

  function pager(pages) {
    const turn = (by) => () => {
      state.page += by;
      draw();
      document.getElementById("scroll").scrollTop = 0;
      go({ page: state.page }, { quietly: true });
    };
    const values = { page: words.number(state.page), pages: words.number(pages) };
    return el(
      "nav",
      { class: "pager", "aria-label": say("paging") },
      el("button", { type: "button", id: "page-back", disabled: state.page === 1, onclick: turn(-1) }, say("previous")),
      el("span", { "aria-current": "page" }, say("pageOf", values)),
      el("button", { type: "button", id: "page-on", disabled: state.page === pages, onclick: turn(1) }, say("next")),
    );
  }
}
