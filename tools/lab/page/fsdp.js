// FSDP (ZeRO-3): weights are gathered before a unit computes, and released after.

class Fsdp {
  constructor() {
    const again = () => this.update();
    this.size = new Slider('fsdp-size', 'parameters', decades(1e8, 1e12), 7e9, parameters, again);
    this.units = new Slider('fsdp-units', 'U: units', [2, 4, 6, 8, 12, 16, 24, 32], 8, String, again);
    this.ranks = new Slider('fsdp-ranks', 'N: ranks', powers(1, 10), 64, String, again);
    this.tokens = new Slider('fsdp-tokens', 'T: tokens of a GPU', powers(8, 15), 4096, String, again);
    this.link = new Slider(
        'fsdp-link', 'W: link, one direction', [3.125e9, 6.25e9, 12.5e9, 25e9, 50e9, 100e9, 300e9, 450e9], 50e9,
        (W) => format(W, 'B/s'), again);
    fill(
        'fsdp-ahead',
        ...['while the unit before it computes', 'when the unit before it is done'].map(
            (text, i) => element('option', {value: 1 - i}, text)));
    byId('fsdp-ahead').addEventListener('change', again);
    chooseGpu('fsdp-gpu', 'a100', again);
    this.draw = canvas('fsdp-chart', (width) => this.chart(width));
    this.update();
  }

  update() {
    const {F} = gpuOf('fsdp-gpu');
    this.v = compute.fsdp({
      Ψ: this.size.value,
      U: this.units.value,
      N: this.ranks.value,
      T: this.tokens.value,
      W: this.link.value,
      F,
      e: 0.5
    });
    this.run = gatherAndRelease(this.v, byId('fsdp-ahead').value === '1');
    const {v, run} = this;
    fill(
        'fsdp-numbers',
        element(
            'p', {class: 'verdict'}, 'Gathered at one time: ', number('fsdp_peak', run.peak, 'B'),
            ` of ${format(v.whole, 'B')}. The step takes `, number('fsdp_step', run.end, 's'),
            `; arithmetic alone ${format(v.t_compute, 's')}, communication alone ${format(v.t_comm, 's')}.`),
        figureTable(
            data.sheets.fsdp,
            [
              'states', 'unit', 'whole', 'sent_ddp', 'sent_fsdp', 't_gather', 't_scatter', 't_forward', 't_backward',
              't_compute', 't_comm'
            ],
            v, {caption: 'FSDP'}));
    this.draw();
  }

  chart(width) {
    const {v, run} = this, name = ({unit}) => String(unit), {end} = run;
    const block = (op, colour, what) =>
        ({...op, length: op.end - op.start, colour, text: name(op), title: `${what} of unit ${op.unit}`});
    const computes =
        run.computes.map((op) => op.backward ? block(op, 'compute', 'backward') : block(op, 'stage0', 'forward'));
    const transfers = [
      ...run.gathers.map((op) => block(op, 'dp', 'all-gather')),
      ...run.scatters.map((op) => block(op, 'gradients', 'reduce-scatter'))
    ];
    const rows = [{name: 'arithmetic', blocks: computes}, {name: 'communication', blocks: transfers}];
    const top = timeline(width, rows, end, `Step of ${v.U} units: ${format(end, 's')}`);
    return [
      top, this.memory(width, end), legendOf([
        ['stage0', 'forward'], ['compute', 'backward'], ['dp', 'all-gather of weights'],
        ['gradients', 'reduce-scatter of gradients']
      ])
    ];
  }

  /** Whole weights (and gradients above them) that the rank holds, over time. */
  memory(width, end) {
    const {v, run} = this, height = 150, top = 22, bottom = height - 8,
              most = Math.max(v.whole, ...run.levels.map((at) => at.weights + at.gradients)) * 1.05;
    const x = (t) => 1 + t / end * (width - 2), y = (bytes) => bottom - bytes / most * (bottom - top);
    const made = picture(
        width, height,
        `Memory over the step: at most ${format(run.peak, 'B')} of weights are gathered, ${
            format(v.whole, 'B')} would be all`);
    const area = (level) => `${
        run.levels
            .map((at, i) => `L${x(at.time)} ${y(i > 0 ? level(run.levels[i - 1]) : 0)} L${x(at.time)} ${y(level(at))}`)
            .join(' ')} L${x(end)} ${bottom} Z`;
    made.append(
        element('path', {
          d: `M${x(0)} ${bottom} ${area((at) => at.weights + at.gradients)}`,
          class: 'area',
          style: '--colour: var(--gradients)'
        }),
        element(
            'path', {d: `M${x(0)} ${bottom} ${area((at) => at.weights)}`, class: 'area', style: '--colour: var(--dp)'}),
        element('line', {x1: 1, x2: width - 1, y1: y(v.whole), y2: y(v.whole), class: 'wall'}),
        label(1, y(v.whole) - 6, `all weights: ${format(v.whole, 'B')}`, 'start', true),
        element('line', {x1: 1, x2: width - 1, y1: bottom, y2: bottom, class: 'gridline'}));
    return made;
  }
}

/**
 * Forward through the units, then backward. A unit's weights are gathered while the one before computes (`ahead`) or
 * after it; its gradients are scattered after its backward pass. Communication is one stream, in order.
 */
function gatherAndRelease(v, ahead) {
  const order = [
    ...oneEach(v.U, (unit) => ({unit, backward: false})), ...oneEach(v.U, (i) => ({unit: v.U - 1 - i, backward: true}))
  ];
  const gathers = [{unit: 0, start: 0, end: v.t_gather}], scatters = [], computes = [];
  let wire = v.t_gather, free = 0;
  order.forEach((op, i) => {
    const start = Math.max(free, gathers[i].end);
    free = start + (op.backward ? v.t_backward : v.t_forward);
    computes.push({...op, start, end: free});
    if (i + 1 < order.length) {
      const from = Math.max(wire, ahead ? start : free);
      gathers.push({unit: order[i + 1].unit, start: from, end: wire = from + v.t_gather});
    }
    if (op.backward) {
      const from = Math.max(wire, free);
      scatters.push({unit: op.unit, start: from, end: wire = from + v.t_scatter});
    }
  });
  const events =
      computes
          .flatMap(
              (op, i) => [
                  [gathers[i].start, v.unit, 0], [op.end, -v.unit, 0],
                  ...(op.backward ? [[op.start, 0, v.unit], [scatters[v.U - 1 - op.unit].end, 0, -v.unit]] : [])])
          .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let weights = 0, gradients = 0;
  const levels = events.map(([time, w, g]) => ({time, weights: weights += w, gradients: gradients += g}));
  return {
    gathers,
    scatters,
    computes,
    levels,
    end: Math.max(free, wire),
    peak: Math.max(...levels.map((at) => at.weights))
  };
}
