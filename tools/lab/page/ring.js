// The ring all-reduce, step by step.

class Ring {
  constructor() {
    this.ranks = new Slider('ring-ranks', 'n: ranks', [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 4, String, () => this.restart());
    this.bytes = new Slider('ring-bytes', 'S: bytes of the buffer', [1e6, 1e7, 1e8, 1e9, 2e9, 4e9, 14e9, 1e11], 4e9, (S) => format(S, 'B'), () => this.update());
    this.stepper = new Stepper('ring', () => this.update());
    this.restart(2);
  }

  restart(at = 0) {
    this.stepper.restart(2 * (this.ranks.value - 1), at);
    this.update();
  }

  /** held[rank][chunk]: whose contributions its copy contains, after `steps` steps; and what the last step sent. */
  static after(n, steps) {
    const held = Array.from({length: n}, (_, r) => Array.from({length: n}, () => new Set([r])));
    let sends = [];
    for (let t = 0; t < steps; ++t) {
      const reducing = t < n - 1;
      sends = Array.from({length: n}, (_, r) => ({from: r, to: (r + 1) % n, reducing,
        chunk: ((reducing ? r - t : r + 1 - (t - (n - 1))) % n + n) % n}));
      const copies = sends.map(({from, chunk}) => new Set(held[from][chunk]));
      sends.forEach(({to, chunk}, i) => {
        held[to][chunk] = reducing ? new Set([...held[to][chunk], ...copies[i]]) : copies[i];
      });
    }
    return {held, sends};
  }

  update() {
    const n = this.ranks.value, t = this.stepper.value;
    const v = computeRing({n, S: this.bytes.value});
    const {held, sends} = Ring.after(n, t);
    fill('ring-picture', this.circle(n, sends), this.grid(n, held, sends));
    let text = 'Every rank has its own buffer, cut into n chunks. Nothing is sent yet.';
    if (t > 0 && t < n) {
      text = `Reduce-scatter, step ${t} of ${n - 1}: each rank sends one chunk to the next rank, which adds it to its own.`;
      if (t === n - 1) text += ' Now each rank has one chunk that is complete.';
    } else if (t >= n) {
      text = `All-gather, step ${t - n + 1} of ${n - 1}: each rank passes a complete chunk on; the next rank replaces its own.`;
      if (t === 2 * (n - 1)) text += ' Now all ranks have the whole sum.';
    }
    byId('ring-text').textContent = text;
    fill('ring-numbers', figureTable(data.sheets.ring, ['steps', 'chunk', 'ring_sent', 'root_moved'], v, {caption: 'The ring'}),
        element('p', {class: 'note'}, 'Sent so far by each rank: ', number('ring_so_far', t * v.chunk, 'B'),
            ` = ${plural(t, 'step')} · ${format(v.chunk, 'B')}.`));
  }

  circle(n, sends) {
    const size = 320, middle = size / 2, radius = 112;
    const place = (r, out = radius) => {
      const angle = 2 * Math.PI * r / n - Math.PI / 2;
      return [middle + out * Math.cos(angle), middle + out * Math.sin(angle)];
    };
    const picture = element('svg', {viewBox: `0 0 ${size} ${size}`, class: 'ring', role: 'img', 'aria-label': sends.length === 0
      ? `A ring of ${n} ranks` : sends.map((s) => `rank ${s.from} sends chunk ${s.chunk} to rank ${s.to}`).join(', ')},
    element('defs', {}, element('marker', {id: 'arrow', viewBox: '0 0 10 10', refX: 8, refY: 5, markerWidth: 6, markerHeight: 6,
      orient: 'auto'}, element('path', {d: 'M0 0 L10 5 L0 10 z', class: 'arrowhead'}))));
    for (let r = 0; r < n; ++r) {
      const [x1, y1] = place(r + 0.22 * Math.min(1, n / 6) + 0.02 * n), [x2, y2] = place(r + 1 - 0.22 * Math.min(1, n / 6) - 0.02 * n);
      const send = sends.find((s) => s.from === r);
      picture.append(element('line', {x1, y1, x2, y2, class: send ? 'send' : 'idle', 'marker-end': send ? 'url(#arrow)' : false}));
      if (!send) continue;
      const [x, y] = place(r + 0.5, n === 2 ? 26 * (r === 0 ? 1 : 1) : radius * (n < 5 ? 0.52 : 0.78));
      picture.append(element('text', {x, y: y + 4, class: 'tick strong', 'text-anchor': 'middle'}, `#${send.chunk}`));
    }
    for (let r = 0; r < n; ++r) {
      const [x, y] = place(r);
      picture.append(element('circle', {cx: x, cy: y, r: 22, class: 'rank'}),
          element('text', {x, y: y + 5, class: 'rank-name', 'text-anchor': 'middle'}, String(r)));
    }
    return picture;
  }

  /** Rows are ranks, columns chunks; a cell shows how many contributions its sum has. */
  grid(n, held, sends) {
    const head = element('tr', {}, element('th', {scope: 'col'}, n > 8 ? `of ${n}` : 'rank'),
        ...Array.from({length: n}, (_, c) => element('th', {scope: 'col'}, `#${c}`)));
    const rows = held.map((chunks, r) => element('tr', {}, element('th', {scope: 'row'}, String(r)), ...chunks.map((from, c) => {
      const arrived = sends.some((s) => s.to === r && s.chunk === c);
      const state = from.size === n ? 'complete' : from.size > 1 ? 'partial' : 'own';
      return element('td', {class: `${state}${arrived ? ' arrived' : ''}`, style: `--share: ${Math.round(from.size / n * 100)}%`,
        title: `sum of ranks ${[...from].sort((a, b) => a - b).join(', ')}`}, n > 8 ? String(from.size) : `${from.size}/${n}`);
    })));
    return scroller('Chunks of the ranks', element('table', {class: n > 8 ? 'chunks tight' : 'chunks'},
        element('caption', {}, 'Contributions in each chunk, rank by rank'), element('thead', {}, head), element('tbody', {}, ...rows)));
  }
}
