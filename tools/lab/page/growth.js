// What an all-reduce costs as the number of ranks grows, by algorithm.

/** [name in the sheet, colour, dashes of its curve: some curves lie on each other] */
const GROWTH = [
  ['server', 'stage0', ''], ['chain', 'ep', '8 7'], ['tree', 'activations', ''], ['oneshot', 'tp', ''],
  ['doubling', 'stage2', ''], ['twoshot', 'gradients', ''], ['ring', 'weights', '12 9'], ['halving', 'optimizer', '3 7']
];
const MEASURES =
    [['t', 'time', 's'], ['p', 'bytes sent by the rank that sends most', 'B'], ['v', 'bytes sent by all ranks', 'B']];

class Growth {
  constructor() {
    const again = () => this.update();
    fill('growth-measure', ...MEASURES.map(([, text], i) => element('option', {value: i}, text)));
    byId('growth-measure').addEventListener('change', again);
    this.ranks = new Slider('growth-ranks', 'n: ranks', powers(1, 10), 8, String, again);
    this.bytes = new Slider(
        'growth-bytes', 'S: bytes of the buffer', [1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 4e9, 1e10, 1e11], 4e9,
        (S) => format(S, 'B'), again);
    this.link = new Slider(
        'growth-link', 'W: link, one direction', [1.25e9, 12.5e9, 25e9, 50e9, 100e9, 300e9, 450e9, 900e9], 50e9,
        (W) => format(W, 'B/s'), again);
    this.latency = new Slider(
        'growth-latency', 'α: latency', [0, 1e-6, 3.4e-6, 5e-6, 14e-6, 3e-5, 1e-4], 14e-6, (α) => format(α, 's'),
        again);
    this.draw = canvas('growth-chart', (width) => this.chart(width));
    this.update();
  }

  values(n) {
    return compute.growth({n, k: Math.log2(n), S: this.bytes.value, α: this.latency.value, W: this.link.value});
  }

  update() {
    const v = this.values(this.ranks.value), [kind, what] = MEASURES[byId('growth-measure').value],
          sheet = data.sheets.growth;
    const names = GROWTH.map(([name]) => `${kind}_${name}`),
          colours = Object.fromEntries(GROWTH.map(([name, colour]) => [`${kind}_${name}`, colour]));
    const least = Math.min(...names.map((name) => v[name])),
          best = names.filter((name) => v[name] <= least * (1 + 1e-9)).map((name) => rowOf(sheet, name, v).label);
    fill(
        'growth-numbers',
        element(
            'p', {class: 'verdict'}, `Least ${what} on ${v.n} ranks: ${best.map((name) => `“${name}”`).join(', ')}.`),
        figureTable(sheet, names, v, {colours, caption: what}));
    this.draw();
  }

  chart(width) {
    const [kind, what, unit] = MEASURES[byId('growth-measure').value], stops = powers(1, 10),
                       all = stops.map((n) => this.values(n));
    const series = GROWTH.map(([name, colour, dashes]) => {
      const row = `${kind}_${name}`;
      return {name: rowOf(data.sheets.growth, row, all[0]).label, colour, dashes, values: all.map((v) => v[row])};
    });
    return curves(width, stops, series, {
      unit,
      axis: 'n: ranks',
      at: this.ranks.value,
      text: `${what} of an all-reduce on 2 and on 1024 ranks: ${
          series.map((s) => `${s.name} ${format(s.values[0], unit)} and ${format(s.values[9], unit)}`).join('; ')}`
    });
  }
}
