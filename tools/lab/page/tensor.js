// Tensor parallelism: which rank has which part of a matrix, and what the sum costs beside the arithmetic.

const SPLITS = [
  {
    name: 'columns, then rows (Megatron)',
    sent: 'sent_pair',
    steps: ['X', 'W₁ columns', 'H columns', 'W₂ rows', 'Y sums', 'all-reduce'],
    why:
        'GELU works on each column of H alone, so nothing is exchanged between the two products: one all-reduce of the output.'
  },
  {
    name: 'columns twice',
    sent: 'sent_columns',
    steps: ['X', 'W₁ columns', 'H columns', 'all-gather', 'W₂ columns', 'Y columns', 'all-gather'],
    why: 'A product split by columns needs its whole input: H, four times as wide as X, is gathered between.'
  },
  {
    name: 'rows twice',
    sent: 'sent_rows',
    steps: ['X columns', 'W₁ rows', 'H sums', 'all-reduce', 'W₂ rows', 'Y sums', 'all-reduce'],
    why:
        'A product split by rows gives sums that are not complete, and GELU of a part is no part of GELU: H is reduced between.'
  },
];

class Tensor {
  constructor() {
    const again = () => this.update();
    this.hidden = new Slider(
        'tensor-hidden', 'h: hidden size', [1024, 2048, 4096, 5120, 8192, 12288, 16384], 4096, String, again);
    this.tokens = new Slider('tensor-tokens', 'T: tokens', powers(8, 15), 4096, String, again);
    this.ranks = new Slider('tensor-ranks', 't: ranks', powers(0, 4), 8, String, again);
    this.link = new Slider(
        'tensor-link', 'W: link, one direction', [12.5e9, 25e9, 32e9, 50e9, 150e9, 300e9, 450e9, 900e9], 300e9,
        (W) => format(W, 'B/s'), again);
    this.latency =
        new Slider('tensor-latency', 'α: latency', [0, 1e-6, 3.4e-6, 5e-6, 14e-6], 0, (α) => format(α, 's'), again);
    this.share = new Slider(
        'tensor-share', 'e: of the peak', [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1], 1, (e) => format(e, 'share'), again);
    fill('tensor-split', ...SPLITS.map(({name}, i) => element('option', {value: i}, name)));
    byId('tensor-split').addEventListener('change', again);
    chooseGpu('tensor-gpu', 'a100', again);
    this.draw = canvas('tensor-time', (width) => this.chart(width));
    this.update();
  }

  update() {
    const h = this.hidden.value, {F} = gpuOf('tensor-gpu');
    this.v = compute.tensor({
      h,
      f: 4 * h,
      T: this.tokens.value,
      t: this.ranks.value,
      W: this.link.value,
      α: this.latency.value,
      F,
      e: this.share.value
    });
    const {v} = this, split = SPLITS[byId('tensor-split').value];
    fill('tensor-picture', ...split.steps.map((step) => this.part(step, v)));
    fill(
        'tensor-numbers',
        element('p', {class: 'verdict'}, `${split.why} Each rank sends ${format(v[split.sent], 'B')}.`),
        figureTable(
            data.sheets.tensor,
            [
              'w_mlp', 'w_mlp_t', 'w_qkv', 'w_qkv_t', 'C', 't_mlp', 'S', 'sent_pair', 'sent_columns', 'sent_rows',
              't_comm', 'by'
            ],
            v, {keep: ['t_comm', 'by'], caption: 'Tensor parallelism'}));
    this.draw();
  }

  /** "W₁ columns": a matrix with rank 0's part marked; "all-reduce": an arrow. */
  part(step, v) {
    const [name, how = 'whole'] = step.split(' ');
    if (name.startsWith('all-') && v.t === 1) return '';
    if (name.startsWith('all-')) return element('div', {class: 'between'}, '→ ', element('b', {}, name), ' →');
    const [rows, columns] = {X: [v.T, v.h], 'W₁': [v.h, v.f], H: [v.T, v.f], 'W₂': [v.f, v.h], Y: [v.T, v.h]}[name];
    const size = (n) => 26 + 52 * Math.log2(n / 256) / 8, w = size(columns), h = size(rows),
          count = how === 'whole' || how === 'sums' ? 1 : v.t;
    const mine = rows * columns / count;
    const made = element('svg', {
      viewBox: `0 0 ${w + 2} ${h + 2}`,
      width: w + 2,
      height: h + 2,
      role: 'img',
      'aria-label': `${name}, ${rows} by ${columns}, ${how}`
    });
    for (let i = 0; i < count; ++i) {
      const [x, y] = how === 'columns' ? [i * w / count, 0] : how === 'rows' ? [0, i * h / count] : [0, 0];
      made.append(element('g', {class: 'box', style: `--colour: var(--${i === 0 ? 'tp' : 'stage0'})`}, element('rect', {
                            x: 1 + x,
                            y: 1 + y,
                            width: how === 'columns' ? w / count : w,
                            height: how === 'rows' ? h / count : h,
                            class: i === 0 ? 'own' : 'others'
                          })));
    }
    return element(
        'div', {class: 'matrix'}, made, element('b', {}, how === 'sums' ? `${name}: ${plural(v.t, 'sum')}` : name),
        element('small', {}, `${rows} × ${columns}`),
        element('small', {}, `${format(rows * columns)}${count > 1 ? ` → ${format(mine)}` : ''}`));
  }

  chart(width) {
    const {v} = this, end = v.t_mlp + v.t_comm;
    return timeline(
        width,
        [
          {
            name: 'arithmetic of the MLP',
            blocks: [{start: 0, length: v.t_mlp, colour: 'compute', text: format(v.t_mlp, 's')}]
          },
          {
            name: 'all-reduce (columns, then rows)',
            blocks: v.t_comm > 0 ? [{start: v.t_mlp, length: v.t_comm, colour: 'tp', text: format(v.t_comm, 's')}] : []
          }
        ],
        end, `The MLP takes ${format(v.t_mlp, 's')}, then the all-reduce ${format(v.t_comm, 's')}`);
  }
}
