// The assignment of up to 1,024 GPUs to tensor, context, expert, pipeline and data parallelism.

const MOST_GPUS = 1024;
/** Innermost first: [axis, name, sizes, at first, what its ranks exchange]. */
const AXES = [
  ['tp', 'tensor', powers(0, 4), 4, 'all-reduce in every layer'],
  ['cp', 'context', powers(0, 4), 1, 'keys and values in every layer'],
  ['ep', 'expert', powers(0, 6), 1, 'tokens in every layer'],
  ['pp', 'pipeline', powers(0, 5), 2, 'activations from stage to stage'],
  ['dp', 'data', powers(0, 10), 4, 'gradients once a step'],
];

class Grid {
  constructor() {
    const again = () => this.update();
    this.axes = AXES.map(
        ([axis, name, sizes, first]) => new Slider(`grid-${axis}`, `${axis}: ${name}`, sizes, first, String, again));
    this.host = new Slider('grid-host', 'GPUs of a host', [1, 2, 4, 8, 16, 32, 72], 8, String, again);
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

  get sizes() {
    return this.axes.map((slider) => slider.value);
  }

  /** A rank's place on each axis, innermost first. */
  place(rank) {
    let rest = rank;
    return this.sizes.map((size) => {
      const at = rest % size;
      rest = (rest - at) / size;
      return at;
    });
  }

  /** The outer axes take what the inner ones leave of the most that is drawn. */
  limit() {
    let room = MOST_GPUS;
    this.axes.forEach((slider, i) => {
      slider.stops(AXES[i][2].filter((size) => size <= room));
      room /= slider.value;
    });
  }

  update() {
    this.limit();
    const count = this.sizes.reduce((all, size) => all * size, 1), perHost = this.host.value,
          used = AXES.map((_, i) => i).filter((i) => this.sizes[i] > 1);
    this.chosen = Math.min(this.chosen, count - 1);
    const named = count <= 128;
    this.places = oneEach(count, (rank) => this.place(rank));
    this.cells = this.places.map(
        (place, rank) => element(
            'button', {
              type: 'button',
              'data-rank': rank,
              'aria-label': `GPU ${rank}: ${used.map((i) => `${AXES[i][1]} ${place[i]}`).join(', ')}`
            },
            ...(named ? [element('b', {}, String(rank)), element('small', {}, used.map((i) => place[i]).join('·'))] :
                        [])));
    const hosts = [];
    for (let first = 0; first < count; first += perHost) {
      hosts.push(element(
          'div', {class: 'host'}, element('span', {class: 'host-name'}, `host ${first / perHost}`),
          element(
              'div', {class: 'gpus', style: `--columns: ${Math.min(perHost, 8)}`},
              ...this.cells.slice(first, first + perHost))));
    }
    byId('grid-board').className = named ? 'board' : 'board dense';
    fill('grid-board', ...hosts);
    this.choose(this.chosen);
  }

  choose(chosen) {
    this.chosen = chosen;
    const mine = this.places[chosen], groups = AXES.map(() => []);
    this.cells.forEach((cell, rank) => {
      const apart = AXES.map((_, i) => i).filter((i) => this.places[rank][i] !== mine[i]);
      if (apart.length === 1) groups[apart[0]].push(rank);
      if (rank === chosen) groups.forEach((group) => group.push(rank));
      cell.className = rank === chosen ? 'chosen' : apart.length === 1 ? AXES[apart[0]][0] : '';
      cell.tabIndex = rank === chosen ? 0 : -1;
    });
    const host = (rank) => Math.floor(rank / this.host.value), {sizes} = this;
    const line = ([axis, name, , , what], i) => {
      const crosses = groups[i].some((rank) => host(rank) !== host(chosen)), bad = axis === 'tp' && crosses;
      const list =
          groups[i].length > 16 ? `${groups[i].slice(0, 15).join(', ')} … ${groups[i].at(-1)}` : groups[i].join(', ');
      return element(
          'p', {class: bad ? 'group warning' : 'group'},
          element('i', {class: 'swatch', style: `background: var(--${axis})`}), element('b', {}, `${name}: `),
          `${groups[i].length === 1 ? 'GPU' : 'GPUs'} ${list} `,
          element(
              'small', {},
              `${what}; ${
                  groups[i].length === 1 ?
                      'alone' :
                      `${groups[i].length} ranks, ${crosses ? 'crosses hosts' : 'inside a host'}`}`),
          bad ? ' — tensor parallelism needs the fast links inside a host.' : '');
    };
    fill(
        'grid-groups', element('p', {}, 'GPU ', number('grid_rank', chosen, ''), ` = ${this.formula(mine)}`),
        ...AXES.map(line),
        element(
            'p', {class: 'note'}, 'GPUs: ', number('grid_gpus', this.cells.length, ''),
            ` = ${AXES.map(([axis]) => axis).join('·')} = ${sizes.join('·')}`));
  }

  /** "1 + 4·(0 + 2·3)": the axes that are used, innermost first. */
  formula(place) {
    const used = AXES.map((_, i) => i).filter((i) => this.sizes[i] > 1);
    if (used.length === 0) return '0';
    return used.slice(0, -1).reduceRight(
        (outer, i) => `${place[i]} + ${this.sizes[i]}·${outer.includes(' ') ? `(${outer})` : outer}`,
        String(place[used.at(-1)]));
  }
}
