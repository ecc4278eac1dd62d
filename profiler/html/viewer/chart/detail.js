// Level of detail: slices are grouped in blocks with the sums of their colours. Where many slices fall into
// one pixel, blocks are drawn instead.

const kBlockSizes = [64, 8]; // each a multiple of the next
const kLeastBlock = kBlockSizes.at(-1);

class Blocks {
  constructor(trace, colours, size) {
    this.trace = trace;
    this.size = size;
    const rows = trace.rowBegin.length - 1;
    const blocks = Array.from({ length: rows }, (_, row) =>
      Math.ceil((trace.rowBegin[row + 1] - trace.rowBegin[row]) / size));
    this.blockBegin = runningTotal(blocks);
    const count = this.blockBegin.at(-1);
    // Nanoseconds of slices in a block, and the means of their colours.
    this.covered = new Float64Array(count);
    this.red = new Float32Array(count);
    this.green = new Float32Array(count);
    this.blue = new Float32Array(count);
    for (let row = 0; row < rows; ++row) this.#sumRow(row, colours);
  }

  #sumRow(row, colours) {
    const { begin, finish, rowBegin } = this.trace;
    let block = this.blockBegin[row];
    for (let first = rowBegin[row]; first < rowBegin[row + 1]; first += this.size, ++block) {
      const last = Math.min(first + this.size, rowBegin[row + 1]);
      let covered = 0, red = 0, green = 0, blue = 0;
      for (let i = first; i < last; ++i) {
        const length = finish[i] - begin[i], colour = colours[i];
        covered += length;
        red += length * (colour & 0xff);
        green += length * ((colour >>> 8) & 0xff);
        blue += length * ((colour >>> 16) & 0xff);
      }
      this.covered[block] = covered;
      this.red[block] = red / covered;
      this.green[block] = green / covered;
      this.blue[block] = blue / covered;
    }
  }

  // The block that begins with a slice.
  indexOf(row, slice) {
    return this.blockBegin[row] + (slice - this.trace.rowBegin[row]) / this.size;
  }
}
