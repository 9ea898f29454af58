// The grid of a pipeline's schedule: what each stage does when, and the bubble; and all schedules beside each other.

/** Names, in the order of `schedule`, and what they hold of a rank's weights. */
const PIPELINES = [['GPipe', 1], ['1F1B', 1], ['interleaved 1F1B', 1], ['ZB-H1', 1], ['DualPipe', 2], ['ZB-V', 1]];

class Pipeline {
  constructor() {
    const again = () => this.update();
    fill('pipe-schedule', ...PIPELINES.map(([text], i) => element('option', {value: i, selected: i === 1}, text)));
    byId('pipe-schedule').addEventListener('change', again);
    this.stages = new Slider('pipe-p', 'p: stages', [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16], 4, String, again);
    this.batches =
        new Slider('pipe-m', 'm: micro-batches', Array.from({length: 32}, (_, i) => i + 1), 8, String, again);
    this.chunks = new Slider('pipe-v', 'v: chunks of a stage', [2, 3, 4], 2, String, again);
    this.draw = canvas('pipe-grid', (width) => this.grid(width));
    this.update();
  }

  /** The nearest p and m that a schedule can have, and why they are not those of the sliders. */
  shape(sched) {
    const p = this.stages.value, m = this.batches.value;
    if (sched === 2 && m % p !== 0)
      return {p, m: Math.ceil(m / p) * p, why: 'The interleaved schedule needs a multiple of p'};
    const even = p + p % 2;
    if (sched === 4 && (even !== p || m % 2 !== 0 || m < 2 * even)) {
      return {
        p: even,
        m: Math.max(2 * even, m + m % 2),
        why: 'DualPipe needs an even p, and an even m of at least 2·p'
      };
    }
    return {p, m, why: ''};
  }

  /** The formulas' values. */
  values(sched, {p, m}) {
    const v = sched === 2 ? this.chunks.value : 1;
    return sched === 5 ? compute.vee({p, m}) : computeStep({...states(7e9), B: m, dp: 1, pp: p, G: p, sched, v});
  }

  update() {
    const sched = Number(byId('pipe-schedule').value), shape = this.shape(sched), {p, m, why} = shape;
    this.chunks.input.disabled = sched !== 2;
    const operations = schedule(sched, p, m, this.chunks.value), seen = measured(operations, p, sched > 3);
    this.drawn = {operations, p, end: seen.end};
    this.draw();
    fill(
        'pipe-numbers', why === '' ? '' : element('p', {class: 'note'}, `${why}: drawn with p = ${p}, m = ${m}.`),
        figureTable(
            sched === 5 ? data.sheets.vee : step, ['bubble', 'q'], this.values(sched, shape),
            {keep: ['bubble'], caption: 'The pipeline'}),
        element(
            'p', {class: 'note'}, 'Counted in the drawing: ', number('bubble_seen', seen.idle, 'share'),
            ' of the time is idle, and ', number('held_seen', seen.held, ''),
            ` micro-batches’ activations are held by ${sched > 3 ? 'a stage' : 'stage 0'} at most.`),
        this.comparison());
  }

  /** Every schedule at these p and m. */
  comparison() {
    const all = PIPELINES.map(([name, copies], sched) => {
      const {p, m} = this.shape(sched);
      return {name, copies, sched, p, m, ...measured(schedule(sched, p, m, this.chunks.value), p, sched > 3)};
    });
    const worst = Math.max(...all.map((one) => one.idle), 1e-9);
    return scroller(
        'All schedules',
        element(
            'table', {class: 'plain schedules'}, element('caption', {}, 'All schedules'),
            element(
                'thead', {},
                element(
                    'tr', {},
                    ...['schedule', 'bubble', 'held', 'weights', 'p', 'm', ''].map(
                        (text) => element('th', {scope: 'col'}, text)))),
            element(
                'tbody', {},
                ...all.map(
                    (one) => element(
                        'tr', {}, element('th', {scope: 'row'}, one.name),
                        element('td', {}, number(`bubble_${one.sched}`, one.idle, 'share')),
                        element('td', {}, number(`held_${one.sched}`, one.held, '')),
                        element('td', {}, `${one.copies} ×`), element('td', {}, String(one.p)),
                        element('td', {}, String(one.m)),
                        element(
                            'td', {class: 'cell-bar'},
                            element('div', {class: 'thin', style: `width: ${one.idle / worst * 100}%`})))))));
  }

  /** As wide as its place, or wider where a unit of time would be too narrow to see. */
  grid(room) {
    const {operations, p, end} = this.drawn, left = p > 10 ? 66 : 58, unit = Math.max(8, (room - left - 4) / end),
                          width = left + 4 + end * unit, high = p > 8 ? 22 : 30;
    const made = picture(width, p * high + 24, `Schedule of ${p} stages; ${format(end)} units of time`, 'pipe');
    made.style.width = `${width}px`;
    for (let stage = 0; stage < p; ++stage) {
      made.append(
          element(
              'text', {x: left - 8, y: stage * high + high / 2 + 4, class: 'tick', 'text-anchor': 'end'},
              `stage ${stage}`),
          element('rect', {x: left, y: stage * high + 2, width: end * unit, height: high - 4, class: 'idle-time'}));
    }
    const split = operations.some((op) => op.kind === 'W'), whole = operations.some((op) => op.kind === 'FB');
    const names = {
      F: 'forward',
      B: split && !whole ? 'backward, inputs' :
          whole          ? 'backward (short: inputs alone)' :
                           'backward',
      W: 'backward, weights'
    };
    for (const op of operations) {
      const x = left + op.start * unit, y = op.stage * high + 2;
      const parts = op.parts || [op], each = (high - 4) / parts.length;
      parts.forEach(
          (part, i) => made.append(element(
              'g', {class: `op ${part.kind} chunk${(part.way || part.chunk) % 2}`},
              element(
                  'title', {},
                  `stage ${op.stage}: ${names[part.kind]} of micro-batch ${part.batch}${
                      part.chunk ? `, chunk ${part.chunk}` : ''}`),
              element(
                  'rect',
                  {x: x + 0.5, y: y + i * each, width: Math.max(0.5, op.length * unit - 1), height: each, rx: 2}),
              op.length * unit > 6.5 * String(part.batch).length + 2 ?
                  element(
                      'text', {x: x + op.length * unit / 2, y: y + (i + 0.5) * each + 4, 'text-anchor': 'middle'},
                      String(part.batch)) :
                  '')));
    }
    made.append(element('text', {x: left, y: p * high + 17, class: 'tick'}, 'time →'));
    const legend = element(
        'p', {class: 'legend'},
        ...Object.entries(names)
            .filter(([kind]) => operations.some((op) => op.kind === kind || op.kind === 'FB' && kind !== 'W'))
            .map(([kind, text]) => element('span', {}, element('i', {class: `swatch op-${kind}`}), text)),
        element('span', {}, element('i', {class: 'swatch op-idle'}), 'bubble'));
    return element('div', {}, scroller('Schedule', made), legend);
  }
}
