// The grid of a pipeline's schedule: what each stage does when, and the bubble.

class Pipeline {
  constructor() {
    const again = () => this.update();
    fill('pipe-schedule', ...['GPipe', '1F1B', 'interleaved 1F1B', 'ZB-H1'].map((text, i) =>
      element('option', {value: i, selected: i === 1}, text)));
    byId('pipe-schedule').addEventListener('change', again);
    this.stages = new Slider('pipe-p', 'p: stages', [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16], 4, String, again);
    this.batches = new Slider('pipe-m', 'm: micro-batches', Array.from({length: 32}, (_, i) => i + 1), 8, String, again);
    this.chunks = new Slider('pipe-v', 'v: chunks of a stage', [2, 3, 4], 2, String, again);
    this.update();
  }

  update() {
    const sched = Number(byId('pipe-schedule').value), p = this.stages.value, v = sched === 2 ? this.chunks.value : 1;
    let m = this.batches.value;
    const wrong = sched === 2 && m % p !== 0;
    if (wrong) m = Math.ceil(m / p) * p;
    this.chunks.input.disabled = sched !== 2;
    const operations = schedule(sched, p, m, v), seen = measured(operations, p);
    const values = computeStep({...states(7e9), B: m, dp: 1, pp: p, G: p, sched, v});
    fill('pipe-grid', this.grid(operations, p, seen.end));
    fill('pipe-numbers',
        wrong ? element('p', {class: 'note'}, `The interleaved schedule needs a multiple of p: drawn with m = ${m}.`) : '',
        figureTable(step, ['bubble', 'q'], values, {keep: ['bubble'], caption: 'The pipeline'}),
        element('p', {class: 'note'}, 'Counted in the drawing: ', number('bubble_seen', seen.idle, 'share'), ' of all cells are empty, and ',
            number('held_seen', seen.held, ''), ' micro-batches’ activations are held by stage 0 at most.'));
  }

  grid(operations, p, end) {
    const left = 56, width = Math.max(640, Math.min(1500, end * 15)), unit = (width - left - 4) / end, high = p > 8 ? 22 : 30;
    const picture = element('svg', {viewBox: `0 0 ${width} ${p * high + 24}`, class: 'pipe', style: `min-width: ${width * 0.62}px`, role: 'img',
      'aria-label': `Schedule of ${p} stages; ${format(end)} units of time`});
    for (let stage = 0; stage < p; ++stage) {
      picture.append(element('text', {x: left - 8, y: stage * high + high / 2 + 4, class: 'tick', 'text-anchor': 'end'}, `stage ${stage}`),
          element('rect', {x: left, y: stage * high + 2, width: end * unit, height: high - 4, class: 'idle-time'}));
    }
    const names = {F: 'forward', B: operations.some((op) => op.kind === 'W') ? 'backward, inputs' : 'backward', W: 'backward, weights'};
    for (const op of operations) {
      const x = left + op.start * unit, y = op.stage * high + 2;
      picture.append(element('g', {class: `op ${op.kind} chunk${op.chunk % 2}`},
          element('title', {}, `stage ${op.stage}: ${names[op.kind]} of micro-batch ${op.batch}${op.chunk ? `, chunk ${op.chunk}` : ''}`),
          element('rect', {x: x + 0.5, y, width: Math.max(0.5, op.length * unit - 1), height: high - 4, rx: 2}),
          op.length * unit > 11 ? element('text', {x: x + op.length * unit / 2, y: y + high / 2 + 2, 'text-anchor': 'middle'}, String(op.batch)) : ''));
    }
    picture.append(element('text', {x: left, y: p * high + 17, class: 'tick'}, 'time →'));
    const legend = element('p', {class: 'legend'}, ...Object.entries(names).filter(([kind]) => operations.some((op) => op.kind === kind))
        .map(([kind, text]) => element('span', {}, element('i', {class: `swatch op-${kind}`}), text)),
    element('span', {}, element('i', {class: 'swatch op-idle'}), 'bubble'));
    return element('div', {}, element('div', {class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Schedule'}, picture), legend);
  }
}
