// Colours of slices: by state, op or layer. All are chosen in OKLCH (B. Ottosson, "A perceptual color space for image
// processing"), so that what is equally important looks equally strong, on light ground and on dark.

// Lightness, chroma, hue: [on light ground, on dark ground]. Work is strong; waiting is pale.
const kStateColours = {
  fetch: [[0.68, 0.03, 250], [0.55, 0.03, 250]],
  wait: [[0.9, 0.075, 88], [0.4, 0.06, 85]],
  room: [[0.85, 0.08, 40], [0.44, 0.095, 28]],
  load: [[0.73, 0.095, 185], [0.6, 0.09, 190]],
  compute: [[0.58, 0.135, 256], [0.68, 0.13, 256]],
  store: [[0.56, 0.14, 300], [0.66, 0.13, 300]],
  signal: [[0.62, 0.17, 350], [0.68, 0.16, 350]],
};
const kWaitingStates = ["wait", "room"];
const kOpHues = [256, 150, 28, 300, 85, 195, 345, 120, 225, 55, 275, 170];
const kOpLook = [[0.64, 0.13], [0.66, 0.12]];
const kNeutral = [[0.7, 0.01, 250], [0.5, 0.01, 250]];
// Neighbouring layers are far apart on the circle of hues.
const kLayerHueStep = 67;
// How much of its colour a slice keeps: one in which its instruction waits, and one that is not looked for.
const kWaitingStrength = 0.3;
const kDimmedStrength = 0.2;

function linearToByte(value) {
  const gamma = value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055;
  return Math.round(255 * Math.min(1, Math.max(0, gamma)));
}

function oklch([lightness, chroma, hue]) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    linearToByte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    linearToByte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    linearToByte(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

function mix(colour, ground, strength) {
  return colour.map((value, i) => Math.round(value * strength + ground[i] * (1 - strength)));
}
function cssColour([red, green, blue]) {
  return `rgb(${red} ${green} ${blue})`;
}
// A colour as one word of ImageData on a little-endian machine.
function packColour([red, green, blue]) {
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}
function parseHexColour(text) {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

// The categories of a way of colouring: their names, their colours, and which of them a slice is of.
class Colouring {
  constructor(trace, by, theme) {
    const shade = theme.dark ? 1 : 0;
    this.ground = parseHexColour(theme.colours.ground);
    this.waiting = trace.head.states.map((name) => by !== "state" && kWaitingStates.includes(name));
    const { columns } = trace;
    const instructionOf = (slice) => columns["execution.instruction"][trace.execution[slice]];
    if (by === "state") {
      this.names = trace.head.states.filter((name) => name !== "idle");
      this.colours = this.names.map((name) => oklch((kStateColours[name] ?? kNeutral)[shade]));
      this.categoryOf = (slice) => trace.state[slice];
    } else if (by === "op") {
      this.names = trace.head.ops;
      this.colours = this.names.map((_, op) => oklch([...kOpLook[shade], kOpHues[op % kOpHues.length]]));
      this.categoryOf = (slice) => columns["instruction.op"][instructionOf(slice)];
    } else {
      const layers = 1 + columns["instruction.layer"].reduce((a, b) => (b === kNoLayer ? a : Math.max(a, b)), -1);
      this.names = [...Array.from({ length: layers }, (_, layer) => `${layer}`), "no layer"];
      this.colours = this.names.map((_, layer) =>
        oklch(layer === layers ? kNeutral[shade] : [...kOpLook[shade], (256 + layer * kLayerHueStep) % 360]),
      );
      this.categoryOf = (slice) => Math.min(layers, columns["instruction.layer"][instructionOf(slice)]);
    }
  }

  // The colour of every slice, packed. `lit(slice, category)` says which are not dimmed.
  paint(trace, lit) {
    const tables = [1, kWaitingStrength, kDimmedStrength].map((strength) =>
      Uint32Array.from(this.colours, (colour) => packColour(mix(colour, this.ground, strength))),
    );
    const packed = new Uint32Array(trace.numSlices);
    for (let slice = 0; slice < packed.length; ++slice) {
      const category = this.categoryOf(slice);
      const table = !lit(slice, category) ? 2 : this.waiting[trace.state[slice]] ? 1 : 0;
      packed[slice] = tables[table][category];
    }
    return packed;
  }
}
