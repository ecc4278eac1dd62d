// Tables of the panels: sortable by a press on a heading, long ones cut until asked for, shares drawn as bars.

const kShortTable = 8;

// columns: { name, title?, of: row → value, show?: value → text, number?: true, bar?: true (needs number),
//            go?: row → void (the cell becomes a link), class?: row → text }
class Table {
  constructor(caption, columns, rows, note = null) {
    this.columns = columns;
    this.rows = [...rows];
    this.whole = rows.length <= kShortTable + 2;
    this.sorted = null; // { column, down }
    this.body = element("tbody");
    this.headings = columns.map((column) => this.#heading(column));
    this.more = element("button", { class: "more", type: "button", onclick: () => this.#showAll() });
    this.element = element("section", { class: "table" },
      element("table", {},
        element("caption", {}, caption, note && element("p", { class: "note" }, note)),
        element("thead", {}, element("tr", {}, ...this.headings)),
        this.body),
      this.more);
    this.#fill();
  }

  #heading(column) {
    const title = column.title ?? "sort";
    const press = element("button", { type: "button", title, onclick: () => this.#sort(column) }, column.name);
    return element("th", { scope: "col", class: column.number ? "number" : null }, press);
  }

  #showAll() {
    this.whole = true;
    this.#fill();
  }

  #sort(column) {
    const down = this.sorted?.column === column ? !this.sorted.down : Boolean(column.number);
    this.sorted = { column, down };
    const compare = (a, b) => {
      const x = column.of(a), y = column.of(b);
      return typeof x === "number" ? x - y : String(x).localeCompare(String(y));
    };
    this.rows.sort((a, b) => (down ? compare(b, a) : compare(a, b)));
    this.columns.forEach((other, i) => {
      const order = down ? "descending" : "ascending";
      this.headings[i].setAttribute("aria-sort", other === column ? order : "none");
    });
    this.#fill();
  }

  #fill() {
    const rows = this.whole ? this.rows : this.rows.slice(0, kShortTable);
    const largest = this.columns.map((column) =>
      column.bar ? this.rows.reduce((most, row) => Math.max(most, Math.abs(column.of(row))), 1e-12) : 0);
    this.body.replaceChildren(...rows.map((row) => element("tr", {}, ...this.columns.map((column, i) =>
      Table.#cell(column, row, largest[i])))));
    this.more.hidden = this.whole;
    this.more.textContent = `show all ${this.rows.length}`;
  }

  static #cell(column, row, largest) {
    const value = column.of(row);
    const text = column.show ? column.show(value) : `${value}`;
    const classes = [column.number && "number", column.bar && "share", column.class?.(row)].filter(Boolean).join(" ");
    const share = column.bar ? `--share: ${(100 * Math.abs(value)) / largest}%` : null;
    const content = column.go && value !== "" ? link(text, "show in the chart", () => column.go(row)) : text;
    return element("td", { class: classes || null, style: share }, content);
  }
}

// A small chart in the panel: values from left to right, an optional limit, one line that says what it shows.
function smallChart(label, values, limit = 0) {
  const width = 320, height = 54, space = 2;
  const top = Math.max(limit, ...values, 1e-9) * 1.05;
  const x = (i) => (i / values.length) * width;
  const y = (value) => space + (height - space) * (1 - value / top);
  const steps = values.map((value, i) => `H${x(i).toFixed(1)}V${y(value).toFixed(1)}`).join("");
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  svg.setAttribute("class", "small-chart");
  svg.setAttribute("preserveAspectRatio", "none");
  const path = (d, name) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "path");
    made.setAttribute("d", d);
    made.setAttribute("class", name);
    svg.append(made);
  };
  path(`M0 ${height}${steps}H${width}V${height}Z`, "area");
  if (limit) path(`M0 ${y(limit)}H${width}`, "limit");
  return svg;
}
