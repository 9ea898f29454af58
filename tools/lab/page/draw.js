// Pictures: drawn at the width of their place, so that text has one size everywhere, and again when that changes.

/** Fills the element `id` with `draw(width)`. Returns the function that draws it anew. */
function canvas(id, draw) {
  const home = byId(id);
  let width = 0;
  const paint = () => {
    if (width > 0) fill(home, ...[draw(width)].flat());
  };
  const measure = () => Math.max(240, Math.min(1100, Math.floor(home.clientWidth)));
  new ResizeObserver(() => {
    if (home.clientWidth === 0 || measure() === width) return;
    width = measure();
    paint();
  }).observe(home);
  width = measure();
  return paint;
}

/** An empty picture; `text` is what it shows, in words. */
function picture(width, height, text, name = '') {
  return element('svg', {viewBox: `0 0 ${width} ${height}`, class: name, role: 'img', 'aria-label': text});
}

/** A line of text at (x, y); `align`: start, middle, end. */
function label(x, y, text, align = 'start', strong = false) {
  return element('text', {x, y, class: strong ? 'tick strong' : 'tick', 'text-anchor': align}, text);
}

/** About how wide a text of 12 px is. */
const widthOf = (text) => 7.4 * [...text].length;

/** A box in a colour of style.css, with a text where there is room, and its title. */
function box(x, y, width, height, {colour, text = '', title = '', name = ''}) {
  const made = element(
      'g', {class: `box ${name}`, style: `--colour: var(--${colour})`}, title === '' ? '' : element('title', {}, title),
      element('rect', {x, y, width: Math.max(1, width), height, rx: Math.max(0, Math.min(3, width / 4))}));
  const shown = [...text].length * 6.2 + 4 <= width ? text : '';
  if (shown !== '')
    made.append(element('text', {x: x + width / 2, y: y + height / 2 + 4, 'text-anchor': 'middle'}, shown));
  return made;
}

/**
 * What happens when. rows: [{name, blocks: [{start, length, colour, text, title}]}]; `end`: s; marks: [{at, text}]. The
 * names of rows stand above them, so that a narrow picture keeps its width for time.
 */
function timeline(width, rows, end, text, marks = []) {
  const high = 46, top = 4, height = top + rows.length * high + 8 + 15 * Math.max(1, marks.length),
        x = (t) => 1 + t / end * (width - 2);
  const made = picture(width, height, text, 'timeline');
  rows.forEach((row, i) => {
    const y = top + i * high;
    made.append(element('rect', {x: 1, y: y + 16, width: width - 2, height: 24, class: 'idle-time'}));
    for (const block of row.blocks) {
      const crossed = marks.some((mark) => Math.abs(x(mark.at) - x(block.start + block.length / 2)) < 8);
      made.append(box(
          x(block.start), y + 16, block.length / end * (width - 2) - 1, 24, crossed ? {...block, text: ''} : block));
    }
  });
  const bottom = top + rows.length * high;
  marks.forEach((mark, i) => {
    const half = widthOf(mark.text) / 2 + 5, at = Math.min(Math.max(x(mark.at), half), width - half);
    made.append(
        element('line', {x1: x(mark.at), x2: x(mark.at), y1: top + 14, y2: bottom + 15 * i, class: 'wall'}),
        label(at, bottom + 14 + 15 * i, mark.text, 'middle', true));
  });
  made.append(...rows.map((row, i) => label(1, top + i * high + 11, row.name)));
  if (marks.length === 0)
    made.append(label(1, bottom + 14, 'time →'), label(width - 1, bottom + 14, format(end, 's'), 'end'));
  return made;
}

/**
 * Curves on logarithmic scales. series: [{name, colour, values, dashes}], one value for each of `stops`; `at`: the stop
 * that is marked; limit: {value, text}, a line across. A legend names the curves.
 */
function curves(width, stops, series, {unit, axis, text, at, limit = null, height = 290}) {
  const left = 58, right = width - 16, top = limit ? 22 : 10, bottom = height - 36;
  const all = [...series.flatMap((s) => s.values), ...(limit ? [limit.value] : [])].filter((value) => value > 0);
  const least = Math.log10(Math.min(...all) / 1.3), most = Math.log10(Math.max(...all) * 1.3);
  const x = (stop) => left +
      (right - left) * Math.log2(stop / stops[0]) / Math.max(1e-9, Math.log2(stops[stops.length - 1] / stops[0]));
  const y = (value) => bottom - (bottom - top) * (Math.log10(value) - least) / (most - least);
  const made = picture(width, height, text);
  let shown = -Infinity;
  for (const stop of stops) {
    if (x(stop) - shown < 34) continue;
    shown = x(stop);
    made.append(
        element('line', {x1: shown, x2: shown, y1: top, y2: bottom, class: 'gridline'}),
        label(shown, bottom + 15, String(stop), 'middle'));
  }
  const every = Math.ceil((most - least) / 6);
  for (let power = Math.ceil(least); power <= most; ++power) {
    if (power % every !== 0) continue;
    made.append(
        element('line', {x1: left, x2: right, y1: y(10 ** power), y2: y(10 ** power), class: 'gridline'}),
        label(left - 6, y(10 ** power) + 4, format(10 ** power, unit).replace(/\.0+(?= )/, ''), 'end'));
  }
  made.append(
      label((left + right) / 2, height - 4, axis, 'middle'),
      element('line', {x1: x(at), x2: x(at), y1: top, y2: bottom, class: 'wall thin'}));
  for (const {name, colour, values, dashes = ''} of series) {
    const style = `--colour: var(--${colour})`, here = values[stops.indexOf(at)];
    const points = stops.map((stop, i) => `${x(stop)},${y(values[i])}`).join(' ');
    made.append(
        element('polyline', {points, class: 'curve', style, 'stroke-dasharray': dashes}, element('title', {}, name)),
        element('circle', {cx: x(at), cy: y(here), r: 5, class: 'point', style}));
  }
  if (limit) {
    made.append(
        element('line', {x1: left, x2: right, y1: y(limit.value), y2: y(limit.value), class: 'wall'}),
        label(right, y(limit.value) + (y(limit.value) < top + 30 ? 15 : -6), limit.text, 'end', true));
  }
  return [made, legendOf(series.map(({name, colour}) => [colour, name]))];
}

/** [[colour, text], …] */
function legendOf(entries) {
  return element(
      'p', {class: 'legend'},
      ...entries.map(
          ([colour, text]) =>
              element('span', {}, element('i', {class: 'swatch', style: `background: var(--${colour})`}), text)));
}
