// ZeRO's stages against the number of ranks, and the memory of a GPU.

const STAGES = ['data parallel', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3'];
const PRECISIONS =
    [['mixed precision: 2 + 2 + 12 bytes', {w: 2, g: 2, o: 12}], ['all in f32: 4 + 4 + 8 bytes', {w: 4, g: 4, o: 8}]];
const MEMORIES = [16, 24, 32, 40, 48, 80, 141, 192, 288].map((g) => g * 1e9);

class Zero {
  constructor() {
    const again = () => this.update();
    this.size = new Slider('zero-size', 'parameters', decades(1e8, 2e12), 7e9, parameters, again);
    this.ranks = new Slider('zero-ranks', 'N: ranks', powers(0, 10), 64, (N) => format(N), again);
    this.parts = new Slider('zero-parts', 'P: parts (tp·pp)', powers(0, 7), 1, String, again);
    this.memory = new Slider('zero-memory', 'memory of a GPU', MEMORIES, 80e9, (M) => format(M, 'B'), again);
    fill('zero-precision', ...PRECISIONS.map(([text], i) => element('option', {value: i}, text)));
    byId('zero-precision').addEventListener('change', again);
    this.draw = canvas('zero-chart', (width) => this.chart(width));
    this.update();
  }

  given() {
    return {
      Ψ: this.size.value,
      N: this.ranks.value,
      P: this.parts.value,
      M: this.memory.value,
      ...PRECISIONS[byId('zero-precision').value][1]
    };
  }

  update() {
    const v = compute.zero(this.given()), whole = Math.max(v.z0, v.M) * 1.04, sheet = data.sheets.zero;
    const rows = STAGES.map((name, zero) => {
      const {formula} = rowOf(sheet, `z${zero}`, v),
            share = (bytes, stage) => bytes * v.Ψ / v.P / (zero >= stage ? v.N : 1);
      const parts = [['weights', share(v.w, 3)], ['gradients', share(v.g, 2)], ['optimizer', share(v.o, 1)]];
      return element(
          'tr', {},
          element(
              'th', {scope: 'row'}, element('i', {class: 'swatch', style: `background: var(--stage${zero})`}), name),
          element('td', {class: 'value'}, number(`zero-${zero}`, v[`z${zero}`], 'B')),
          element(
              'td', {class: 'formula'}, element('span', {}, formula),
              element('small', {}, `= ${filled(sheet, formula, v)}`)),
          element('td', {class: 'value'}, `÷ ${(v.z0 / v[`z${zero}`]).toFixed(2)}`),
          element(
              'td', {class: 'cell-bar'},
              bar(parts.map(([kind, value]) => ({label: kind, value, colour: kind})), whole, 'B',
                  {value: v.M, label: ''})));
    });
    fill(
        'zero-numbers',
        element(
            'table', {class: 'figures zero'}, element('caption', {}, 'Model states of a rank'),
            element(
                'thead', {},
                element(
                    'tr', {}, ...['', 'states', 'formula', 'less', ''].map((t) => element('th', {scope: 'col'}, t)))),
            element('tbody', {}, ...rows)),
        legendOf(KINDS.map((kind) => [kind, kind])), this.verdict(v));
    this.draw();
  }

  /** What fits, and the largest model that would. */
  verdict(v) {
    const fit = STAGES.filter((_, zero) => v[`z${zero}`] <= v.M);
    const most = STAGES.flatMap(
        (name, zero) => [zero ? ' · ' : '', `${name} `, billions(`zero-most-${zero}`, v[`most${zero}`])]);
    return element(
        'p', {class: 'verdict'},
        `In ${format(v.M, 'B')} ${fit.length === 0 ? 'none of them fits' : `fit ${fit.join(', ')}`} (the line). `,
        'The largest model whose states fit: ', ...most, '.');
  }

  chart(width) {
    const v = this.given(), stops = powers(0, 10);
    const values = (zero) => stops.map((N) => compute.zero({...v, N})[`z${zero}`]);
    return curves(width, stops, STAGES.map((name, zero) => ({name, colour: `stage${zero}`, values: values(zero)})), {
      unit: 'B',
      axis: 'N: ranks',
      at: v.N,
      limit: {value: v.M, text: `one GPU: ${format(v.M, 'B')}`},
      text: `Model states of a rank against the number of ranks, ${
          STAGES
              .map(
                  (name, zero) => `${name} ${format(values(zero)[0], 'B')} on 1 rank and ` +
                      `${format(values(zero)[10], 'B')} on 1024`)
              .join('; ')}; a GPU has ${format(v.M, 'B')}`
    });
  }
}
