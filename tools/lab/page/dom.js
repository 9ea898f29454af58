// Small helpers: elements, sliders over stops, and numbers with their formulas.

const byId = (id) => document.getElementById(id);

/** element('p', {class: 'note'}, 'text', child…) */
function element(tag, attributes = {}, ...children) {
  const svg = ['svg', 'rect', 'line', 'text', 'path', 'circle', 'g', 'title', 'marker', 'defs', 'polyline'];
  const made = svg.includes(tag) ? document.createElementNS('http://www.w3.org/2000/svg', tag)
                                 : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children);
  return made;
}

/** Replaces all that `parent` holds. */
function fill(parent, ...children) {
  (typeof parent === 'string' ? byId(parent) : parent).replaceChildren(...children);
}

/** "10 steps" with the right ending. */
const plural = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;

/**
 * A slider over `stops`, in the element `id`: it has `value`, `set(value)` and `stops(list)`. `text(value)` is shown and
 * read aloud; `changed` is called when the user moves it.
 */
class Slider {
  static named = new Map();

  constructor(id, label, stops, value, text, changed) {
    Slider.named.set(id, this);
    this.text = text;
    this.input = element('input', {type: 'range', id, min: 0, step: 1});
    this.output = element('output', {for: id});
    this.input.addEventListener('input', () => {
      this.show();
      changed(this.value);
    });
    const home = document.querySelector(`[data-slider="${id}"]`);
    fill(home, element('label', {for: id}, element('span', {}, label), this.output), this.input);
    this.stops(stops, value);
  }

  get value() { return this.list[Number(this.input.value)]; }

  /** Takes other stops, and the nearest of them to `value`. */
  stops(list, value = this.value) {
    this.list = list;
    this.input.max = list.length - 1;
    this.input.disabled = list.length < 2;
    this.set(value);
  }

  set(value) {
    let nearest = 0;
    this.list.forEach((stop, i) => {
      if (Math.abs(stop - value) < Math.abs(this.list[nearest] - value)) nearest = i;
    });
    this.input.value = nearest;
    this.show();
  }

  show() {
    this.output.textContent = this.text(this.value);
    this.input.setAttribute('aria-valuetext', this.text(this.value));
    const share = this.list.length < 2 ? 0 : Number(this.input.value) / (this.list.length - 1);
    this.input.style.setProperty('--share', `${share * 100}%`);
  }
}

/** Moves the sliders and list boxes of `settings` {id: value} in order, as a user would. */
function pose(settings) {
  for (const [id, value] of Object.entries(settings)) {
    const slider = Slider.named.get(id), home = byId(id);
    if (slider) slider.set(value);
    else home.value = value;
    home.dispatchEvent(new Event(slider ? 'input' : 'change'));
  }
}

/** What may be wider than the page: it scrolls, by the keyboard too, and fades where more follows. */
function scroller(label, ...children) {
  return fading(element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label}, ...children));
}

function fading(region) {
  const mark = () =>
      region.classList.toggle('more', region.scrollLeft + region.clientWidth < region.scrollWidth - 4);
  region.addEventListener('scroll', mark);
  new ResizeObserver(mark).observe(region);
  return region;
}

/** Powers of two from 2^from to 2^to, and what else is given, in order. */
function powers(from, to, ...more) {
  const list = Array.from({length: to - from + 1}, (_, i) => 2 ** (from + i));
  return [...new Set([...list, ...more])].sort((a, b) => a - b);
}

/** [1, 2, 5, 10, …] · unit, up to `most`. */
function decades(least, most) {
  const list = [];
  for (let power = least; power <= most; power *= 10) {
    for (const factor of [1, 1.5, 2, 3, 5, 7]) if (power * factor <= most) list.push(power * factor);
  }
  return list;
}

/** "7 billion" */
function parameters(Ψ) {
  const [unit, name] = Ψ >= 1e12 ? [1e12, 'trillion'] : Ψ >= 1e9 ? [1e9, 'billion'] : [1e6, 'million'];
  return `${Number((Ψ / unit).toPrecision(3))} ${name}`;
}

/** A number of the sheet as an element that tests can read. */
function number(name, value, unit) {
  return element('b', {class: 'number', 'data-name': name, 'data-value': value}, format(value, unit));
}

/** A number of parameters, as `number`. */
function billions(name, Ψ) {
  return element('b', {class: 'number', 'data-name': name, 'data-value': Ψ}, parameters(Ψ));
}

/** One row of a table of figures: label, value, formula, the formula with numbers. */
function figureRow(sheet, name, v, colour = '', sum = false) {
  const selected = v.selected?.[name] !== undefined;
  const row = {...rowOf(sheet, name, v), ...(selected ? {formula: 'given', source: 'the selector, on this topology'} : {})};
  const label = element('th', {scope: 'row'});
  if (colour) label.append(element('i', {class: 'swatch', style: `background: var(--${colour})`}));
  label.append(row.label);
  return element('tr', {class: sum ? 'sum' : ''}, label,
      element('td', {class: 'value'}, number(name, v[name], row.unit)),
      element('td', {class: 'formula'}, element('span', {}, element('var', {}, name), ' = ', row.formula),
          selected ? '' : element('small', {}, `= ${filled(sheet, row.formula, v)}`)),
      element('td', {class: 'source'}, row.source));
}

/** A table of figures. Rows that are 0 are left out, unless named in `keep`; those in `sums` end what they add up. */
function figureTable(sheet, names, v, {colours = {}, keep = [], sums = [], caption = ''} = {}) {
  const rows = names.filter((name) => v[name] !== 0 || keep.includes(name))
      .map((name) => figureRow(sheet, name, v, colours[name], sums.includes(name)));
  return element('table', {class: 'figures'}, element('caption', {}, caption),
      element('thead', {}, element('tr', {}, ...['', 'value', 'formula', 'source'].map((t) => element('th', {scope: 'col'}, t)))),
      element('tbody', {}, ...rows));
}

/** A bar of parts [{name, label, value, colour}] to the scale of `whole`; `limit`: a mark with its text. */
function bar(parts, whole, unit, limit = null) {
  const letter = innerWidth > 860 ? 1.1 : 2.1; // % of the bar, about
  const made = element('div', {class: 'bar', role: 'img',
    'aria-label': parts.map((part) => `${part.label} ${format(part.value, unit)}`).join(', ')});
  for (const part of parts) {
    if (part.value <= 0) continue;
    const share = part.value / whole * 100;
    made.append(element('div', {class: 'part', style: `width: ${share}%; background: var(--${part.colour})`,
      title: `${part.label}: ${format(part.value, unit)}`}, share > 4 + letter * part.label.length ? part.label : ''));
  }
  if (limit) {
    const at = Math.min(100, limit.value / whole * 100);
    made.append(element('div', {class: at > 60 ? 'limit left' : 'limit', style: `left: ${at}%`},
        element('span', {}, limit.label)));
  }
  return made;
}
