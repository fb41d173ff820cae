// The page's own words in the chosen language, and numbers as that language writes them.

import en from "./words/en.js";
import ko from "./words/ko.js";

const ALL = { en, ko };
export const LANGUAGES = Object.keys(ALL);

/** The language of an address, else the reader's own, else English. */
export function language(asked) {
  if (LANGUAGES.includes(asked)) return asked;
  return navigator.languages?.some((one) => one.startsWith("ko")) ? "ko" : "en";
}

/** `say(name, values)` gives a sentence; `number`, `percent`, `listing` and `date` write values. */
export function words(lang) {
  const locale = lang === "ko" ? "ko-KR" : "en-GB";
  const whole = new Intl.NumberFormat(locale);
  const share = new Intl.NumberFormat(locale, { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
  const list = new Intl.ListFormat(locale, { type: lang === "ko" ? "unit" : "conjunction", style: "long" });
  const day = new Intl.DateTimeFormat(locale, { dateStyle: "long" });
  return {
    lang,
    say(name, values = {}) {
      const text = ALL[lang][name] ?? ALL.en[name];
      if (text === undefined) throw new Error(`no word ${name}`);
      return text.replace(/\{(\w+)\}/g, (_, each) => values[each]);
    },
    number: (value) => whole.format(value),
    percent: (value) => share.format(value),
    listing: (texts) => (lang === "ko" ? texts.join(", ") : list.format(texts)),
    date: (text) => (Number.isNaN(Date.parse(text)) ? "" : day.format(new Date(text))),
    compare: new Intl.Collator(locale, { numeric: true }).compare,
  };
}
