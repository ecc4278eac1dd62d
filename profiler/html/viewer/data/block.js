// Reads the data that profiler/html/data_block.cc wrote into the page: for each trace a JSON head, and
// columns of numbers as byte planes (all lowest bytes of a column, then all second ones, …), deflated, in
// base64.

const kTraceSelector = 'script[type="application/x-serval-trace"]';
const kDiffSelector = 'script[type="application/x-serval-diff"]';

function bytesOfBase64(text) {
  const packed = atob(text);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; ++i) bytes[i] = packed.charCodeAt(i);
  return bytes;
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Columns of more than four planes are wider than 32 bits. They have at most seven, which are exact in a
// double.
function joinPlanes(bytes, offset, { count, bytes: planes }) {
  const values = planes > 4 ? new Float64Array(count) : new Uint32Array(count);
  for (let plane = 0, factor = 1; plane < planes; ++plane, factor *= 256) {
    const begin = offset + plane * count;
    for (let i = 0; i < count; ++i) values[i] += bytes[begin + i] * factor;
  }
  return values;
}

// Differences are zigzag-coded: 0, -1, 1, -2, … are 0, 1, 2, 3, ….
function addUp(differences) {
  const values = new Float64Array(differences.length);
  let value = 0;
  for (let i = 0; i < differences.length; ++i) {
    const coded = differences[i];
    value += coded % 2 === 0 ? coded / 2 : -(coded + 1) / 2;
    values[i] = value;
  }
  return values;
}

function decodeColumn(bytes, offset, column) {
  switch (column.kind) {
    case "text":
      return new TextDecoder().decode(bytes.subarray(offset, offset + column.bytes)).split("\n");
    case "delta":
      return addUp(joinPlanes(bytes, offset, column));
    case "float":
      return new Float32Array(joinPlanes(bytes, offset, column).buffer);
    default:
      return joinPlanes(bytes, offset, column);
  }
}

// { "slice.gap": Uint32Array, … }
function decodeColumns(bytes, columns) {
  const decoded = {};
  let offset = 0;
  for (const column of columns) {
    decoded[column.name] = decodeColumn(bytes, offset, column);
    offset += column.kind === "text" ? column.bytes : column.bytes * column.count;
  }
  if (offset !== bytes.length) throw new Error(`the data block has ${bytes.length} bytes, its columns ${offset}`);
  return decoded;
}

async function readTraces() {
  const elements = [...document.querySelectorAll(kTraceSelector)];
  return Promise.all(
    elements.map(async (element) => {
      const [head, packed] = element.textContent.trim().split("\n");
      const description = JSON.parse(head);
      const bytes = await inflate(bytesOfBase64(packed));
      return new Trace(description, decodeColumns(bytes, description.columns));
    }),
  );
}

// The comparison of two traces by profiler/report/diff.h; null if there is only one.
function readDiff() {
  const element = document.querySelector(kDiffSelector);
  return element && JSON.parse(element.textContent);
}
