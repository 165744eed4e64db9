/* What the browser tests measure. Evaluated in the page, where it defines `measure`. */
window.measure = (() => {
  const all = () => [...document.querySelectorAll("*")];
  const hidden = "svg, script, template, style, .skip";
  const visible = (e) => e.checkVisibility() && e.getBoundingClientRect().width > 0;
  const words = (e) => [...e.childNodes].filter((n) => n.nodeType === 3 && n.textContent.trim());
  const scrolls = (e) => e.closest(".scroll, pre, .tree, select");
  const name = (e) => `${e.tagName}.${e.className} ${e.textContent.slice(0, 40)}`;

  /** Rectangles of the lines of all visible texts that do not scroll by themselves. */
  function lines() {
    const out = [];
    for (const e of document.body.querySelectorAll("*")) {
      if (e.closest(hidden) || !visible(e) || scrolls(e)) continue;
      for (const n of words(e)) {
        const range = document.createRange();
        range.selectNodeContents(n);
        out.push(...[...range.getClientRects()].map((rect) => [rect, e]));
      }
    }
    return out.sort((a, b) => a[0].top - b[0].top);
  }

  function overlaps() {
    const found = [];
    const texts = lines();
    for (let i = 0; i < texts.length; i++) {
      const [a, e] = texts[i];
      for (let j = i + 1; j < texts.length && texts[j][0].top < a.bottom - 2; j++) {
        const [b, f] = texts[j];
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        const sticky = e.closest(".top") || f.closest(".top");
        if (across > 2 && down > 4 && !sticky) found.push(`overlap: ${name(e)} and ${name(f)}`);
      }
    }
    return found;
  }

  function outside() {
    const found = [];
    const wide = document.documentElement.scrollWidth;
    if (wide > innerWidth) found.push(`the page is ${wide} wide`);
    for (const e of document.body.querySelectorAll("*")) {
      if (e.closest(hidden) || !visible(e) || scrolls(e.parentElement)) continue;
      const r = e.getBoundingClientRect();
      if (r.left < -1 || r.right > innerWidth + 1) found.push(`outside: ${name(e)}`);
    }
    return found;
  }

  function drawn() {
    const found = [];
    for (const g of document.querySelectorAll("svg.graph g.box")) {
      const box = g.querySelector("rect").getBoundingClientRect();
      for (const t of g.querySelectorAll("text")) {
        const r = t.getBoundingClientRect();
        const leaves = r.right > box.right + 1 || r.bottom > box.bottom + 1;
        if (g.checkVisibility() && leaves) found.push(`text leaves its box: ${t.textContent}`);
      }
    }
    return found;
  }

  /** What reaches out of the window or its box, and texts that lie on each other. */
  const faults = () => [...new Set([...outside(), ...overlaps(), ...drawn()])].slice(0, 20);

  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  function rgba(css) {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = css;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  }
  const over = (top, under) =>
    [0, 1, 2].map((k) => top[k] * top[3] + under[k] * (1 - top[3])).concat(1);
  function luminance(colour) {
    const linear = colour.slice(0, 3).map((v) => {
      const x = v / 255;
      return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  }
  function behind(e) {
    const layers = [];
    for (let x = e; x; x = x.parentElement) layers.unshift(rgba(getComputedStyle(x).backgroundColor));
    return layers.reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  }

  /** Texts whose contrast with what is behind them is below 4.5 (WCAG AA). */
  function pale() {
    const out = new Set();
    for (const e of document.body.querySelectorAll("*")) {
      if (e.closest(hidden) || !visible(e) || !words(e).length) continue;
      const back = behind(e);
      const front = over(rgba(getComputedStyle(e).color), back);
      const [a, b] = [luminance(front), luminance(back)].sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      if (ratio < 4.5) out.add(`${ratio.toFixed(2)} ${name(e)}`);
    }
    return [...out].slice(0, 20);
  }

  /** The element with the focus: its number in the page, and whether the focus can be seen. */
  function focus() {
    const e = document.activeElement;
    if (!e || e === document.body) return null;
    const r = e.getBoundingClientRect();
    const s = getComputedStyle(e);
    return {
      key: all().indexOf(e),
      size: r.width * r.height,
      outline: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0,
      inside: r.bottom > 0 && r.top < innerHeight,
    };
  }

  /** Numbers of everything that the keyboard must reach. */
  function controls() {
    const kinds = 'a[href], button, summary, input, select, [tabindex="0"]';
    return all().map((e, k) => [e, k])
      .filter(([e]) => e.matches(kinds) && visible(e) && !e.closest("template"))
      .map(([, k]) => k);
  }

  return { faults, pale, focus, controls };
})();
