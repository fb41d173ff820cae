// What a release holds: which combinations of levels and variables are published, and the one to begin with.

import { squares } from "./shapes.js";

const MANY = 20_000; // areas of a level from which on only those inside a coarser area are asked for
const COMFORTABLE = 300; // areas that a first look takes in

export class Release {
  constructor(json) {
    Object.assign(this, json);
    // How far a count may be from the truth: known of iLBA and of cell keys, else where a bound is stated.
    this.moved = this.method === "cell-key";
    this.masks = this.method === "ilba" || this.method === "controlled";
    this.most = this.method === "ilba" ? this.threshold + Math.floor(this.threshold / 2) : (this.bound ?? null);
    if (this.moved) this.most = this.parameters.D;
    // A difference of two counts that masking alone may make: by the bound, else, for sums of masks, by a rule of thumb.
    this.near = this.most ? 2 * this.most : this.masks ? 3 * this.threshold : null;
    // What several counts together may be off: bounds add up, masks chosen jointly grow as the root of their number.
    this.off = (n) => (this.near / 2) * (this.most ? n : Math.sqrt(n));
    const signed = (tables) => new Map(tables.map((table) => [this.#signature(table.levels, table.keys), table]));
    // What a declared rule excludes is not asked for, and the reader is told why.
    this.tables = json.tables.filter(({ excluded }) => !excluded.length);
    this.index = signed(this.tables);
    this.refused = signed(json.tables.filter(({ excluded }) => excluded.length));
  }

  /** The table that an address names, also one that is not offered. */
  named(id) {
    return [...this.tables, ...this.refused.values()].find((table) => table.id === id);
  }

  /** The same table of another wave. */
  alike(table) {
    return table && this.tables.find(({ levels, keys }) => this.#signature(levels, keys) === this.#signature(table.levels, table.keys));
  }

  /** Why the table at these levels by these variables is not there: the labels that are not offered together, if a rule says so. */
  excluded(levels, keys) {
    const together = this.refused.get(this.#signature(levels, keys))?.excluded;
    const known = [...this.hierarchies.flatMap((one) => one.levels), ...this.keys];
    return together?.map((code) => known.find((one) => one.code === code)?.label ?? code);
  }

  /** What has to be known of every number, in a sentence or two; of other methods it is the note that the files have. */
  note(words) {
    if (!this.moved && !this.masks) return this.notes.join(" ");
    if (this.moved) return words.say("noteMoved", { D: words.number(this.most) });
    return words.say(this.additive ? "noteAdditive" : "noteLoose", { K: words.number(this.threshold) });
  }

  #signature(levels, keys) {
    return JSON.stringify([this.hierarchies.map(({ name }) => levels[name] ?? 0), [...keys].sort()]);
  }

  /** The table at these levels by these variables, when it is published. */
  find(levels, keys) {
    return this.index.get(this.#signature(levels, keys));
  }

  /** The variables that every table has. */
  get always() {
    return this.time ? [this.time] : [];
  }

  hierarchy(name) {
    return this.hierarchies.find((one) => one.name === name);
  }

  /** The level of a hierarchy by its number, from 1. */
  level(name, number) {
    return this.hierarchy(name).levels[number - 1];
  }

  /** The variables of a choice: { code, label, size, hierarchy, level } with the hierarchies first. */
  variables(levels, keys) {
    const areas = this.hierarchies
      .filter(({ name }) => levels[name])
      .map(({ name }) => ({ ...this.level(name, levels[name]), hierarchy: name, level: levels[name] }));
    return [...areas, ...this.keys.filter(({ code }) => keys.includes(code))];
  }

  /** The table without some of its variables, when it is published. */
  without(levels, keys, dropped) {
    const fewer = Object.fromEntries(
      Object.entries(levels).map(([name, number]) => [
        name,
        number && dropped.includes(this.level(name, number).code) ? 0 : number,
      ]),
    );
    return this.find(fewer, keys.filter((code) => !dropped.includes(code)));
  }

  /** The smallest table with this level: all that is needed for the names of its areas. */
  smallest(hierarchy, number) {
    const fitting = this.tables.filter(({ levels }) => (levels[hierarchy] ?? 0) === number);
    return fitting.reduce((best, table) => (best && best.cells <= table.cells ? best : table), undefined);
  }

  /** Where a reader starts: the areas of one hierarchy on a map, as fine as one look takes in. */
  beginning() {
    for (const { name, levels } of this.hierarchies) {
      const known = levels.map((level, i) => ({ ...level, number: i + 1 }));
      const fits = known.filter(({ size, number }) => size <= COMFORTABLE && this.find({ [name]: number }, this.always));
      const drawn = fits.filter(({ geometry }) => geometry);
      const best = (drawn.length ? drawn : fits).at(-1);
      if (best) return { levels: { [name]: best.number }, keys: [...this.always] };
    }
    const several = this.tables.filter(({ cells }) => cells > 1);
    const table = several.reduce((best, one) => (one.cells < best.cells ? one : best), several[0] ?? this.tables[0]);
    return { levels: { ...table.levels }, keys: [...table.keys] };
  }

  /** Of a level with very many areas, those inside one of a coarser level: { code, list, area } as the server asks for it. */
  part(table, { code, hierarchy, size }, within) {
    if (!within || size <= MANY) return null;
    const plain = (name) => encodeURIComponent(name).replace(/[!'()*.]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
    const prefix = table.id.includes(":") ? table.id.slice(0, table.id.indexOf(":") + 1) : "";
    return { code, list: `${prefix}${plain(code)}.${plain(this.level(hierarchy, within.level).code)}`, area: within.code };
  }

  /** How areas of a level can be drawn: from the release's map, as squares named by grid codes, or as tiles. */
  drawing(hierarchy, number, codes) {
    if (this.level(hierarchy, number).geometry) return "geometry";
    return squares(codes) ? "squares" : "tiles";
  }
}
