// The memory wall: 16 bytes a parameter against the memory of GPUs.

const WALL_SIZES =
    [['GPT-2', 1.5e9], ['7B', 7e9], ['13B', 13e9], ['70B', 70e9], ['GPT-3', 175e9], ['405B', 405e9], ['1T', 1e12]];
/** The sizes of a slider: the models above, too. */
const WALL_STOPS = [...new Set([...decades(1e8, 2e12), ...WALL_SIZES.map(([, Ψ]) => Ψ)])].sort((a, b) => a - b);
const KINDS = ['weights', 'gradients', 'optimizer'];

/** Model states of Ψ parameters with a ZeRO stage on N ranks: the rows of the planner's sheet. */
function states(Ψ, N = 1, zero = 0) {
  const layout = {dp: N, pp: 1, cp: 1, ep: 1, tp: 1, zero, rc: 0, b: 1};
  return computeMemory({
    ...data.start.cluster,
    ...PLAIN,
    ...computeGuess({Ψ}),
    s: 4096,
    G: N,
    B: N,
    sched: 1,
    v: 1,
    sp: 1,
    fa: 1,
    gb: 2,
    p8: 1,
    ...layout
  });
}

class Wall {
  constructor() {
    const again = () => this.update();
    this.size = new Slider('wall-size', 'parameters', WALL_STOPS, 7e9, parameters, again);
    this.memory = new Slider('wall-memory', 'memory of a GPU', MEMORIES, 80e9, (M) => format(M, 'B'), again);
    this.draw = canvas('wall-chart', (width) => this.chart(width));
    this.update();
  }

  update() {
    const Ψ = this.size.value, M = this.memory.value;
    const v = states(Ψ);
    const gpus = Math.ceil(v.states / M);
    this.draw();
    fill(
        'wall-numbers',
        bar(KINDS.map((kind) => ({label: kind, value: v[kind], colour: COLOURS[kind]})), Math.max(v.states, M) * 1.04,
            'B', {value: M, label: `one GPU: ${format(M, 'B')}`}),
        figureTable(
            step, [...KINDS, 'states'], v, {colours: COLOURS, sums: ['states'], caption: 'Model states on one GPU'}),
        element(
            'p', {class: 'verdict'},
            v.states <= M ? 'The model states fit on one GPU; activations come on top.' :
                            `The wall: the states alone fill ${plural(gpus, 'GPU')} of ${format(M, 'B')} (⌈${
                                format(v.states, 'B')} / ${format(M, 'B')}⌉).`));
  }

  /** Bars on a logarithmic scale, and the GPU's memory as a line. */
  chart(width) {
    const Ψ = this.size.value, M = this.memory.value, sizes = [...WALL_SIZES, ['yours', Ψ]].sort((a, b) => a[1] - b[1]);
    const left = 48, right = width - 60, top = 26, high = 30, least = Math.log10(1e9), most = Math.log10(16 * 2e12);
    const x = (bytes) => left + (right - left) * (Math.log10(Math.max(bytes, 1e9)) - least) / (most - least);
    const height = top + sizes.length * high + 24;
    const made = picture(
        width, height,
        `Model states by number of parameters: ${
            sizes.map(([name, size]) => `${name} ${format(16 * size, 'B')}`).join(', ')}; a GPU has ${format(M, 'B')}`);
    for (let bytes = 1e9; bytes <= 1e13; bytes *= 10) {
      made.append(
          element('line', {x1: x(bytes), x2: x(bytes), y1: top - 6, y2: height - 22, class: 'gridline'}),
          label(x(bytes), height - 6, format(bytes, 'B').replace(/\.0+(?= )/, ''), 'middle'));
    }
    sizes.forEach(([name, size], i) => {
      const y = top + i * high, own = name === 'yours';
      made.append(label(left - 8, y + 17, name, 'end', own), element('rect', {
                    x: left,
                    y: y + 4,
                    width: Math.max(2, x(16 * size) - left),
                    height: high - 10,
                    rx: 3,
                    class: 16 * size > M ? 'too-large' : 'fitting',
                    opacity: own ? 1 : 0.5
                  }));
    });
    const text = `one GPU: ${format(M, 'B')}`, at = Math.max(x(M), widthOf(text) / 2);
    made.append(
        element('line', {x1: x(M), x2: x(M), y1: 19, y2: height - 20, class: 'wall'}),
        label(at, 12, text, 'middle', true), ...sizes.map(([name, size], i) => {
          const value = format(16 * size, 'B'), beside = x(16 * size) + 6, line = x(M);
          const crossed = beside - 3 < line && line < beside + widthOf(value);  // then it stands behind the line
          return label(crossed ? line + 6 : beside, top + i * high + 17, value, 'start', name === 'yours');
        }));
    return made;
  }
}
