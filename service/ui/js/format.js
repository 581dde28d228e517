// Numbers and texts as people read them.

export function ms(value) {
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

export function percent(share) {
  return `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

// Of money, in whatever currency the arms file has.
export function amount(value) {
  return String(Number(value.toPrecision(3)));
}

export function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;
}

export function words(name) {
  return name.replaceAll("_", " ");
}

const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\uff00-\uff60]|\p{Extended_Pictographic}/u;

// How many letters a text is as wide as.
function size(text) {
  let sum = 0;
  for (const letter of text) sum += WIDE.test(letter) ? 2 : 1;
  return sum;
}

function shorten(text, width) {
  if (size(text) <= width) return text;
  let [kept, left] = ["", width - 1];
  for (const letter of text) {
    left -= size(letter);
    if (left < 0) break;
    kept += letter;
  }
  return `${kept.trimEnd()}…`;
}

// Lines of at most `width` letters; the last of `most` is shortened.
export function wrap(text, width, most) {
  const lines = [""];
  for (const word of text.split(/\s+/)) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (size(longer) <= width || !lines.at(-1)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  if (lines.length <= most) return lines.map((line) => shorten(line, width));
  const rest = lines.slice(most - 1).join(" ");
  return [...lines.slice(0, most - 1), rest].map((line) => shorten(line, width));
}
