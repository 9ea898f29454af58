// The assignment of GPUs to tensor, pipeline and data parallelism.

class Grid {
  constructor() {
    const again = () => this.update();
    const sizes = [1, 2, 4, 8];
    this.tp = new Slider('grid-tp', 'tp: tensor', sizes, 4, String, again);
    this.pp = new Slider('grid-pp', 'pp: pipeline', sizes, 2, String, again);
    this.dp = new Slider('grid-dp', 'dp: data', sizes, 4, String, again);
    this.host = new Slider('grid-host', 'GPUs of a host', [1, 2, 4, 8, 16], 8, String, again);
    this.chosen = 0;
    const board = byId('grid-board');
    const choose = (event) => {
      const cell = event.target.closest('button');
      if (cell) this.choose(Number(cell.dataset.rank));
    };
    board.addEventListener('click', choose);
    board.addEventListener('focusin', choose);
    board.addEventListener('pointerover', choose);
    board.addEventListener('keydown', (event) => {
      const by = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.host.value, ArrowUp: -this.host.value}[event.key];
      const next = this.cells[this.chosen + by];
      if (!by || !next) return;
      event.preventDefault();
      next.focus();
    });
    this.update();
  }

  /** Tensor parallelism is innermost, then pipeline, data outermost. */
  place(rank) {
    const tp = this.tp.value, pp = this.pp.value;
    return {t: rank % tp, p: Math.floor(rank / tp) % pp, d: Math.floor(rank / (tp * pp))};
  }

  update() {
    const total = this.tp.value * this.pp.value * this.dp.value, perHost = this.host.value;
    this.chosen = Math.min(this.chosen, total - 1);
    this.cells = Array.from({length: total}, (_, rank) => {
      const {t, p, d} = this.place(rank);
      return element('button', {type: 'button', 'data-rank': rank, 'aria-label': `GPU ${rank}: tensor ${t}, stage ${p}, data ${d}`},
          element('b', {}, String(rank)), element('small', {}, `${t}·${p}·${d}`));
    });
    const hosts = [];
    for (let first = 0; first < total; first += perHost) {
      hosts.push(element('div', {class: 'host'}, element('span', {class: 'host-name'}, `host ${first / perHost}`),
          element('div', {class: 'gpus', style: `--columns: ${Math.min(perHost, 8)}`}, ...this.cells.slice(first, first + perHost))));
    }
    fill('grid-board', ...hosts);
    this.choose(this.chosen);
  }

  choose(chosen) {
    this.chosen = chosen;
    const mine = this.place(chosen);
    const groups = {tensor: [], pipeline: [], data: []};
    this.cells.forEach((cell, rank) => {
      const {t, p, d} = this.place(rank);
      const same = {t: t === mine.t, p: p === mine.p, d: d === mine.d};
      if (same.p && same.d) groups.tensor.push(rank);
      if (same.t && same.d) groups.pipeline.push(rank);
      if (same.t && same.p) groups.data.push(rank);
      const kind = rank === chosen ? 'chosen' : same.p && same.d ? 'tp' : same.t && same.d ? 'pp' : same.t && same.p ? 'dp' : '';
      cell.className = kind;
      cell.tabIndex = rank === chosen ? 0 : -1;
    });
    const host = (rank) => Math.floor(rank / this.host.value);
    const line = (name, colour, what) => {
      const crosses = groups[name].some((rank) => host(rank) !== host(chosen));
      const bad = name === 'tensor' && crosses;
      return element('p', {class: bad ? 'group warning' : 'group'}, element('i', {class: 'swatch', style: `background: var(--${colour})`}),
          element('b', {}, `${name}: `), `GPUs ${groups[name].join(', ')} `,
          element('small', {}, `${what}; ${groups[name].length === 1 ? 'alone' : crosses ? 'crosses hosts' : 'inside a host'}`),
          bad ? ' — tensor parallelism needs the fast links inside a host.' : '');
    };
    fill('grid-groups', element('p', {}, 'GPU ', number('grid_rank', chosen, ''),
        ` = t + tp·(p + pp·d) = ${mine.t} + ${this.tp.value}·(${mine.p} + ${this.pp.value}·${mine.d})`),
    line('tensor', 'tp', 'all-reduce in every layer'), line('pipeline', 'pp', 'activations from stage to stage'),
    line('data', 'dp', 'gradients once a step'),
    element('p', {class: 'note'}, 'GPUs: tp·pp·dp = ', number('grid_gpus', this.cells.length, ''),
        ` = ${this.tp.value}·${this.pp.value}·${this.dp.value}`));
  }
}
