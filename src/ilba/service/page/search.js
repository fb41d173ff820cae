// Searching as people type: without case and without accents, in any script. `folded` and `spaced` in asked.py do the same.

const LETTERS = { ø: "o", ł: "l", đ: "d", ð: "d", ħ: "h", ŧ: "t", ı: "i", æ: "ae", œ: "oe", þ: "th", ς: "σ" };
const ALONE = new RegExp(`[${Object.keys(LETTERS).join("")}]`, "g"); // letters that Unicode does not take apart

/** A text without case and accents. */
export function folded(text) {
  const plain = text.normalize("NFKD").replace(/\p{Diacritic}/gu, "");
  const lower = plain.toUpperCase().toLowerCase(); // by way of upper case, so that ß becomes ss
  return lower.replace(ALONE, (letter) => LETTERS[letter]).normalize("NFKC");
}

/** A name as it is searched for: folded, with one space for hyphens and other signs. */
export const spaced = (text) => folded(text).replace(/[\p{P}\p{S}\p{Z}]+/gu, " ").trim();

/** How many letters have to be changed, added, left out or swapped so that a text begins with what was typed. */
function slips(typed, text) {
  let before = [];
  let row = Array.from({ length: text.length + 1 }, (_, i) => i);
  for (let i = 1; i <= typed.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= text.length; j += 1) {
      const same = typed[i - 1] === text[j - 1] ? 0 : 1;
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + same);
      const swapped = i > 1 && j > 1 && typed[i - 1] === text[j - 2] && typed[i - 2] === text[j - 1];
      if (swapped) next[j] = Math.min(next[j], before[j - 2] + 1);
    }
    [before, row] = [row, next];
  }
  return Math.min(...row.slice(Math.max(0, typed.length - 2)));
}

/**
 * How well a name fits what was typed, both spaced: 0 begins with it, 1 holds it, 2 and more with slips; Infinity not at all.
 * A slip is forgiven in four letters, two in eight.
 */
export function fitness(typed, name) {
  if (name.startsWith(typed)) return 0;
  if (name.includes(typed)) return 1;
  const allowed = typed.length < 4 ? 0 : typed.length < 8 ? 1 : 2;
  if (!allowed) return Infinity;
  const found = Math.min(slips(typed, name), ...name.split(" ").slice(1).map((word) => slips(typed, word)));
  return found <= allowed ? 1 + found : Infinity;
}
