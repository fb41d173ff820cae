// Who is first, and how sure that is: by published numbers, K and the method alone.

/** The names of those that share the first rank: one or two by name, of more the first and how many. */
export function first(words, names) {
  const [one, ...others] = names;
  return others.length < 2 ? words.listing(names) : words.say("andMore", { name: one, n: words.number(others.length) });
}

/**
 * How far a number may lie from its true value, by the release's rule for counts; undefined where there is no rule. It is
 * the sum of `stacked` numbers, each of as many counts as the view adds up.
 */
export function reach({ release, shown }, measure, codes, stacked = 1) {
  if (release.near === null) return undefined;
  const off = release.off(stacked * shown.added);
  if (measure.name === "change") return 2 * off;
  if (measure.name === "index") return (100 * off) / (shown.whole.at(codes) * shown.average.at(codes));
  return measure.factor ? (measure.factor * off) / shown.whole.at(codes) : off;
}

/** Whether others are so close to the largest that masking may decide; each is { value, off }. */
export function isClose(all) {
  const most = Math.max(...all.map(({ value }) => value));
  const isTop = ({ value }) => value === most;
  const least = Math.min(...all.filter(isTop).map(({ value, off }) => value - off));
  return all.some((one) => !isTop(one) && one.value + one.off >= least);
}
