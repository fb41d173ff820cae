// Drawing areas: one canvas for the areas, one above it for what is pointed at. Areas of a class are one path, so that
// thousands are filled in a few strokes. While a map of very many corners is moved, its picture is moved, and drawn again
// at rest; below it lies the picture of the whole, for what comes into sight meanwhile. Zooming, pointing and going from
// area to area by keyboard are here, too.

import { select, zoom, zoomIdentity } from "./vendor/d3.min.js";
import { around } from "./shapes.js";

const CLOSEST = 40;
const NEARER = 1.5; // going to an area by less than this would only cut the map off
const MARGIN = 14;
const BUTTONS = 52; // pixels on the right that the buttons take
const STEP = 60; // pixels a key moves the map
const LABELS = 160; // areas up to which names are tried
const CORNERS = 8000; // corners up to which a map is drawn for every frame
const REST = 140; // milliseconds without a move after which a map is drawn again

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** What a CSS variable is as a colour in the theme that is on. */
function ink(name, probe) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

export class AreaCanvas {
  /** `on` has point(code | null, x, y), open(code), up(). */
  constructor(host, on) {
    this.host = host;
    this.on = on;
    this.back = document.createElement("canvas"); // the whole, below what is moved
    this.base = document.createElement("canvas");
    this.over = document.createElement("canvas");
    this.probe = document.createElement("span");
    this.probe.hidden = true;
    this.back.hidden = true;
    this.back.className = "back";
    for (const canvas of [this.base, this.back, this.over]) canvas.setAttribute("aria-hidden", "true");
    host.append(this.base, this.back, this.over, this.probe);
    this.pen = this.base.getContext("2d");
    this.tip = this.over.getContext("2d");
    this.shapes = new Map();
    this.active = null;
    this.drawn = null; // the corners of a polygon while one is drawn
    this.turn = zoomIdentity;
    this.zoom = zoom()
      .scaleExtent([1, CLOSEST])
      .filter((event) => this.#wanted(event))
      .on("zoom", ({ transform }) => {
        this.turn = transform;
        const touch = transform.k > 1 ? "none" : "pan-y";
        if (this.over.style.touchAction !== touch) this.over.style.touchAction = touch;
        this.#soon();
      });
    this.area = select(this.over);
    this.area.call(this.zoom).on("dblclick.zoom", null);
    this.over.style.touchAction = "pan-y";
    this.over.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.#pointed(event));
    this.over.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && this.#mark(null));
    this.over.addEventListener("click", (event) => this.#clicked(event));
    host.addEventListener("keydown", (event) => this.#key(event));
    host.addEventListener("blur", () => this.#mark(null));
    this.watch = new ResizeObserver(() => this.#resize());
    this.watch.observe(host);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.repaint = () => this.paint(this.classes);
    this.dark.addEventListener("change", this.repaint);
    document.addEventListener("themechange", this.repaint);
  }

  close() {
    this.watch.disconnect();
    this.dark.removeEventListener("change", this.repaint);
    document.removeEventListener("themechange", this.repaint);
    cancelAnimationFrame(this.frame);
    clearTimeout(this.resting);
  }

  /**
   * Give the shapes, the codes that count (the others are background), the names to write, and the shape that lies below
   * all, which is shown entirely when `wide`.
   */
  place(shapes, codes, names, ground, wide) {
    this.ground = ground?.path;
    this.shapes = shapes;
    this.codes = codes.filter((code) => shapes.has(code));
    this.names = names;
    const there = new Set(this.codes);
    this.ghost = new Path2D();
    for (const [code, { path }] of shapes) if (!there.has(code)) this.ghost.addPath(path);
    this.lines = new Path2D();
    for (const code of this.codes) this.lines.addPath(shapes.get(code).path);
    const counted = this.codes.map((code) => shapes.get(code));
    this.heavy = [...shapes.values(), ...(ground ? [ground] : [])].reduce((sum, { corners }) => sum + corners, 0) > CORNERS;
    this.whole = around(ground && wide ? [...counted, ground] : counted);
    this.usual = counted.reduce((sum, { box: [left, , right] }) => sum + right - left, 0) / counted.length;
    this.order = [...this.codes];
    this.active = null;
    this.#resize();
    this.area.call(this.zoom.transform, zoomIdentity);
  }

  /** Colour the areas: `classes` is a list of { ink, codes }. */
  paint(classes) {
    if (!classes) return;
    this.classes = classes;
    this.kept = false;
    this.fills = classes.map(({ ink: name, codes }) => {
      const path = new Path2D();
      for (const code of codes) if (this.shapes.has(code)) path.addPath(this.shapes.get(code).path);
      return { path, colour: ink(name, this.probe) };
    });
    this.inks = Object.fromEntries(
      ["map-line", "map-ghost", "map-ground", "ink", "paper", "focus"].map((name) => [name, ink(name, this.probe)]),
    );
    this.draw();
  }

  /** Go to an area: so near that its neighbours are still seen. */
  fly(code) {
    if (!this.shapes.has(code) || !this.fit) return;
    const { box: [left, top, right, bottom], centre } = this.shapes.get(code);
    const [width, height] = this.size;
    const near = Math.min(width / ((right - left) * this.fit.k || 1), height / ((bottom - top) * this.fit.k || 1)) / 5;
    const k = near < NEARER ? 1 : Math.min(near, CLOSEST);
    const [x, y] = [centre[0] * this.fit.k + this.fit.x, centre[1] * this.fit.k + this.fit.y];
    // Not beyond the edge of the whole: what is not zoomed in stays where it is.
    const held = (side, at) => Math.min(0, Math.max(side * (1 - k), side / 2 - k * at));
    const there = zoomIdentity.translate(held(width, x), held(height, y)).scale(k);
    this.area.call(this.zoom.transform, there);
    this.#mark(code);
  }

  zoomBy(factor) {
    this.#smooth().call(this.zoom.scaleBy, factor);
  }

  zoomAll() {
    this.#smooth().call(this.zoom.transform, zoomIdentity);
  }

  #smooth() {
    return still() ? this.area : this.area.transition().duration(200);
  }

  // The wheel scrolls the page unless the map has the focus; one finger does, unless the map is zoomed in.
  #wanted(event) {
    if (event.type === "wheel") return event.ctrlKey || event.metaKey || document.activeElement === this.host;
    if (event.type === "touchstart") return event.touches.length > 1 || this.turn.k > 1;
    return !event.button;
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (!width || !height || !this.whole) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    for (const canvas of [this.back, this.base, this.over]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    this.ratio = ratio;
    this.kept = false;
    this.size = [width, height];
    const [left, top, right, bottom] = this.whole;
    const room = width - BUTTONS;
    const fit = Math.min((room - 2 * MARGIN) / (right - left || 1), (height - 2 * MARGIN) / (bottom - top || 1));
    this.fit = { k: fit, x: (room - fit * (left + right)) / 2, y: (height - fit * (top + bottom)) / 2 };
    this.zoom.extent([[0, 0], [width, height]]).translateExtent([[0, 0], [width, height]]);
    if (this.fills) this.draw();
  }

  #soon() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => (this.heavy && this.shown ? this.#slide() : this.draw()));
  }

  /** Move the picture instead of drawing it; it is drawn when the move has come to rest. */
  #slide() {
    const now = this.#view();
    const { k, x, y } = this.shown;
    if (now.k === k && now.x === x && now.y === y && !this.base.style.transform) return;
    const whole = k === this.fit.k && x === this.fit.x && y === this.fit.y;
    if (whole && !this.kept) {
      const pen = this.back.getContext("2d");
      pen.clearRect(0, 0, this.back.width, this.back.height);
      pen.drawImage(this.base, 0, 0);
      this.kept = true;
    }
    const moved = (canvas, from) => {
      const by = now.k / from.k;
      canvas.style.transform = `translate(${now.x - by * from.x}px, ${now.y - by * from.y}px) scale(${by})`;
    };
    this.back.hidden = !this.kept || whole; // where the whole is moved itself, nothing has to lie below it
    if (!this.back.hidden) moved(this.back, this.fit);
    moved(this.base, this.shown);
    this.#overlay();
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.draw(), REST);
  }

  /** From the plane of the shapes to pixels: scale and offset. */
  #view() {
    const { k, x, y } = this.turn;
    return { k: this.fit.k * k, x: this.fit.x * k + x, y: this.fit.y * k + y };
  }

  draw() {
    if (!this.fills || !this.fit) return;
    const start = performance.now();
    clearTimeout(this.resting);
    this.shown = this.#view();
    this.base.style.transform = "";
    this.back.hidden = true;
    this.#areas(this.pen, this.shown, this.ratio);
    this.#overlay();
    performance.clearMeasures("map-draw");
    performance.measure("map-draw", { start, end: performance.now() });
  }

  /** The map for a picture of a given width: all of it where nothing is zoomed in, else what is on the screen. */
  picture(width) {
    const [left, top, right, bottom] = this.whole;
    const whole = this.turn.k === 1;
    const by = width / this.size[0];
    const tall = ((bottom - top) * (width - 2 * MARGIN)) / (right - left || 1) + 2 * MARGIN;
    const height = Math.round(whole ? Math.min(tall, 1.2 * width) : this.size[1] * by);
    const now = this.#view();
    const k = Math.min((width - 2 * MARGIN) / (right - left || 1), (height - 2 * MARGIN) / (bottom - top || 1));
    const fitted = { k, x: (width - k * (left + right)) / 2, y: (height - k * (top + bottom)) / 2 };
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    this.#areas(canvas.getContext("2d"), whole ? fitted : { k: now.k * by, x: now.x * by, y: now.y * by }, 2);
    return { height, address: canvas.toDataURL("image/png") };
  }

  /** Draw the areas and their names. */
  #areas(pen, view, ratio) {
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, pen.canvas.width, pen.canvas.height);
    pen.setTransform(ratio * view.k, 0, 0, ratio * view.k, ratio * view.x, ratio * view.y);
    pen.lineJoin = "round";
    pen.fillStyle = this.inks["map-ground"];
    pen.strokeStyle = this.inks["map-ghost"];
    pen.lineWidth = 0.8 / view.k;
    for (const below of [this.ground, this.ghost]) {
      if (!below) continue;
      pen.fill(below, "evenodd");
      pen.stroke(below);
    }
    for (const { path, colour } of this.fills) {
      pen.fillStyle = colour;
      pen.fill(path, "evenodd");
    }
    pen.strokeStyle = this.inks["map-line"];
    // Lines between small areas are thinner, or they would hide them.
    pen.lineWidth = Math.min(0.9, 0.05 * this.usual * view.k) / view.k;
    pen.stroke(this.lines);
    if (this.codes.length <= LABELS) this.#label(pen, view, ratio);
  }

  /** Names where they fit inside their area and hide no other name, on a ground that keeps them readable. */
  #label(pen, view, ratio) {
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = `600 12px ${getComputedStyle(this.host).fontFamily}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const written = [];
    for (const code of this.codes) {
      const { box: [left, , right], centre } = this.shapes.get(code);
      const name = this.names(code);
      const wide = pen.measureText(name).width;
      if (wide + 10 > (right - left) * view.k) continue;
      const x = centre[0] * view.k + view.x;
      const y = centre[1] * view.k + view.y;
      const half = wide / 2 + 5;
      if (written.some((one) => Math.abs(one.y - y) < 18 && Math.abs(one.x - x) < one.half + half)) continue;
      written.push({ x, y, half });
      pen.fillStyle = this.inks.paper;
      pen.globalAlpha = 0.82;
      pen.beginPath();
      pen.roundRect(x - half, y - 9, 2 * half, 18, 4);
      pen.fill();
      pen.globalAlpha = 1;
      pen.fillStyle = this.inks.ink;
      pen.fillText(name, x, y + 1);
    }
  }

  #overlay() {
    const { tip, ratio } = this;
    tip.setTransform(1, 0, 0, 1, 0, 0);
    tip.clearRect(0, 0, this.over.width, this.over.height);
    if (this.active === null && !this.drawn?.length) return;
    const view = this.#view();
    tip.setTransform(ratio * view.k, 0, 0, ratio * view.k, ratio * view.x, ratio * view.y);
    tip.lineJoin = "round";
    if (this.drawn?.length) this.#polygon(view);
    if (this.active === null) return;
    const { path } = this.shapes.get(this.active);
    tip.lineWidth = 5 / view.k;
    tip.strokeStyle = this.inks.paper;
    tip.stroke(path);
    tip.lineWidth = 2.5 / view.k;
    tip.strokeStyle = this.inks.focus;
    tip.stroke(path);
  }

  /** The polygon that is being drawn. */
  #polygon(view) {
    const { tip } = this;
    tip.beginPath();
    this.drawn.forEach(([x, y], i) => (i ? tip.lineTo(x, y) : tip.moveTo(x, y)));
    tip.closePath();
    tip.globalAlpha = 0.2;
    tip.fillStyle = this.inks.focus;
    tip.fill();
    tip.globalAlpha = 1;
    tip.lineWidth = 2.5 / view.k;
    tip.strokeStyle = this.inks.focus;
    tip.stroke();
    for (const [x, y] of this.drawn) tip.strokeRect(x - 2 / view.k, y - 2 / view.k, 4 / view.k, 4 / view.k);
  }

  /** Show what is pointed at and drawn as it is now. */
  redraw() {
    this.#overlay();
  }

  /** The area under a pixel. */
  find(x, y) {
    const view = this.#view();
    const [px, py] = [(x - view.x) / view.k, (y - view.y) / view.k];
    this.tip.setTransform(1, 0, 0, 1, 0, 0);
    for (const code of this.codes) {
      const { box: [left, top, right, bottom], path } = this.shapes.get(code);
      if (px < left || px > right || py < top || py > bottom) continue;
      if (this.tip.isPointInPath(path, px, py, "evenodd")) return code;
    }
    return null;
  }

  /** Where the middle of an area is, in pixels. */
  middle(code) {
    const view = this.#view();
    const [x, y] = this.shapes.get(code).centre;
    return [x * view.k + view.x, y * view.k + view.y];
  }

  #at(event) {
    const { left, top } = this.over.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  }

  #pointed(event) {
    if (!this.fit || event.buttons) return; // a map that is being moved is not pointed at
    const [x, y] = this.#at(event);
    const code = this.find(x, y);
    this.over.style.cursor = code === null ? "" : "pointer";
    this.#mark(code, x, y);
  }

  // A finger has no hover: the first tap shows the area, the second opens it.
  #clicked(event) {
    if (!this.fit) return;
    const [x, y] = this.#at(event);
    if (this.drawn) {
      const view = this.#view();
      this.drawn.push([(x - view.x) / view.k, (y - view.y) / view.k]);
      this.#overlay();
      return;
    }
    const code = this.find(x, y);
    const first = event.pointerType === "touch" && code !== this.active;
    this.#mark(code, x, y);
    if (code !== null && !first) this.on.open(code);
  }

  #mark(code, x, y) {
    const changed = code !== this.active;
    this.active = code;
    if (changed && this.fills) this.#overlay();
    if (code !== null && x === undefined) [x, y] = this.middle(code);
    this.on.point(code, x, y, changed);
  }

  #key(event) {
    if (event.target !== this.host || event.altKey || event.ctrlKey || event.metaKey) return;
    const towards = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (towards && event.shiftKey) this.area.call(this.zoom.translateBy, ...towards.map((one) => (-one * STEP) / this.turn.k));
    else if (towards) this.#walk(towards);
    else if (event.key === "Enter" || event.key === " ") this.active !== null && this.on.open(this.active);
    else if (event.key === "Escape" || event.key === "Backspace") this.on.up();
    else if (event.key === "+" || event.key === "=") this.zoomBy(1.6);
    else if (event.key === "-") this.zoomBy(1 / 1.6);
    else if (event.key === "0") this.zoomAll();
    else if (event.key === "Home") this.#reach(this.order[0]);
    else if (event.key === "End") this.#reach(this.order.at(-1));
    else return;
    event.preventDefault();
  }

  /** The nearest area in a direction; sideways distance counts double, so that a row is walked along. */
  #walk([dx, dy]) {
    if (this.active === null) return this.#reach(this.order[0]);
    const [x, y] = this.shapes.get(this.active).centre;
    let best = null;
    let least = Infinity;
    for (const code of this.codes) {
      const [cx, cy] = this.shapes.get(code).centre;
      const along = (cx - x) * dx + (cy - y) * dy;
      const aside = Math.abs((cx - x) * dy) + Math.abs((cy - y) * dx);
      if (along <= 1e-6 || aside > 2 * along) continue;
      const far = along + 2 * aside;
      if (far < least) [least, best] = [far, code];
    }
    if (best !== null) this.#reach(best);
  }

  #reach(code) {
    if (code === undefined) return;
    const [x, y] = this.middle(code);
    const [width, height] = this.size;
    if (x < 0 || y < 0 || x > width || y > height) {
      const { centre } = this.shapes.get(code);
      this.area.call(this.zoom.translateTo, centre[0] * this.fit.k + this.fit.x, centre[1] * this.fit.k + this.fit.y);
    }
    this.#mark(code);
  }
}
