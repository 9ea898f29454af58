// Mixture of experts: a router sends tokens to experts on other ranks, and some experts get more than others.

class Moe {
  constructor() {
    const again = () => this.update();
    this.ranks = new Slider('moe-ranks', 'n: expert-parallel ranks', [2, 4, 8, 16], 4, String, again);
    this.experts = new Slider('moe-experts', 'E: experts', [2, 4, 8, 16, 32, 64, 128], 8, String, again);
    this.used = new Slider('moe-used', 'k: experts of a token', [1, 2, 4, 8], 2, String, again);
    this.tokens = new Slider('moe-tokens', 'T: tokens of a rank', powers(4, 10), 256, String, again);
    this.skew = new Slider('moe-skew', 'how uneven the router is', [0, 0.25, 0.5, 0.75, 1, 1.5], 0.5, String, again);
    this.capacity = new Slider('moe-capacity', 'cf: capacity factor', [1, 1.25, 1.5, 2, 4], 1.25, String, again);
    this.hidden = new Slider('moe-hidden', 'h: hidden size', [1024, 2048, 4096, 7168, 8192], 4096, String, again);
    this.draw = canvas('moe-chart', (width) => this.chart(width));
    this.update();
  }

  update() {
    const E = Math.max(this.experts.value, this.ranks.value), n = this.ranks.value, k = Math.min(this.used.value, E),
          T = this.tokens.value;
    this.counts = route({n, E, k, T, skew: this.skew.value});
    this.loads = oneEach(E, (e) => total(this.counts.map((row) => row[e])));
    this.v = compute.moe({T, n, E, k, cf: this.capacity.value, h: this.hidden.value, most: Math.max(...this.loads)});
    const {v} = this, dropped = total(this.loads.map((load) => Math.max(0, load - v.capacity)));
    fill('moe-table', this.table());
    fill(
        'moe-numbers',
        element(
            'p', {class: 'verdict'}, 'Above the capacity: ', number('moe_dropped', dropped, ''),
            ` of ${format(n * T * k)} choices, which would be dropped; `,
            'without a capacity all ranks wait for the fullest expert.'),
        figureTable(
            data.sheets.moe, ['mean', 'capacity', 'S', 'sent', 'sent_step', 'slower'], v, {caption: 'Experts'}));
    this.draw();
  }

  /** Tokens from each rank to each rank, in the dispatch. */
  table() {
    const {n, E} = this.v, to = (row, rank) => total(row.slice(rank * E / n, (rank + 1) * E / n)),
              most = Math.max(...this.counts.flatMap((row) => oneEach(n, (r) => to(row, r))));
    return scroller(
        'Dispatch',
        element(
            'table', {class: 'chunks'}, element('caption', {}, 'Copies of tokens from rank to rank'),
            element(
                'thead', {},
                element(
                    'tr', {}, element('th', {scope: 'col'}, 'from'),
                    ...oneEach(n, (r) => element('th', {scope: 'col'}, `to ${r}`)))),
            element(
                'tbody', {},
                ...this.counts.map(
                    (row, from) => element(
                        'tr', {}, element('th', {scope: 'row'}, String(from)),
                        ...oneEach(
                            n,
                            (r) => element(
                                'td', {
                                  class: from === r ? 'stays' : '',
                                  style: `--share: ${Math.round(to(row, r) / most * 100)}%`
                                },
                                String(to(row, r)))))))));
  }

  chart(width) {
    const {v, loads} = this, height = 190, left = 4, top = 22, bottom = height - 22, each = (width - 2 * left) / v.E,
              most = Math.max(v.most, v.capacity) * 1.08;
    const y = (load) => bottom - load / most * (bottom - top);
    const made = picture(
        width, height,
        `Tokens of the ${v.E} experts: ${loads.join(', ')}; evenly ${format(v.mean)}, capacity ${v.capacity}`);
    loads.forEach((load, e) => {
      const taken = Math.min(load, v.capacity), x = left + e * each + 1;
      made.append(
          box(x, y(taken), each - 2, bottom - y(taken),
              {colour: 'ep', title: `expert ${e}: ${load} tokens`, text: String(load)}));
      if (load > taken)
        made.append(
            box(x, y(load), each - 2, y(taken) - y(load), {colour: 'tp', title: `${load - taken} above the capacity`}));
      if (each > 22) made.append(label(x + each / 2, height - 6, `e${e}`, 'middle'));
    });
    made.append(
        element('line', {x1: left, x2: width - left, y1: y(v.capacity), y2: y(v.capacity), class: 'wall'}),
        label(width - left, y(v.capacity) - 5, `capacity ${v.capacity}`, 'end', true));
    return [made, legendOf([['ep', 'tokens of an expert'], ['tp', 'above its capacity']])];
  }
}

/** counts[rank][expert] of a router whose expert e has weight 1/(e + 1)^skew; the same choices each time. */
function route({n, E, k, T, skew}) {
  const weights = oneEach(E, (e) => 1 / (e + 1) ** skew);
  let seed = 12345;
  const random = () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  const all = total(weights);
  const pick = (taken) => {
    let at = random() * (all - total(taken.map((e) => weights[e]))), last = 0;
    for (let e = 0; e < E; ++e) {
      if (taken.includes(e)) continue;
      at -= weights[e];
      last = e;
      if (at < 0) break;
    }
    return last;
  };
  return oneEach(n, () => {
    const counts = oneEach(E, () => 0);
    for (let token = 0; token < T; ++token) {
      const taken = [];
      for (let i = 0; i < k; ++i) taken.push(pick(taken));
      taken.forEach((e) => ++counts[e]);
    }
    return counts;
  });
}
