// Draws the slices of all visible rows. Each row is one line of pixels: a pixel's colour is the mean of the slices in
// it, weighted by how much of it they cover, so that 200,000 slices on lines of 1,000 pixels look like what they are
// and nothing flickers while zooming.

// A slice at least this wide has an edge, so that two of one colour can be told apart.
const kEdgeWidth = 7;
const kEdgeStrength = 0.45;
// Rows at least this high have a line between them.
const kLinedHeight = 8;

class Raster {
  constructor() {
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
  }

  // Draws rows rowLayout.rows[first] to rowLayout.rows[last - 1] into `area` (x, y, width, height in device pixels), scrolled
  // by `scroll`; time `begin` is at its left, `scale` pixels a nanosecond.
  draw(target, { trace, rowLayout, colours, levels, first, last, area, scroll, begin, scale, ground }) {
    if (last <= first || area.width < 1) return;
    this.#resize(area.width, last - first);
    const pixels = new Uint32Array(this.image.data.buffer);
    pixels.fill(ground);
    for (let i = first; i < last; ++i) {
      paintRow(pixels, (i - first) * area.width, area.width, trace, rowLayout.rows[i], colours, levels, begin, scale);
    }
    this.context.putImageData(this.image, 0, 0, 0, 0, area.width, last - first);
    this.#stretch(target, rowLayout, first, last, area, scroll);
    if (rowLayout.height >= kLinedHeight) drawLines(target, rowLayout, first, last, area, scroll, ground);
  }

  // Lines to rows. Rows of a group have no gaps between them: they are one picture.
  #stretch(target, rowLayout, first, last, area, scroll) {
    target.imageSmoothingEnabled = !Number.isInteger(rowLayout.height);
    target.imageSmoothingQuality = "high";
    for (let i = first; i < last; ) {
      const top = area.y + rowLayout.tops[rowLayout.rows[i]] - scroll;
      const end = Math.min(last, i + rowLayout.members - (i % rowLayout.members));
      target.drawImage(this.canvas, 0, i - first, area.width, end - i,
                       area.x, top, area.width, (end - i) * rowLayout.height);
      i = end;
    }
  }

  #resize(width, height) {
    if (this.image && this.image.width === width && this.image.height >= height) return;
    this.canvas.width = width;
    this.canvas.height = height;
    this.image = this.context.createImageData(width, height);
  }
}

function drawLines(target, rowLayout, first, last, area, scroll, ground) {
  target.fillStyle = cssColour([ground & 0xff, (ground >>> 8) & 0xff, (ground >>> 16) & 0xff]);
  for (let i = first; i < last; ++i) {
    target.fillRect(area.x, area.y + rowLayout.tops[rowLayout.rows[i]] + rowLayout.height - 1 - scroll, area.width, 1);
  }
}

// One row as `width` pixels from pixels[at] on. Slices come in order of time, so at most one pixel at a time is only
// partly covered: what it has so far is kept until the next one begins. This is the innermost loop of all drawing, and
// four times as fast in one piece as in small functions.
function paintRow(pixels, at, width, trace, row, colours, levels, begin, scale) {
  const { begin: begins, finish: ends } = trace;
  const to = trace.rowBegin[row + 1];
  let open = -1, covered = 0, red = 0, green = 0, blue = 0;
  for (let i = trace.firstEndingAfter(row, begin); i < to; ) {
    const left = Math.max(0, (begins[i] - begin) * scale);
    if (left >= width) break;
    const first = left | 0;
    if (first !== open) {
      settle(pixels, at + open, covered, red, green, blue);
      open = first;
      covered = red = green = blue = 0;
    }
    const blocks = blocksInPixel(levels, trace, row, i, scale);
    if (blocks) {
      const b = blocks.indexOf(row, i), share = blocks.covered[b] * scale;
      covered += share;
      red += share * blocks.red[b];
      green += share * blocks.green[b];
      blue += share * blocks.blue[b];
      i += blocks.size;
      continue;
    }
    const right = Math.min(width, (ends[i] - begin) * scale), last = right | 0, colour = colours[i];
    const edge = last - first >= kEdgeWidth && begins[i] > begin ? kEdgeStrength : 1;
    const share = ((first === last ? right : first + 1) - left) * edge;
    covered += share;
    red += share * (colour & 0xff);
    green += share * ((colour >>> 8) & 0xff);
    blue += share * ((colour >>> 16) & 0xff);
    if (last > first) {
      settle(pixels, at + first, covered, red, green, blue);
      for (let pixel = first + 1; pixel < last; ++pixel) pixels[at + pixel] = colour;
      open = last;
      covered = right - last;
      red = covered * (colour & 0xff);
      green = covered * ((colour >>> 8) & 0xff);
      blue = covered * ((colour >>> 16) & 0xff);
    }
    ++i;
  }
  if (open < width) settle(pixels, at + open, covered, red, green, blue);
}

// A pixel's colour from the sums of what covers it and the ground that is left.
function settle(pixels, at, covered, red, green, blue) {
  if (covered === 0) return;
  const ground = pixels[at], rest = Math.max(0, 1 - covered), whole = 1 / Math.max(1, covered);
  pixels[at] = (0xff000000 |
                ((whole * blue + rest * ((ground >>> 16) & 0xff)) << 16) |
                ((whole * green + rest * ((ground >>> 8) & 0xff)) << 8) |
                (whole * red + rest * (ground & 0xff))) >>> 0;
}

// The largest block that begins with a slice and fits into a pixel.
function blocksInPixel(levels, trace, row, slice, scale) {
  const inRow = slice - trace.rowBegin[row];
  if (inRow % kLeastBlock !== 0) return null;
  for (const blocks of levels) {
    const last = slice + blocks.size - 1;
    if (inRow % blocks.size === 0 && last < trace.rowBegin[row + 1] &&
        (trace.finish[last] - trace.begin[slice]) * scale < 1) return blocks;
  }
  return null;
}
