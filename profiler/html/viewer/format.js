// Numbers as text for readers.

const kMinus = "\u2212";

function fourDigits(value) {
  const digits = value === 0 ? 3 : Math.min(3, Math.max(0, 3 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toFixed(digits).replace("-", kMinus);
}

// 812 ns, 12.34 µs, 717.7 µs, 1.042 ms
function formatTime(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`.replace("-", kMinus);
  if (size < 1e6) return `${fourDigits(ns / 1e3)} µs`;
  if (size < 1e9) return `${fourDigits(ns / 1e6)} ms`;
  return `${fourDigits(ns / 1e9)} s`;
}

// Microseconds with a fixed number of digits, for the columns of tables.
function formatMicros(ns) {
  return (ns / 1e3).toFixed(2).replace("-", kMinus);
}

function formatBytes(bytes) {
  if (bytes < 1e3) return `${bytes} B`;
  if (bytes < 1e6) return `${fourDigits(bytes / 1e3)} KB`;
  if (bytes < 1e9) return `${fourDigits(bytes / 1e6)} MB`;
  return `${fourDigits(bytes / 1e9)} GB`;
}

function formatPercent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

// Formats a number with thin spaces between thousands, and with a fraction only if it is small.
function formatCount(value) {
  const text = value >= 10 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1);
  return text.replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

// A round step (1, 2 or 5 × 10^n) so that `span` has at most `most` of them.
function roundStep(span, most) {
  const least = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least);
}

// A time on a ruler whose ticks are `step` apart: as many digits as tell them apart.
function formatTick(time, step) {
  const [factor, unit] = step < 100 && Math.abs(time) < 1e4 ? [1, "ns"] : step < 1e6 ? [1e3, "µs"] : [1e6, "ms"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / factor) + 1e-9));
  return `${(time / factor).toFixed(digits).replace("-", kMinus)} ${unit}`;
}
