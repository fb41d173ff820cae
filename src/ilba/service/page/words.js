// The page's own words in the chosen language, and numbers as that language writes them.

/** The languages that have a file of words; the page speaks English in any other, with its labels and numbers. */
export const SPOKEN = ["en", "ko", "fr", "es"];
const RIGHT_TO_LEFT = /^(ar|arc|ckb|dv|fa|he|iw|ks|ku-arab|nqo|ps|sd|syr|ug|ur|yi)\b/i;
const loaded = new Map();

/** The language to show, of those that are offered: the one of the address, else the reader's own, else the usual. */
export function language(asked, offered, usual) {
  const wanted = [asked, ...(navigator.languages ?? [])].filter(Boolean);
  for (const one of wanted)
    if (offered.includes(one)) return one;
    else if (one !== asked && offered.includes(one.split("-")[0])) return one.split("-")[0];
  return usual ?? offered[0];
}

/** What a language calls itself. */
export function nameOf(lang) {
  try {
    const name = new Intl.DisplayNames([lang], { type: "language" }).of(lang);
    return name.charAt(0).toLocaleUpperCase(lang) + name.slice(1);
  } catch {
    return lang;
  }
}

/** A text with a large first letter. */
export const capital = (text, lang) => text.replace(/^[\u2066-\u2069]*\p{L}/u, (first) => first.toLocaleUpperCase(lang));

/** Fetch the words of a language: `words` needs them. */
export async function load(lang) {
  const spoken = SPOKEN.includes(lang) ? lang : "en";
  const wanted = [...new Set(["en", spoken])].filter((one) => !loaded.has(one));
  const found = await Promise.all(wanted.map((one) => import(`./words/${one}.js`)));
  wanted.forEach((one, i) => loaded.set(one, found[i].default));
}

/**
 * `say(name, values)` gives a sentence, and `count(name, n, values)` one about `n` things, which is another one about a
 * single thing: `name` and `name_one` in the files of words. `number`,
 * `decimal`, `percentage`, `signed`, `listing` and `date` write values.
 */
export function words(lang) {
  const locale = lang === "en" ? "en-GB" : lang;
  const spoken = SPOKEN.includes(lang) ? lang : "en";
  const whole = new Intl.NumberFormat(locale);
  const list = new Intl.ListFormat(spoken === lang ? locale : spoken, { type: spoken === "ko" ? "unit" : "conjunction", style: "long" });
  const day = new Intl.DateTimeFormat(spoken === lang ? locale : spoken, { dateStyle: "long" });
  const change = new Intl.NumberFormat(locale, { signDisplay: "exceptZero" });
  const direction = RIGHT_TO_LEFT.test(lang) ? "rtl" : "ltr";
  // An English sentence on a page that is laid out from right to left keeps its own order, and so do the labels inside it.
  // What is hardly more than labels, such as "{title} by {list}", goes with them.
  const turned = direction === "rtl" && spoken !== lang;
  const isSentence = (text) => /\s/.test(text) && text.replace(/\{\w+\}|\P{L}/gu, "").length > 3;
  const made = new Map();
  const decimals = (places, style) => {
    const fixed = { style, minimumFractionDigits: places, maximumFractionDigits: places };
    if (!made.has(style + places)) made.set(style + places, new Intl.NumberFormat(locale, fixed));
    return made.get(style + places);
  };
  const plural = new Intl.PluralRules(spoken);
  function say(name, values = {}) {
    const text = loaded.get(spoken)?.[name] ?? loaded.get("en")?.[name];
    if (text === undefined) throw new Error(`no word ${name}`);
    const fill = (around) => text.replace(/\{(\w+)\}/g, (_, each) => around(values[each])).replace(/ {2,}/g, " ");
    return turned && isSentence(text) ? `\u2066${fill((value) => `\u2068${value}\u2069`)}\u2069` : fill((value) => value);
  }
  return {
    lang,
    spoken,
    direction,
    say,
    count: (name, n, values = {}) => say(plural.select(n) === "one" ? `${name}_one` : name, { ...values, n: whole.format(n) }),
    number: (value) => whole.format(value),
    signed: (value) => change.format(value).replace("-", "−"),
    percentage: (value, places) => decimals(places, "percent").format(value / 100),
    decimal: (value, places) => decimals(places, "decimal").format(value),
    /** A few words as a sentence. */
    sentence: (texts) => texts.map((text) => `${capital(text, lang)}.`).join(" "),
    listing: (texts) => (spoken === "ko" ? texts.join(", ") : list.format(texts)),
    date: (text) => (Number.isNaN(Date.parse(text)) ? "" : day.format(new Date(text))),
    compare: new Intl.Collator(locale, { numeric: true }).compare,
  };
}
