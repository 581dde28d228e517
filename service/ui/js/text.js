// Numbers and texts as people read them.

export function ms(value) {
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return `${value.toFixed(value < 10 ? 1 : 0)} ms`;
}

export function percent(share) {
  return `${Math.round(100 * share)} %`;
}

export function signed(value) {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}

export function count(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

const PAIRS = /(\*\*|__)(\S[^*_\n]*?)\1/g;
const CODE = /`([^`\n]+)`/g;
const LINK = /!?\[([^[\]\n]*)\]\([^()\s]*\)/g;

const CELLS = /^[^:;.\n]{1,60}: [^;\n]+(?:; [^:;.\n]{1,60}: [^;\n]+){2,}$/;

// A row of a table, "role: Welder; team: North; city: Porto", with its cells set apart; null for other texts.
export function row(text) {
  return CELLS.test(text.trim()) ? text.trim().split("; ").join(" · ") : null;
}

function line(text) {
  const trimmed = text.trim();
  if (trimmed.includes("---") && /^[\s:|-]+$/.test(trimmed)) return null; // a rule, or a table's
  if (trimmed.startsWith("|") && trimmed.endsWith("|")) {
    return trimmed.split("|").map((cell) => cell.trim()).filter(Boolean).join(" · ");
  }
  return row(trimmed) ?? trimmed.replace(/^#{1,6}\s+/, "").replace(/^[-*+]\s+/, "• ");
}

// Markdown without its marks.
export function plain(text) {
  const lines = text.split("\n").map(line).filter((one) => one !== null);
  return lines.join("\n").replace(LINK, "$1").replace(PAIRS, "$2").replace(CODE, "$1").replace(/\n{2,}/g, "\n");
}

const COMMON = new Set(
  ("about after also and are been before between but can could did does for from had has have her his how into its " +
    "may not one other our over she should than that the their them then there these they this those through under " +
    "was were what when where which while who whom whose why will with would you your").split(" "),
);

// What finds the words of a question that tell something; null where it has none.
export function finderOf(question) {
  const words = [...new Set(question.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [])].filter((word) => !COMMON.has(word));
  if (!words.length) return null;
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.slice(0, 40).join("|")})(?![\\p{L}\\p{N}])`, "giu");
}
