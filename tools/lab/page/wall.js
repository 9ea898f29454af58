// The memory wall: 16 bytes a parameter against the memory of GPUs.

const WALL_SIZES = [['GPT-2', 1.5e9], ['7B', 7e9], ['13B', 13e9], ['70B', 70e9], ['GPT-3', 175e9], ['405B', 405e9], ['1T', 1e12]];
const KINDS = ['weights', 'gradients', 'optimizer'];

/** Model states of Ψ parameters with a ZeRO stage on N ranks: the rows of the planner's sheet. */
function states(Ψ, N = 1, zero = 0) {
  const layout = {dp: N, pp: 1, cp: 1, ep: 1, tp: 1, zero, rc: 0, b: 1};
  return computeMemory({...data.start.cluster, ...PLAIN, ...computeGuess({Ψ}), s: 4096, G: N, B: N, sched: 1, v: 1, sp: 1, fa: 1, gb: 2,
    p8: 1, ...layout});
}

class Wall {
  constructor() {
    const again = () => this.update();
    this.size = new Slider('wall-size', 'parameters', decades(1e8, 2e12), 7e9, parameters, again);
    this.memory = new Slider('wall-memory', 'memory of a GPU', [16, 24, 32, 40, 48, 80, 141, 192, 288].map((g) => g * 1e9), 80e9,
        (M) => format(M, 'B'), again);
    this.update();
  }

  update() {
    const Ψ = this.size.value, M = this.memory.value;
    const v = states(Ψ);
    const gpus = Math.ceil(v.states / M);
    fill('wall-chart', this.chart(Ψ, M));
    fill('wall-numbers', bar(KINDS.map((kind) => ({label: kind, value: v[kind], colour: COLOURS[kind]})), Math.max(v.states, M) * 1.04, 'B',
        {value: M, label: `one GPU: ${format(M, 'B')}`}),
        figureTable(step, [...KINDS, 'states'], v, {colours: COLOURS, caption: 'Model states on one GPU'}),
        element('p', {class: 'verdict'}, v.states <= M
            ? 'The model states fit on one GPU; activations come on top.'
            : `The wall: the states alone fill ${plural(gpus, 'GPU')} of ${format(M, 'B')} (⌈${format(v.states, 'B')} / ${format(M, 'B')}⌉).`));
  }

  /** Bars on a logarithmic scale, and the GPU's memory as a line. */
  chart(Ψ, M) {
    const sizes = [...WALL_SIZES, ['yours', Ψ]].sort((a, b) => a[1] - b[1]);
    const left = 64, right = 610, top = 26, high = 30, least = Math.log10(1e9), most = Math.log10(4e13);
    const x = (bytes) => left + (right - left) * (Math.log10(Math.max(bytes, 1e9)) - least) / (most - least);
    const height = top + sizes.length * high + 24;
    const picture = element('svg', {viewBox: `0 0 700 ${height}`, role: 'img', 'aria-label':
      `Model states by number of parameters: ${sizes.map(([name, size]) => `${name} ${format(16 * size, 'B')}`).join(', ')}`});
    for (let bytes = 1e9; bytes <= 1e13; bytes *= 10) {
      picture.append(element('line', {x1: x(bytes), x2: x(bytes), y1: top - 6, y2: height - 22, class: 'gridline'}),
          element('text', {x: x(bytes), y: height - 6, class: 'tick', 'text-anchor': 'middle'}, format(bytes, 'B').replace('.00', '')));
    }
    sizes.forEach(([name, size], i) => {
      const y = top + i * high, own = name === 'yours';
      picture.append(element('text', {x: left - 8, y: y + 17, class: own ? 'tick strong' : 'tick', 'text-anchor': 'end'}, name));
      picture.append(element('rect', {x: left, y: y + 4, width: x(16 * size) - left, height: high - 10, rx: 3,
        class: 16 * size > M ? 'too-large' : 'fitting', opacity: own ? 1 : 0.5}),
          element('text', {x: x(16 * size) + 6, y: y + 17, class: own ? 'tick strong' : 'tick'}, format(16 * size, 'B')));
    });
    picture.append(element('line', {x1: x(M), x2: x(M), y1: 19, y2: height - 20, class: 'wall'}),
        element('text', {x: x(M), y: 12, class: 'tick strong', 'text-anchor': 'middle'}, `one GPU: ${format(M, 'B')}`));
    return picture;
  }
}
