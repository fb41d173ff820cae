// Where areas are drawn: outlines from GeoJSON, squares named by grid codes, or tiles. All end in the same plane:
// y goes down and the longer side of the whole is SIDE units.

const SIDE = 1000;
const GRID = /^(\d+)(k?m)N(\d+)E(\d+)$/;

/** The last part of a code that is written as a path, such as 01/0101. */
const own = (code) => code.slice(code.lastIndexOf("/") + 1);

function cell(code) {
  const found = GRID.exec(own(code));
  if (!found) return null;
  const size = Number(found[1]) * (found[2] === "km" ? 1000 : 1);
  return { x: Number(found[4]) * size, y: Number(found[3]) * size, size };
}

/** Whether all of these codes are cells of a grid. */
export function squares(codes) {
  return codes.length > 0 && codes.every((code) => cell(code));
}

/** A Map from code to rings, from GeoJSON; degrees are drawn in Mercator's projection. */
function outlines(collection, codes) {
  const features = new Map();
  for (const feature of collection.features)
    features.set(String(feature.id ?? feature.properties?.code), ringsOf(feature));
  const project = projection(collection);
  const found = new Map();
  const names = new Map(codes.map((code) => [code, features.get(code) ?? features.get(own(code))]));
  for (const [code, rings] of names) if (rings?.length) found.set(code, rings.map((ring) => ring.map(project)));
  return found;
}

function ringsOf({ geometry }) {
  const { type, coordinates } = geometry ?? {};
  return type === "Polygon" ? coordinates : type === "MultiPolygon" ? coordinates.flat() : [];
}

function projection(collection) {
  const small = ([x, y]) => Math.abs(x) <= 360 && Math.abs(y) <= 90;
  if (!collection.features.every((feature) => ringsOf(feature).every((ring) => ring.every(small)))) return ([x, y]) => [x, -y];
  const radians = (y) => (Math.min(Math.max(y, -85), 85) * Math.PI) / 180;
  return ([x, y]) => [x, (-180 / Math.PI) * Math.log(Math.tan(Math.PI / 4 + radians(y) / 2))];
}

function gridSquares(codes) {
  const found = new Map();
  for (const code of codes) {
    const { x, y, size } = cell(code);
    found.set(code, [box(x, -y - size, size)]);
  }
  return found;
}

/** Tiles row by row; the children of one parent stand together. */
function tiles(codes) {
  const found = new Map();
  const across = Math.ceil(Math.sqrt(codes.length * 1.6));
  codes.forEach((code, i) => found.set(code, [box((i % across) * 1.06, Math.floor(i / across) * 1.06, 1)]));
  return found;
}

function box(x, y, side) {
  return [[x, y], [x + side, y], [x + side, y + side], [x, y + side], [x, y]];
}

/**
 * The shapes of areas: `areas` is a Map from code to { path, box: [x0, y0, x1, y1], centre, corners }, without those that cannot be
 * drawn. `ground` is the shape of a coarser map to lay below them, where one is given.
 */
export function shapes(kind, codes, collection, coarser) {
  const rings = kind === "geometry" ? outlines(collection, codes) : kind === "squares" ? gridSquares(codes) : tiles(codes);
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const each of rings.values())
    for (const ring of each)
      for (const [x, y] of ring) {
        if (x < left) left = x;
        if (x > right) right = x;
        if (y < top) top = y;
        if (y > bottom) bottom = y;
      }
  const scale = SIDE / Math.max(right - left, bottom - top, 1e-12);
  const put = (each) => shape(each.map((ring) => ring.map(([x, y]) => [(x - left) * scale, (y - top) * scale])));
  const areas = new Map();
  for (const [code, each] of rings) areas.set(code, put(each));
  if (!coarser) return { areas, ground: null };
  const project = projection(coarser);
  const all = coarser.features.flatMap((feature) => ringsOf(feature).map((ring) => ring.map(project)));
  return { areas, ground: put(all) };
}

function shape(rings) {
  const path = new Path2D();
  const bounds = [Infinity, Infinity, -Infinity, -Infinity];
  let largest = 0;
  let centre = [0, 0];
  for (const ring of rings) {
    let [area, cx, cy] = [0, 0, 0];
    ring.forEach(([x, y], i) => {
      if (i === 0) path.moveTo(x, y);
      else {
        path.lineTo(x, y);
        const [px, py] = ring[i - 1];
        const cross = px * y - x * py;
        area += cross;
        cx += (px + x) * cross;
        cy += (py + y) * cross;
      }
      if (x < bounds[0]) bounds[0] = x;
      if (y < bounds[1]) bounds[1] = y;
      if (x > bounds[2]) bounds[2] = x;
      if (y > bounds[3]) bounds[3] = y;
    });
    path.closePath();
    if (Math.abs(area) > largest) {
      largest = Math.abs(area);
      centre = [cx / (3 * area), cy / (3 * area)];
    }
  }
  if (!largest) centre = [(bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2];
  return { path, box: bounds, centre, corners: rings.reduce((sum, ring) => sum + ring.length, 0) };
}

/** The box around some shapes. */
export function around(list) {
  const whole = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { box: [left, top, right, bottom] } of list) {
    whole[0] = Math.min(whole[0], left);
    whole[1] = Math.min(whole[1], top);
    whole[2] = Math.max(whole[2], right);
    whole[3] = Math.max(whole[3], bottom);
  }
  return whole;
}
