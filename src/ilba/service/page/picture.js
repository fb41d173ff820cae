// Pictures to take along, as SVG and PNG: title, unit, drawing, legend, source and licence in one. The pyramid and the
// lines are shown on the page by the same drawing.

import { el } from "./dom.js";

const SPACE = "http://www.w3.org/2000/svg";
const WIDE = 960;
const NARROW = 460; // on a phone, so that letters keep their size
const FONT = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans KR', NanumGothic, sans-serif";
const EDGE = 32;

function node(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** What the colours of the page are just now. */
function inks(host = document.body) {
  const probe = el("span", { hidden: true });
  host.append(probe);
  const found = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ["paper", "ink", "soft", "rule", "edge", "zero", "still", "absent", "fall-1", "fall-2", "fall-3", "rise-1", "rise-2", "rise-3"];
  for (let i = 1; i <= 8; i += 1) names.push(`series-${i}`);
  for (let i = 1; i <= 6; i += 1) names.push(`ramp-${i}`);
  const all = Object.fromEntries(names.map((name) => [name, found(name)]));
  probe.remove();
  return all;
}

const write = (x, y, text, more = {}) =>
  node("text", { x, y, "font-size": 14, "dominant-baseline": "middle", ...more }, String(text));

const pen = document.createElement("canvas").getContext("2d");

/** How wide a text is. */
function width(text, size = 14, weight = 400) {
  pen.font = `${weight} ${size}px ${FONT}`;
  return pen.measureText(text).width;
}

const widest = (texts, size) => Math.max(0, ...texts.map((text) => width(text, size)));

/** A text in lines that fit. */
function lines(text, size, room) {
  const found = [""];
  for (const word of text.split(/[ \n]+/)) {
    const longer = found.at(-1) ? `${found.at(-1)} ${word}` : word;
    if (width(longer, size) > room && found.at(-1)) found.push(word);
    else found[found.length - 1] = longer;
  }
  return found;
}

/** As much of a text as there is room for. */
function cut(text, room, size = 14, weight = 400) {
  const letters = [...text];
  let shown = text;
  while (letters.length > 1 && width(shown, size, weight) > room) {
    letters.pop();
    shown = `${letters.join("").trimEnd()}…`;
  }
  return shown;
}

/** The whole picture around a drawing of a given height; `draw(group, ink, wide)` fills it. */
function framed({ title, release, words, heading, note, partial }, height, draw, host) {
  const { say } = words;
  const about = [
    partial,
    release.source && say("source", { source: release.source }),
    release.licence && say("licence", { licence: release.licence }),
    note,
    release.note(words),
  ];
  const head = lines(title, 22, WIDE - 2 * EDGE);
  const foot = lines(about.filter(Boolean).join(" · "), 12, WIDE - 2 * EDGE);
  const top = EDGE + head.length * 28 + 26;
  const tall = (wide) => (typeof height === "function" ? height(wide) : height);
  const whole = top + tall(WIDE) + 24 + foot.length * 17 + 14;
  const make = (framedIn, wide = WIDE) => {
    const ink = inks(host);
    const svg = node("svg", {
      xmlns: SPACE,
      viewBox: framedIn ? `0 0 ${WIDE} ${whole}` : `0 0 ${wide} ${tall(wide)}`,
      role: "img",
      "aria-label": title,
      "font-family": FONT,
      direction: "ltr", // drawings have a left and a right; texts alone begin where their language does
      fill: ink.ink,
    });
    const part = node("g", framedIn ? { transform: `translate(0 ${top})` } : {});
    if (framedIn) {
      svg.setAttribute("width", WIDE);
      svg.setAttribute("height", whole);
      svg.append(node("rect", { width: WIDE, height: whole, fill: ink.paper }));
      const start = words.direction === "rtl" ? WIDE - EDGE : EDGE;
      const line = (y, text, size, fill = null) => svg.append(write(start, y, text, { "font-size": size, fill, direction: words.direction }));
      head.forEach((text, i) => line(EDGE + 6 + i * 28, text, 22));
      line(EDGE + head.length * 28 + 2, `${heading} · ${release.title}`, 13, ink.soft);
      foot.forEach((text, i) => line(top + tall(WIDE) + 26 + i * 17, text, 12, ink.soft));
    }
    draw(part, ink, wide);
    svg.append(part);
    return svg;
  };
  return {
    /** For the page, which has title and source itself. */
    node: () => make(false, matchMedia("(max-width: 40rem)").matches ? NARROW : WIDE),
    svg: () => new XMLSerializer().serializeToString(make(true)),
    size: [WIDE, whole],
    name: title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 80) || "picture",
  };
}

/** A key of the series in rows: where each name stands, and the height. */
function key(names, room) {
  let [x, y] = [EDGE, 8];
  const places = names.map((name) => {
    const text = cut(name, room - 2 * EDGE - 34);
    const wide = 34 + width(text);
    if (x + wide > room - EDGE && x > EDGE) [x, y] = [EDGE, y + 24];
    const found = { x, y, text };
    x += wide;
    return found;
  });
  return { places, height: y + 26 };
}

const seriesOf = ({ set, colours }) => (colours ? set.dimension(colours.code) : null);
const codesOf = ({ bars, colours, fixed }, bar, one) => ({ [bars.code]: bar, ...(colours ? { [colours.code]: one } : {}), ...fixed });
const counter = (told) => (bar, one) => told.set.at(codesOf(told, bar, one));

const spanner = (told) => (bar, one) => told.set.span(codesOf(told, bar, one));

/** The number of a bar in words, or why there is none. */
const teller = (told) => (bar, one) => told.why(codesOf(told, bar, one)) ?? told.measure.told(counter(told)(bar, one), spanner(told)(bar, one));

/** The picture of one drawing, or of several small ones on the same scale: `panels` are [name, what is fixed]. */
export function picture(told, draw, panels) {
  const { measure, host } = told;
  if (!panels) {
    const { height, draw: drawn } = draw(told);
    return framed({ ...told, heading: measure.heading, note: measure.note }, height, drawn, host);
  }
  const small = panels.map(([name, fixed]) => [name, draw({ ...told, fixed })]);
  const high = Math.max(...small.map(([, { height }]) => height)) + 40;
  const columns = (wide) => (wide === WIDE ? 2 : 1);
  const height = (wide) => high * Math.ceil(small.length / columns(wide));
  return framed({ ...told, heading: measure.heading, note: measure.note }, height, (part, ink, wide) => {
    small.forEach(([name, { draw: drawn }], i) => {
      const across = columns(wide);
      const group = node("g", { transform: `translate(${(i % across) * (NARROW + 20)} ${Math.floor(i / across) * high})` });
      group.append(write(NARROW / 2, 12, name, { "text-anchor": "middle", "font-weight": 600 }));
      const inner = node("g", { transform: "translate(0 30)" });
      drawn(inner, ink, NARROW);
      group.append(inner);
      part.append(group);
    });
  }, host);
}

/** The shares of the parts of a bar, where they are few enough to be written beside it. */
export function sharesOf(words, parts) {
  const whole = parts.reduce((sum, one) => sum + (one ?? 0), 0);
  return parts.length <= 3 && whole ? parts.map((one) => words.percentage((100 * (one ?? 0)) / whole, 0)).join(" · ") : "";
}

export function barDrawing(told) {
  const { set, bars, codes, measure, layout, ones } = told;
  const series = seriesOf(told);
  const count = counter(told);
  const number = teller(told);
  const dimension = set.dimension(bars.code);
  const stacked = layout !== "grouped";
  const sum = (bar) => ones.reduce((all, one) => all + Math.abs(count(bar, one) ?? 0), 0);
  const sizes = (bar) => (stacked ? [sum(bar)] : ones.map((one) => count(bar, one) ?? 0));
  const most = told.most ?? Math.max(...codes.flatMap(sizes), 0);
  const least = told.least ?? Math.min(...codes.flatMap(sizes), 0); // losses go to the left of the line at 0
  const each = stacked ? 22 : Math.max(22, 16 * ones.length + 6);
  const keyed = (wide) => (series ? key(ones.map((one) => series.name(one)), wide) : { places: [], height: 0 });
  const height = codes.length * each + keyed(told.fixed ? NARROW : WIDE).height;
  const missing = (bar) => (stacked ? told.why(codesOf(told, bar)) : undefined);
  const beside = (bar) => missing(bar) ?? (layout === "shares" ? sharesOf(told.words, ones.map((one) => count(bar, one))) : measure.told(sum(bar)));
  const texts = codes.flatMap((bar) => (stacked ? beside(bar) : ones.map((one) => number(bar, one))));
  return { height, draw: (part, ink, wide) => {
    const left = wide === WIDE ? 250 : 130;
    const room = wide - left - Math.max(110, widest(texts, 12) + 12);
    const { places, height: top } = keyed(wide);
    places.forEach(({ x, y, text }, i) => {
      part.append(node("rect", { x, y: y - 7, width: 14, height: 14, rx: 2, fill: ink[`series-${i + 1}`] }));
      part.append(write(x + 20, y, text));
    });
    const zero = left - (room * least) / (most - least || 1);
    let y = top;
    for (const bar of codes) {
      part.append(write(left - 10, y + each / 2, cut(dimension.name(bar), left - 14), { "text-anchor": "end" }));
      let x = zero;
      ones.forEach((one, i) => {
        const n = count(bar, one);
        const long = (room * Math.abs(n ?? 0)) / (layout === "shares" ? (missing(bar) ? Infinity : sum(bar) || 1) : most - least || 1);
        const fill = series ? ink[`series-${i + 1}`] : n < 0 ? ink["fall-3"] : ink["series-1"];
        const high = stacked ? 16 : Math.min(16, (each - 6) / ones.length - 2);
        const at = stacked ? y + 3 : y + 3 + i * (high + 2);
        part.append(node("rect", { x: n < 0 ? x - long : x, y: at, width: long, height: high, fill }));
        if (stacked) x += long;
        else part.append(write(zero + (n < 0 ? 0 : long) + 6, at + high / 2, number(bar, one), { "font-size": 12 }));
      });
      if (stacked) part.append(write(x + 6, y + 11, beside(bar), { "font-size": 12 }));
      y += each;
    }
    part.append(node("line", { x1: zero, x2: zero, y1: top, y2: y, stroke: ink.edge }));
  } };
}

/** Ages as bars that grow to both sides, the oldest on top. */
export function pyramidDrawing(told) {
  const { set, bars } = told;
  const series = seriesOf(told);
  const count = counter(told);
  const number = teller(told);
  const ages = set.dimension(bars.code);
  const [one, other] = series.codes;
  const most = told.most ?? Math.max(...ages.codes.flatMap((age) => [count(age, one) ?? 0, count(age, other) ?? 0]), 1e-9);
  const each = 24;
  const height = ages.codes.length * each + 34;
  const beside = widest(ages.codes.flatMap((age) => [number(age, one), number(age, other)]), 12) + 10;
  return { height, draw: (part, ink, wide) => {
    const middle = Math.min(0.4 * wide, Math.max(wide === WIDE ? 130 : 104, 8 + widest(ages.codes.map((age) => ages.name(age)), 13)));
    const room = (wide - middle) / 2 - Math.max(wide === WIDE ? 96 : 52, beside);
    const [left, right] = [wide / 2 - middle / 2, wide / 2 + middle / 2];
    const head = (sex) => cut(series.name(sex), left - 8, 14, 600);
    part.append(write(left - 6, 10, head(one), { "text-anchor": "end", "font-weight": 600 }));
    part.append(write(right + 6, 10, head(other), { "font-weight": 600 }));
    [...ages.codes].reverse().forEach((age, i) => {
      const y = 30 + i * each;
      const [a, b] = [count(age, one) ?? 0, count(age, other) ?? 0];
      part.append(node("rect", { x: left - (room * a) / most, y, width: (room * a) / most, height: each - 4, fill: ink["series-1"] }));
      part.append(node("rect", { x: right, y, width: (room * b) / most, height: each - 4, fill: ink["series-2"] }));
      part.append(write(wide / 2, y + each / 2 - 2, cut(ages.name(age), middle - 4, 13), { "text-anchor": "middle", "font-size": 13 }));
      part.append(write(left - (room * a) / most - 6, y + each / 2 - 2, number(age, one), { "text-anchor": "end", "font-size": 12 }));
      part.append(write(right + (room * b) / most + 6, y + each / 2 - 2, number(age, other), { "font-size": 12 }));
    });
  } };
}

/** Round numbers from about the least to the largest, to be written beside a drawing. */
function marks(low, high) {
  const rough = Math.max(high - low, 1e-9) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((one) => one >= rough * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) found.push(Number((n * step).toPrecision(12)));
  return found;
}

// As output/series.py knows times: years, and parts of a year with how many a year has.
const TIMES = [[/^(\d{4})$/, 1], [/^(\d{4})-?[HS]([12])$/, 2], [/^(\d{4})-?Q([1-4])$/, 4], [/^(\d{4})-?M?(0[1-9]|1[0-2])$/, 12], [/^(\d{4})-?W(\d{2})$/, 53]];
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** Where times stand between the first and the last, from 0 to 1; in equal steps where they are no dates. */
export function timeline(codes) {
  const [form, parts] = TIMES.find(([known]) => codes.every((code) => known.test(code))) ?? [];
  const yearOf = (code) => {
    const [, year, part = "1"] = form.exec(code);
    return Number(year) + (Number(part) - 1) / parts;
  };
  const days = codes.every((code) => DAY.test(code)) ? codes.map((code) => Date.parse(code)) : [Number.NaN];
  const at = form ? codes.map(yearOf) : days.some(Number.isNaN) ? codes.map((_, i) => i) : days;
  return at.map((one) => (one - at[0]) / (at.at(-1) - at[0] || 1));
}

const ROWS = 3; // of labels of times that would hide each other

/** For each label, the row in which it hides no other; undefined where there is none. The last ones have the first choice. */
function rowsOf(labels, size) {
  const taken = Array(ROWS).fill(Infinity);
  return labels.toReversed().map(({ x, text }) => {
    const half = width(text, size) / 2 + 4;
    const row = taken.findIndex((edge) => x + half <= edge);
    if (row >= 0) taken[row] = x - half;
    return row >= 0 ? row : undefined;
  }).toReversed();
}

/** Lines over time, each with its name at the end. */
export function lineDrawing(told) {
  const { set, bars, measure, ones } = told;
  const series = seriesOf(told);
  const count = counter(told);
  const span = spanner(told);
  const times = set.dimension(bars.code);
  const all = times.codes.flatMap((time) => ones.map((one) => count(time, one))).filter((value) => value !== undefined);
  const high = told.most ?? Math.max(...all, 0);
  const low = told.least ?? Math.min(...all, 0);
  const height = told.fixed ? 260 : 420;
  return { height, draw: (part, ink, wide) => {
    // The numbers are whole; a name has the room that is left of two fifths of the width.
    const last = (one) => times.codes.findLast((time) => count(time, one) !== undefined);
    const number = (one) => told.why(codesOf(told, times.codes.at(-1), one)) ?? measure.told(count(last(one), one));
    const ended = ones.filter(last);
    const needed = widest(ended.map(number), 13) + (series ? 40 : 0);
    const whole = widest(ended.map((one) => (series ? `${series.name(one)} ${number(one)}` : number(one))), 13);
    const room = Math.max(needed, Math.min(whole, 0.4 * wide));
    const ticks = marks(low, high);
    const left = Math.max(wide === WIDE ? 90 : 64, widest(ticks.map(measure.mark), 12) + 12);
    const right = wide - room - 34;
    const places = timeline(times.codes);
    const x = (i) => left + places[i] * (right - left);
    const rows = rowsOf(times.labels.map((text, i) => ({ x: x(i), text })), 13);
    const bottom = height - 40 - 16 * Math.max(0, ...rows.filter(Boolean));
    const y = (value) => bottom - ((value - low) * (bottom - 20)) / (high - low || 1);
    for (const value of ticks) {
      part.append(node("line", { x1: left, x2: right, y1: y(value), y2: y(value), stroke: ink.rule }));
      part.append(write(left - 8, y(value), measure.mark(value), { "text-anchor": "end", "font-size": 12, fill: ink.soft }));
    }
    times.labels.forEach((text, i) => {
      if (rows[i] !== undefined) part.append(write(x(i), bottom + 20 + 16 * rows[i], text, { "text-anchor": "middle", "font-size": 13 }));
    });
    const ends = [];
    ones.forEach((one, i) => {
      const points = times.codes.map((time, at) => [x(at), count(time, one), time]).filter(([, value]) => value !== undefined);
      if (!points.length) return;
      const colour = ink[`series-${i + 1}`];
      const path = points.map(([at, value], n) => `${n ? "L" : "M"}${at},${y(value)}`).join("");
      part.append(node("path", { d: path, fill: "none", stroke: colour, "stroke-width": 2.5 }));
      for (const [at, value, time] of points)
        part.append(node("circle", { cx: at, cy: y(value), r: 4, fill: colour }, node("title", {}, measure.told(value, span(time, one)))));
      const text = series ? `${cut(series.name(one), room - width(` ${number(one)}`, 13), 13)} ${number(one)}` : number(one);
      ends.push({ y: y(points.at(-1)[1]), text, colour });
    });
    ends.sort((a, b) => a.y - b.y);
    ends.forEach((end, i) => i && (end.y = Math.max(end.y, ends[i - 1].y + 17)));
    // What was moved below the drawing moves up again, with those above it.
    ends.forEach((_, i) => (ends.at(-1 - i).y = Math.min(ends.at(-1 - i).y, bottom - 17 * i)));
    ends.forEach((end) => {
      part.append(node("rect", { x: right + 12, y: end.y - 5, width: 10, height: 10, fill: end.colour }));
      part.append(write(right + 28, end.y, end.text, { "font-size": 13 }));
    });
  } };
}

/** The map with its legend. */
export function mapPicture({ canvas, title, release, words, entries, heading, note }) {
  const drawn = WIDE - 2 * EDGE - 230;
  const { height, address } = canvas.picture(drawn);
  const high = Math.max(height, entries.length * 26 + 10);
  return framed({ title, release, words, heading, note }, high, (part, ink) => {
    part.append(node("image", { x: EDGE, y: 0, width: drawn, height, href: address }));
    entries.forEach(([name, text], i) => {
      part.append(node("rect", { x: WIDE - EDGE - 210, y: 6 + i * 26, width: 18, height: 18, rx: 3, fill: ink[name], stroke: ink.edge }));
      part.append(write(WIDE - EDGE - 184, 16 + i * 26, text, { "font-size": 13 }));
    });
  }, canvas.host);
}

/** Two buttons that make the picture and hand it over. */
export function pictureButtons(words, make) {
  const { say } = words;
  const give = (address, name) => el("a", { href: address, download: name }).click();
  const asSvg = () => {
    const picture = make();
    const address = URL.createObjectURL(new Blob([picture.svg()], { type: "image/svg+xml" }));
    give(address, `${picture.name}.svg`);
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  const asPng = async () => {
    const picture = make();
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(picture.svg())}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = picture.size.map((side) => 2 * side);
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    give(canvas.toDataURL("image/png"), `${picture.name}.png`);
  };
  return el(
    "div",
    { class: "field" },
    el("span", { "aria-hidden": "true" }, say("picture")),
    el(
      "div",
      { class: "pictures", role: "group", "aria-label": say("picture") },
      el("button", { type: "button", id: "picture-svg", onclick: asSvg }, "SVG"),
      el("button", { type: "button", id: "picture-png", onclick: asPng }, "PNG"),
    ),
  );
}
