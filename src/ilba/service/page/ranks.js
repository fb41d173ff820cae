// Who is first, and how sure that is: by published numbers, K and the method alone.

/** The names of those that share the first rank: one or two by name, of more the first and how many. */
export function first(words, names) {
  const [one, ...others] = names;
  return others.length < 2 ? words.listing(names) : words.say("andMore", { name: one, n: words.number(others.length) });
}

/** How far a number may lie from its true value, by the release's rule for counts; undefined where there is no rule. */
export function reach({ release, shown }, measure, codes) {
  if (release.near === null || measure.name === "index") return undefined;
  const off = release.near / 2;
  if (measure.name === "change") return 2 * off;
  return measure.factor ? (measure.factor * off) / shown.whole.at(codes) : off;
}

/** Whether others are so close to the largest that masking may decide; each is { value, off }. */
export function isClose(all) {
  const most = Math.max(...all.map(({ value }) => value));
  const isTop = ({ value }) => value === most;
  const least = Math.min(...all.filter(isTop).map(({ value, off }) => value - off));
  return all.some((one) => !isTop(one) && one.value + one.off >= least);
}
