// A JSON-stat 2 dataset: its dimensions and the count at a place.

const read = new WeakMap();

export class Dataset {
  /** The dataset of an answer; an answer that comes again is read once. */
  static of(json) {
    if (!read.has(json)) read.set(json, new Dataset(json));
    return read.get(json);
  }

  constructor(json) {
    let stride = 1;
    const sizes = json.size;
    this.json = json;
    const strides = sizes.map(() => 1);
    for (let i = sizes.length - 1; i >= 0; i -= 1) {
      strides[i] = stride;
      stride *= sizes[i];
    }
    this.cells = stride;
    this.value = json.value ?? [];
    this.range = json.extension?.ilba?.range;
    this.label = json.label ?? "";
    this.dimensions = json.id.map((code, i) => new Dimension(code, json.dimension[code], strides[i]));
    // A table without variables has one dimension all the same, which says that it counts.
    const [only, ...more] = this.dimensions;
    if (!more.length && only?.code === "measure" && only.codes[0] === "N_masked") this.dimensions = [];
  }

  dimension(code) {
    return this.dimensions.find((one) => one.code === code);
  }

  /** The least and the largest that a number can be, where that was asked for. */
  span(codes) {
    return this.spanAt(this.#placeOf(codes));
  }

  spanAt(place) {
    const low = this.range?.low[place];
    return low === undefined || low === null ? undefined : [low, this.range.high[place]];
  }

  /** The number where each dimension has the given code; one that is not named has its first. */
  at(codes) {
    const place = this.#placeOf(codes);
    return place === undefined || this.value[place] === null ? undefined : (this.value[place] ?? 0);
  }

  /** The variables of which the value did not exist at a time. */
  gone(codes, time) {
    return this.dimensions.filter(({ code, nonexistent }) => nonexistent[time]?.has(codes[code])).map(({ code }) => code);
  }

  /** The sum over the values of some variables, [code, values] each; undefined where one of the numbers is missing. */
  sum(codes, [several, ...others]) {
    if (!several) return this.at(codes);
    const found = several[1].map((value) => this.sum({ ...codes, [several[0]]: value }, others));
    return found.includes(undefined) ? undefined : found.reduce((all, one) => all + one, 0);
  }

  /** The rows as a file has them: the labels of each, then the number. */
  rows() {
    const names = (codes) => this.dimensions.map((one) => one.name(codes[one.code]));
    return this.value.map((value, place) => [...names(this.#codesAt(place)), value]);
  }

  /** The same numbers with the values of some dimensions added up. What `isNothing` adds nothing; without another number there is no sum. */
  added(codes, isNothing) {
    if (!codes.length) return this;
    const { id, size, dimension } = this.json;
    const kept = (_, i) => !codes.includes(id[i]);
    const found = new Dataset({ id: id.filter(kept), size: size.filter(kept), dimension, label: this.label });
    found.value = Array(found.cells).fill(null);
    for (let place = 0; place < this.cells; place += 1) {
      const at = this.#codesAt(place);
      if (isNothing(at)) continue;
      found.value[found.#placeOf(at)] += this.value[place] === null ? NaN : (this.value[place] ?? 0);
    }
    found.value = found.value.map((value) => (Number.isNaN(value) ? null : value));
    return found;
  }

  /** The change of each number since the time before; only of the times that are named. */
  changes(time, shown) {
    const { id, dimension } = this.json;
    const { codes: known } = this.dimension(time);
    const category = { ...dimension[time].category, index: shown };
    const size = this.json.size.map((n, i) => (id[i] === time ? shown.length : n));
    const found = new Dataset({ id, size, dimension: { ...dimension, [time]: { ...dimension[time], category } }, label: this.label });
    found.value = Array.from({ length: found.cells }, (_, place) => {
      const at = found.#codesAt(place);
      const before = known[known.indexOf(at[time]) - 1];
      const change = before === undefined ? NaN : this.at(at) - this.at({ ...at, [time]: before });
      return Number.isNaN(change) ? null : change;
    });
    return found;
  }

  /** The same numbers divided by those of a dataset with fewer dimensions. */
  over(whole, factor) {
    const found = new Dataset(this.json);
    found.value = Array.from({ length: this.cells }, (_, place) => {
      const share = (factor * (this.value[place] ?? NaN)) / whole.at(this.#codesAt(place));
      return Number.isFinite(share) ? share : null;
    });
    return found;
  }

  #codesAt(place) {
    return Object.fromEntries(this.dimensions.map(({ code, codes, stride }) => [code, codes[Math.floor(place / stride) % codes.length]]));
  }

  #placeOf(codes) {
    let place = 0;
    for (const dimension of this.dimensions) {
      const code = codes[dimension.code];
      if (code === undefined) continue;
      const index = dimension.place.get(code);
      if (index === undefined) return undefined;
      place += index * dimension.stride;
    }
    return place;
  }
}

class Dimension {
  constructor(code, json, stride) {
    const { index = {}, label = {} } = json.category;
    const codes = Array.isArray(index) ? index : Object.keys(index).sort((a, b) => index[a] - index[b]);
    const own = json.extension?.ilba;
    this.code = code;
    this.label = json.label ?? code;
    this.codes = codes.length ? codes : Object.keys(label);
    this.labels = this.codes.map((each) => label[each] ?? each);
    this.place = new Map(this.codes.map((each, i) => [each, i]));
    this.stride = stride;
    this.hierarchy = own?.hierarchy ?? null;
    this.level = own?.level ?? 0;
    this.parents = own?.parents ?? {};
    this.missing = new Set(own?.missing); // codes that are no areas
    // By time, the codes that did not exist then.
    this.nonexistent = Object.fromEntries(Object.entries(own?.nonexistent ?? {}).map(([time, gone]) => [time, new Set(gone)]));
  }

  name(code) {
    return this.labels[this.place.get(code)] ?? code;
  }
}
