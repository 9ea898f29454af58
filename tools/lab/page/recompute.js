// Activation recomputation: every g-th layer's input is kept, and a segment is computed again when its turn comes.

class Recompute {
  constructor() {
    const again = () => this.update();
    this.layers = new Slider(
        'rec-layers', 'L: layers', [4, 9, 16, 25, 32, 36, 48, 64, 80, 96, 100, 126], 64, String,
        () => this.chooseLayers());
    this.segment = new Slider('rec-segment', 'g: layers between kept inputs', [1], 1, String, again);
    this.kept = new Slider(
        'rec-kept', 'ρ: kept by a layer, in inputs', [1, 2, 4, 8, 16, 17, 24, 34], 1,
        (ρ) => ρ === 1 ? '1 (a plain chain)' :
            ρ === 16   ? '16 (FlashAttention)' :
            ρ === 17   ? '17 (dropout, no scores)' :
                         String(ρ),
        again);
    this.tokens = new Slider('rec-tokens', 's: tokens', powers(9, 17), 4096, String, again);
    this.hidden =
        new Slider('rec-hidden', 'h: hidden size', [1024, 2048, 4096, 5120, 8192, 12288, 16384], 4096, String, again);
    this.memory = new Slider('rec-memory', 'memory of a GPU', MEMORIES, 80e9, (M) => format(M, 'B'), again);
    this.strip = canvas('rec-strip', (width) => this.drawStrip(width));
    this.draw = canvas('rec-chart', (width) => this.chart(width));
    this.chooseLayers(8);
  }

  chooseLayers(g = Math.round(Math.sqrt(this.layers.value))) {
    this.segment.stops(oneEach(this.layers.value, (i) => i + 1), g);
    this.update();
  }

  values(g) {
    return compute.recompute({L: this.layers.value, g, ρ: this.kept.value, s: this.tokens.value, h: this.hidden.value});
  }

  update() {
    this.v = this.values(this.segment.value);
    const {v} = this;
    fill(
        'rec-numbers',
        element(
            'p', {class: 'verdict'},
            `${format(v.none, 'B')} without recomputation, ${format(v.held, 'B')} with g = ${
                v.g}. Least is near g = √(L/ρ) = `,
            number('rec_best', v.g_best, ''), '.'),
        figureTable(data.sheets.recompute, ['x', 'none', 'kept', 'segment', 'held', 'g_best', 'least', 'more'], v, {
          colours: {none: 'stage0', kept: 'weights', segment: 'activations', held: 'gradients'},
          caption: 'Recomputation'
        }));
    this.strip();
    this.draw();
  }

  /** The layers in a row: whose input is kept, and the last segment, which is computed again first. */
  drawStrip(width) {
    const {L, g} = this.v, each = width / L, last = Math.floor((L - 1) / g) * g;
    const made = picture(
        width, 40, `${Math.ceil(L / g)} of ${L} inputs are kept; layers ${last} to ${L - 1} are computed again first`);
    for (let i = 0; i < L; ++i) {
      made.append(box(i * each + 0.5, 4, each - 1, 30, {
        colour: i % g === 0 ? 'weights' :
            i >= last       ? 'activations' :
                              'bubble',
        text: each > 20 ? String(i) : '',
        name: i % g === 0 ? 'full' : ''
      }));
    }
    return [
      made,
      legendOf([['weights', 'layer whose input is kept'], ['activations', 'computed again now'], ['bubble', 'later']])
    ];
  }

  chart(width) {
    const stops = oneEach(this.layers.value, (i) => i + 1), all = stops.map((g) => this.values(g)),
          best = Math.min(...all.map((v) => v.held));
    return curves(
        width, stops,
        [
          {name: 'held', colour: 'gradients', values: all.map((v) => v.held)},
          {name: 'nothing recomputed', colour: 'stage0', values: all.map((v) => v.none)},
          {name: 'inputs kept', colour: 'weights', values: all.map((v) => v.kept)},
          {name: 'segment', colour: 'activations', values: all.map((v) => v.segment)}
        ],
        {
          unit: 'B',
          axis: 'g: layers between kept inputs',
          at: this.v.g,
          text: `Held against g; least ${format(best, 'B')}, near the square root of L/ρ`,
          limit: {value: this.memory.value, text: `one GPU: ${format(this.memory.value, 'B')}`}
        });
  }
}
