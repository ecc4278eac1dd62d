// Records what a JavaScript engine finds with random regular expressions, as JSON Schema's `pattern` reads them
// (ECMA-262, with the flag "u").
//
//     node tools/pattern_goldens.mjs > tests/data/grammar/patterns.json
//
// Each case has a pattern, and of each text whether the pattern is found in it; "found" is null for what is no
// pattern.

const SEED = 20250211, CASES = 900, TEXTS = 24;

// xorshift32: the same cases each time.
let state = SEED;
function random(below) {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % below;
}
const pick = (list) => list[random(list.length)];
const chance = (percent) => random(100) < percent;

const LEAVES = ["a", "b", "c", ".", "[ab]", "[^a]", "[b-d]", "[^]", "[]", "\\w", "\\d", "\\.", "é", "\\u00e9", "\\x61",
                "\\u{1F600}", "\\ud83d\\ude00", "[\\w-]", "[\\]a]", "1", "-"];
const WIDE = ["\\s", "\\S", "\\D", "\\W", "[^\\d]", "[^\\w]"];
const ANCHORS = ["^", "$"];
const QUANTIFIERS = ["", "", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "{0}", "*?", "+?", "??", "{1,2}?"];
const BROKEN = ["a**", "(", ")", "[a", "a{2,1}", "^*", "$+", "(?a)", "\\", "a++", "[z-a]", "x{2}{3}", "*", "?a", "^?a", "\\01"];

function atom(depth) {
  if (chance(20)) return pick(ANCHORS);
  if (depth === 0 || chance(55)) return pick(chance(10) ? WIDE : LEAVES) + pick(QUANTIFIERS);
  const open = pick(["(", "(?:"]);
  return open + alternatives(depth - 1) + ")" + pick(QUANTIFIERS);
}
function sequence(depth) {
  let all = "";
  for (let n = random(4); n > 0; --n) all += atom(depth);
  return all;
}
function alternatives(depth) {
  let all = sequence(depth);
  while (chance(25)) all += "|" + sequence(depth);
  return all;
}

function text() {
  const letters = chance(70) ? ["a", "b", "c"] : ["a", "b", "d", "1", "-", " ", "\n", "é", "😀", "\u00a0", "\u2028", "_", "."];
  let all = "";
  for (let n = random(6); n > 0; --n) all += pick(letters);
  return all;
}

function compiled(pattern) {
  try {
    return new RegExp(pattern, "u");
  } catch {
    return null;
  }
}

const FIXED = ["^^a", "a$$", "^(^a)$", "^(?:^a|b)$", "^a|b$", "(^a|b)c", "$^", "^$", "a$b", "b^a", "(^|b)a", "a($|b)", "^(a|^b)*$",
               "(?:^)*a", "(?:$)+", "(?:^a$|^b$)", "^(?:a|b$)+$"];
const cases = [];
for (let n = 0; n < CASES + FIXED.length + BROKEN.length; ++n) {
  const pattern = n < FIXED.length ? FIXED[n] : n < FIXED.length + BROKEN.length ? BROKEN[n - FIXED.length] : alternatives(2);
  const expression = compiled(pattern);
  const texts = expression === null ? [] : Array.from({length: TEXTS}, text);
  cases.push({pattern, texts, found: expression === null ? null : texts.map((t) => expression.test(t))});
}
const lines = cases.map((one) => JSON.stringify(one)).join(",\n");
process.stdout.write(`{"node": "${process.version}", "v8": "${process.versions.v8}", "cases": [\n${lines}\n]}\n`);
