/* Behaviour of the report: the theme, and the two programs, which are read from the embedded data
   when they are first looked at. Every text is set as text, never as markup. */
(() => {
  "use strict";
  const LIMIT = 200; // children listed at once
  const STEPS = 24; // steps of a derivation shown at first
  const SHORT = 70; // letters of attributes shown in a step
  const STATES = ["plain", "named", "partial", "foreign", "blamed"];
  const BLAMED = 4;
  const [NAME, OP, TYPE, INPUTS, ATTRS, MODULE, ORIGIN, CODE, MEANING, LAYOUT, TWIN, STATE, LEMMAS] =
    Array(13).keys();

  const find = (selector, root = document) => root.querySelector(selector);

  /** An element with properties and children; strings become text nodes. */
  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children.filter((c) => c !== null && c !== ""));
    return element;
  }

  // ------------------------------------------------------------ theme

  function theme() {
    const button = find("#theme");
    const themes = ["auto", "light", "dark"];
    let chosen = "auto";
    try { chosen = localStorage.getItem("shardproof-theme") || "auto"; } catch { /* no storage */ }
    const apply = () => {
      document.documentElement.dataset.theme = chosen;
      button.textContent = `Theme: ${chosen}`;
    };
    button.hidden = false;
    button.addEventListener("click", () => {
      chosen = themes[(themes.indexOf(chosen) + 1) % themes.length];
      try { localStorage.setItem("shardproof-theme", chosen); } catch { /* no storage */ }
      apply();
    });
    apply();
  }

  // ------------------------------------------------------------ data

  const loaded = new Map();

  /** Embedded data by name, unpacked once. */
  function data(name) {
    if (!loaded.has(name)) loaded.set(name, unpack(find(`#data-${name}`)));
    return loaded.get(name);
  }

  async function unpack(element) {
    const packed = atob(element.textContent);
    const bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).json();
  }

  /** One program: rows, and what follows from them. */
  class Program {
    constructor(number, graph, texts) {
      this.number = number;
      this.rows = graph.rows;
      this.outputs = graph.outputs;
      this.texts = texts;
    }

    static async load(number) {
      const [graph, texts] = await Promise.all([data(`graph-${number}`), data("texts")]);
      return new Program(number, graph, texts);
    }

    text(row, field) { return this.texts[this.rows[row][field]]; }

    /** Rows that read a row. */
    users(row) {
      if (!this._users) {
        this._users = new Map();
        this.rows.forEach((r, k) => r[INPUTS].forEach((i) => {
          if (!this._users.has(i)) this._users.set(i, []);
          this._users.get(i).push(k);
        }));
      }
      return this._users.get(row) || [];
    }

    /** Rows of this program by the sequential row they answer to. */
    answers(row) {
      if (!this._answers) {
        this._answers = new Map();
        this.rows.forEach((r, k) => {
          if (r[TWIN] < 0) return;
          if (!this._answers.has(r[TWIN])) this._answers.set(r[TWIN], []);
          this._answers.get(r[TWIN]).push(k);
        });
      }
      return this._answers.get(row) || [];
    }

    /** Everything a row is made of, in execution order, at most `limit` of it nearest to the row. */
    made_of(row, limit) {
      const seen = new Set([row]);
      const todo = [row];
      for (let k = 0; k < todo.length && seen.size < limit; k++) {
        for (const i of this.rows[todo[k]][INPUTS]) {
          if (!seen.has(i) && seen.size < limit) { seen.add(i); todo.push(i); }
        }
      }
      return [...seen].sort((a, b) => a - b);
    }
  }

  // ------------------------------------------------------------ tree

  /** Consecutive rows with a common path make a group; groups come in execution order. */
  function grouped(program, rows, depth) {
    const out = [];
    let last = null;
    for (const row of rows) {
      const path = program.path(row);
      const part = path[depth];
      if (part === undefined) { out.push(row); last = null; continue; }
      if (last === null || last.part !== part) { last = { part, rows: [] }; out.push(last); }
      last.rows.push(row);
    }
    return out;
  }

  Program.prototype.path = function path(row) {
    this._paths = this._paths || new Map();
    const module = this.rows[row][MODULE];
    if (!this._paths.has(module)) this._paths.set(module, this.texts[module].split("/").filter(Boolean));
    return this._paths.get(module);
  };

  class Tree {
    constructor(pane, choose) {
      this.element = find(".tree", pane);
      this.search = find("input", pane);
      this.choose = choose;
      let timer = 0;
      this.search.addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(() => this.draw(), 150);
      });
      this.element.addEventListener("click", (event) => {
        const button = event.target.closest("button[data-row]");
        if (button) this.choose(this.program.number, Number(button.dataset.row));
      });
    }

    show(program) {
      this.program = program;
      this.draw();
    }

    draw() {
      const wanted = this.search.value.trim().toLowerCase();
      if (!wanted) {
        this.element.replaceChildren(...this.children(this.all(), 0));
        const only = this.element.querySelectorAll(":scope > details");
        if (only.length && only.length <= 3) only.forEach((d) => { this.fill(d); d.open = true; });
        return;
      }
      const hits = this.all().filter((row) => this.program.rows[row][NAME].toLowerCase().includes(wanted)
        || this.program.text(row, OP).includes(wanted));
      const shown = hits.slice(0, LIMIT).map((row) => this.row(row));
      const text = `${hits.length.toLocaleString("en")} found${hits.length > LIMIT ? `, the first ${LIMIT} shown` : ""}`;
      this.element.replaceChildren(make("p", { className: "quiet" }, text), ...shown);
    }

    all() { return Array.from(this.program.rows.keys()); }

    /** Elements for rows: groups by path, and ranges where there are too many. */
    children(rows, depth) {
      const items = grouped(this.program, rows, depth);
      if (items.length <= LIMIT) return items.map((item) => this.item(item, depth));
      let size = LIMIT;
      while (items.length / size > LIMIT) size *= LIMIT;
      const out = [];
      for (let k = 0; k < items.length; k += size) {
        const part = items.slice(k, k + size);
        const mine = part.flatMap((item) => (typeof item === "number" ? [item] : item.rows));
        const label = `${(k + 1).toLocaleString("en")} to ${Math.min(k + size, items.length).toLocaleString("en")}`;
        out.push(this.group(label, mine, () => (size === LIMIT
          ? part.map((item) => this.item(item, depth)) : this.children(mine, depth))));
      }
      return out;
    }

    item(item, depth) {
      if (typeof item === "number") return this.row(item);
      const single = this.merged(item, depth);
      return this.group(single.label, item.rows, () => this.children(item.rows, single.depth));
    }

    /** Groups inside each other with nothing else become one line. */
    merged(item, depth) {
      let label = item.part;
      let next = depth + 1;
      for (;;) {
        const inner = this.program.path(item.rows[0])[next];
        if (inner === undefined || item.rows.some((r) => this.program.path(r)[next] !== inner)) {
          return { label, depth: next };
        }
        label += `.${inner}`;
        next += 1;
      }
    }

    group(label, rows, fill) {
      const blames = rows.filter((r) => this.program.rows[r][STATE] === BLAMED).length;
      const summary = make("summary", {}, label, make("span", {}, rows.length.toLocaleString("en")));
      if (blames) summary.append(make("span", { className: "blames" }, "blamed"));
      const details = make("details", {}, summary);
      details._rows = rows;
      details._fill = fill;
      details.addEventListener("toggle", () => { if (details.open) this.fill(details); });
      return details;
    }

    fill(details) {
      if (!details._fill) return;
      details.append(...details._fill());
      details._fill = null;
    }

    row(row) {
      const r = this.program.rows[row];
      const button = make("button", { type: "button", className: STATES[r[STATE]] },
        make("b", {}, this.program.text(row, OP)),
        make("span", {}, `${r[NAME]} ${this.program.text(row, TYPE)}`));
      button.dataset.row = row;
      button.setAttribute("aria-pressed", String(row === this.chosen));
      return button;
    }

    /** Open the groups around a row and mark it. */
    reveal(row) {
      this.chosen = row;
      if (this.search.value) { this.search.value = ""; this.draw(); }
      let level = this.element;
      for (;;) {
        const next = [...level.querySelectorAll(":scope > details")].find((d) => includes(d._rows, row));
        if (!next) break;
        this.fill(next);
        next.open = true;
        level = next;
      }
      this.element.querySelectorAll("button[aria-pressed=true]").forEach((b) => b.setAttribute("aria-pressed", "false"));
      const button = find(`button[data-row="${row}"]`, level);
      if (!button) return;
      button.setAttribute("aria-pressed", "true");
      const box = this.element.getBoundingClientRect();
      const at = button.getBoundingClientRect();
      if (at.top < box.top || at.bottom > box.bottom) {
        this.element.scrollTop += at.top - box.top - box.height / 2;
      }
    }
  }

  /** Whether sorted rows hold a row. */
  function includes(rows, row) {
    let low = 0;
    let high = rows.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      if (rows[middle] === row) return true;
      if (rows[middle] < row) low = middle + 1; else high = middle - 1;
    }
    return false;
  }

  // ------------------------------------------------------------ detail

  class Explorer {
    constructor(element) {
      this.element = element;
      this.detail = find(".detail", element);
      const choose = (graph, row) => this.choose(graph, row);
      this.left = new Tree(find("[data-pane=sequential]", element), choose);
      this.right = new Tree(find("[data-pane=distributed]", element), choose);
      this.select = find("select", element);
      this.select.addEventListener("change", () => this.open(Number(this.select.value)));
    }

    async start() {
      const [sequential, distributed] = await Promise.all([Program.load(0), Program.load(Number(this.select.value))]);
      this.left.show(sequential);
      this.right.show(distributed);
    }

    async open(number) {
      this.select.value = String(number);
      this.right.show(await Program.load(number));
    }

    async choose(graph, row) {
      if (graph > 0 && this.right.program.number !== graph) await this.open(graph);
      const tree = graph > 0 ? this.right : this.left;
      tree.reveal(row);
      const twin = graph > 0 ? tree.program.rows[row][TWIN] : (this.right.program.answers(row)[0] ?? -1);
      if (twin >= 0) (graph > 0 ? this.left : this.right).reveal(twin);
      this.detail.replaceChildren(...this.described(tree.program, row));
    }

    link(program, row, text) {
      const button = make("button", { type: "button", className: "link" }, text || `%${program.rows[row][NAME]}`);
      button.addEventListener("click", () => this.choose(program.number, row));
      return button;
    }

    links(program, rows) {
      const shown = rows.slice(0, 12).flatMap((row, k) => (k ? [", ", this.link(program, row)] : [this.link(program, row)]));
      if (rows.length > 12) shown.push(` and ${rows.length - 12} more`);
      return shown;
    }

    described(program, row) {
      const r = program.rows[row];
      const attrs = program.text(row, ATTRS);
      const title = make("h3", {}, make("code", {}, `%${r[NAME]}`), " ", make("small", {}, program.text(row, TYPE)));
      const facts = make("dl", { className: "facts" });
      const fact = (label, ...children) => {
        if (children.length) facts.append(make("div", {}, make("dt", {}, label), make("dd", {}, ...children)));
      };
      fact("operator", make("code", {}, program.text(row, OP) + (attrs ? ` {${attrs}}` : "")));
      if (r[ORIGIN]) fact("source", program.text(row, ORIGIN));
      if (r[CODE]) fact("code", make("code", {}, program.text(row, CODE)));
      if (r[MEANING]) fact("means", make("code", {}, program.text(row, MEANING)));
      fact("reads", ...this.links(program, r[INPUTS]));
      fact("read by", ...this.links(program, program.users(row)));
      const names = program.outputs.filter((o) => o[1] === row).map((o) => o[0]);
      if (names.length) fact("returned as", names.join(", "));
      if (program.number > 0 && r[TWIN] >= 0) fact("answers to", this.link(this.left.program, r[TWIN]), " of the sequential program");
      if (program.number === 0) fact("answered by", ...this.links(this.right.program, this.right.program.answers(row)));
      const out = [title, facts];
      const map = find(`#maps`).content.querySelector(`[data-layout="${r[LAYOUT]}"]`);
      if (map) out.push(make("h4", {}, "On the ranks"), map.cloneNode(true));
      if (program.number > 0 && r[INPUTS].length) out.push(make("h4", {}, "How its meaning follows"), this.steps(program, row, STEPS));
      return out;
    }

    steps(program, row, limit) {
      const rows = program.made_of(row, limit + 1);
      const cut = rows.length > limit;
      const shown = cut ? rows.slice(-limit) : rows;
      const list = make("ol", { className: "steps" }, ...shown.map((k) => {
        const r = program.rows[k];
        const reads = r[INPUTS].flatMap((i, n) => (n ? [", ", this.link(program, i)] : [this.link(program, i)]));
        const attrs = program.text(k, ATTRS);
        const braces = attrs && attrs.length <= SHORT ? make("small", {}, ` {${attrs}}`) : "";
        const by = r[LEMMAS] ? make("p", { className: "by" }, `by ${program.text(k, LEMMAS)}`) : "";
        const means = r[MEANING] ? make("p", {}, make("code", {}, program.text(k, MEANING))) : "";
        return make("li", { className: k === row ? "last" : "" },
          this.link(program, k), " = ", make("code", {}, program.text(k, OP)), ...(reads.length ? ["(", ...reads, ")"] : [""]), braces, means, by);
      }));
      if (!cut) return list;
      const more = make("button", { type: "button" }, "More steps");
      const box = make("div", {}, list, more);
      more.addEventListener("click", () => box.replaceWith(this.steps(program, row, limit * 4)));
      return box;
    }
  }

  // ------------------------------------------------------------ start

  theme();
  const element = find(".explorer");
  if (!element) return;
  element.hidden = false;
  const explorer = new Explorer(element);
  let started = null;
  const start = () => (started = started || explorer.start());
  const near = new IntersectionObserver((entries) => {
    if (entries.some((e) => e.isIntersecting)) { near.disconnect(); start(); }
  }, { rootMargin: "400px" });
  near.observe(element);
  document.querySelectorAll(".go button").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await start();
      await explorer.choose(Number(button.dataset.graph), Number(button.dataset.row));
      explorer.detail.focus({ preventScroll: true });
      find("#programs").scrollIntoView();
    });
  });
})();
