// Dark and light. The system decides until the reader does; the canvases take their colours from the style sheet.

const kThemeKey = "serval-profile-theme";
const kCanvasColours = ["ground", "raised", "sunken", "line", "text", "quiet", "accent", "path", "limit", "track",
                        "track-ground"];

class Theme {
  constructor(onChange) {
    this.system = matchMedia("(prefers-color-scheme: dark)");
    this.onChange = onChange;
    this.chosen = this.#stored();
    this.system.addEventListener("change", () => this.apply());
    this.#read();
  }

  get dark() {
    return this.chosen === null ? this.system.matches : this.chosen === "dark";
  }

  toggle() {
    this.chosen = this.dark ? "light" : "dark";
    try {
      localStorage.setItem(kThemeKey, this.chosen);
    } catch {
      // Storage may be closed to a page opened from a file; the choice then lasts as long as the page.
    }
    this.apply();
  }

  apply() {
    this.#read();
    this.onChange();
  }

  #read() {
    document.documentElement.dataset.theme = this.dark ? "dark" : "light";
    const style = getComputedStyle(document.documentElement);
    this.colours = Object.fromEntries(
      kCanvasColours.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
    );
    this.font = style.getPropertyValue("--sans");
    this.mono = style.getPropertyValue("--mono");
  }

  #stored() {
    try {
      return localStorage.getItem(kThemeKey);
    } catch {
      return null;
    }
  }
}
