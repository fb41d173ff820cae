// Searching as people type: without case and without accents, in any script. `folded` in asked.py does the same.

const LETTERS = { ø: "o", ł: "l", đ: "d", ð: "d", ħ: "h", ŧ: "t", ı: "i", æ: "ae", œ: "oe", þ: "th", ς: "σ" };
const ALONE = new RegExp(`[${Object.keys(LETTERS).join("")}]`, "g"); // letters that Unicode does not take apart

/** A text without case and accents. */
export function folded(text) {
  const plain = text.normalize("NFKD").replace(/\p{Diacritic}/gu, "");
  const lower = plain.toUpperCase().toLowerCase(); // by way of upper case, so that ß becomes ss
  return lower.replace(ALONE, (letter) => LETTERS[letter]).normalize("NFKC");
}
