// Why the numbers are as they are, for everybody.

import { el, fill } from "./dom.js";

export function showExplain(dialog, { release, words }) {
  const { say } = words;
  const { threshold: K, additive, most, moved, masks } = release;
  const own = [
    ["why1", ["why1a"]],
    [moved ? "why2how" : "why2", moved ? ["why2moved", "why2movedToo"] : ["why2a", "why2b"]],
    ["why3", [additive ? "why3additive" : "why3loose"]],
    ["why4", [most === null || most === undefined ? "why4open" : "why4most"]],
  ];
  const parts = [...(moved || masks ? own : []), ["why5", ["why5a"]]]; // other methods have only the notes of the files
  const values = { K: words.number(K), D: most ? words.number(most) : "", most: most ? words.number(most) : "" };
  // In two groups of 500 the difference that masking may make is a fifth as many percentage points.
  if (release.near) Object.assign(values, { near: words.number(release.near), points: words.number(release.near / 5) });
  fill(
    dialog,
    el(
      "div",
      { class: "explain-top" },
      el("h2", { id: "explain-name", tabindex: "-1" }, say("about")),
      el("button", { type: "button", id: "close-explain", onclick: () => dialog.close() }, say("close")),
    ),
    parts.map(([title, texts]) => [el("h3", {}, say(title)), texts.map((name) => el("p", {}, say(name, values)))]).flat(2),
    el("div", { class: "official" }, (release.notes ?? []).map((note) => el("p", {}, note))),
  );
  // A tap beside it closes it, too.
  dialog.onclick = ({ target, clientX: x, clientY: y }) => {
    const { left, right, top, bottom } = dialog.getBoundingClientRect();
    if (target === dialog && (x < left || x > right || y < top || y > bottom)) dialog.close();
  };
}
