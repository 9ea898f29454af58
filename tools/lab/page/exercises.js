// Exercises: a question, a slider for the answer, and why. The right answer is computed by the page's formulas.

const gigabytes = (value) => format(value, 'B');
const ofGpu = (name) => data.clusters.find((cluster) => cluster.name === name);
const zeroOf = (more) => compute.zero({Ψ: 7e9, N: 8, P: 1, M: 80e9, w: 2, g: 2, o: 12, ...more});
const piped = (p, m, sched = 1) => stepOf(7e9, {B: m, pp: p, G: p, sched});

/** Question, stops of the slider, their text, the right answer, why, and the part of the page that shows it. */
const EXERCISES = [
  {
    ask: 'How much memory do the weights of a 13B model take in bf16?',
    stops: [6.5e9, 13e9, 26e9, 52e9, 104e9, 208e9],
    text: gigabytes,
    right: () => states(13e9).weights,
    why: () => '2 bytes a parameter.',
    part: 'wall'
  },
  {
    ask: 'And its model states, trained with Adam in mixed precision on one GPU?',
    stops: [26e9, 52e9, 78e9, 104e9, 156e9, 208e9, 260e9],
    text: gigabytes,
    right: () => states(13e9).states,
    why: () => '2 + 2 + 12 = 16 bytes a parameter.',
    part: 'wall'
  },
  {
    ask: '7B with ZeRO-1 on 8 ranks: the model states of a rank?',
    stops: [14e9, 17.5e9, 26.25e9, 28e9, 29.3e9, 38.5e9, 56e9],
    text: gigabytes,
    right: () => zeroOf({}).z1,
    why: () => '(2 + 2 + 12/8) · 7: only the optimizer is divided.',
    part: 'zero'
  },
  {
    ask: '70B with ZeRO-3: on how many GPUs of 80 GB do the states fit, at least (a power of two)?',
    stops: powers(1, 8),
    text: String,
    right: () => powers(0, 10).find((N) => zeroOf({Ψ: 70e9, N}).z3 <= 80e9),
    why: () => '16 · 70 GB / N ≤ 80 GB: N ≥ 14.',
    part: 'zero'
  },
  {
    ask: 'A chain of L = 64 layers, each of which keeps four inputs’ worth (ρ = 4). Which g holds least?',
    stops: [1, 2, 4, 8, 16, 32, 64],
    text: String,
    right: () => compute.recompute({L: 64, g: 1, ρ: 4, s: 1, h: 1}).g_best,
    why: () => '√(L/ρ) = √16.',
    part: 'recompute'
  },
  {
    ask: 'A ring all-reduce of 1 GB over 16 ranks: what does each rank send?',
    stops: [62.5e6, 0.5e9, 0.9375e9, 1e9, 1.875e9, 2e9, 15e9, 16e9],
    text: gigabytes,
    right: () => computeRing({n: 16, S: 1e9}).ring_sent,
    why: () => '2 · 15/16 of the buffer.',
    part: 'ring'
  },
  {
    ask: 'Recursive halving and doubling on 64 ranks: how many rounds?',
    stops: [2, 6, 8, 12, 16, 63, 64, 126],
    text: String,
    right: () => played(COLLECTIVES[2], 64, 0).rounds,
    why: () => 'log₂ 64 = 6 halvings, then 6 doublings.',
    part: 'collectives'
  },
  {
    ask: '10 kB over 64 ranks, α = 14 µs, 50 GB/s: which takes least time?',
    stops: [0, 1, 2, 3],
    text: (i) => ['ring', 'tree', 'recursive doubling', 'halving and doubling'][i],
    right: () => {
      const v = compute.growth({n: 64, k: 6, S: 1e4, α: 14e-6, W: 50e9}),
            all = [v.t_ring, v.t_tree, v.t_doubling, v.t_halving];
      return all.indexOf(Math.min(...all));
    },
    why: () => {
      const v = compute.growth({n: 64, k: 6, S: 1e4, α: 14e-6, W: 50e9});
      return `Latency rules, so few rounds win: doubling’s six take ${
          format(
              v.t_doubling,
              's')}, the twelve of the tree ${format(v.t_tree, 's')}, the ring’s 126 ${format(v.t_ring, 's')}.`;
    },
    part: 'growth'
  },
  {
    ask: '7B with ZeRO-3 on 8 ranks: what does a rank send in a step of one micro-batch?',
    stops: [12.25e9, 14e9, 24.5e9, 28e9, 36.75e9, 42e9, 49e9],
    text: gigabytes,
    right: () => compute.fsdp({Ψ: 7e9, U: 1, N: 8, T: 1, W: 1e9, F: 1e12, e: 1}).sent_fsdp,
    why: () => '3 · 14 GB · 7/8; data parallelism sends 2 · 14 GB · 7/8.',
    part: 'fsdp'
  },
  {
    ask: 'h = 8192, an MLP of 4·h, 8 tensor-parallel ranks: elements of the first matrix on a rank?',
    stops: [4194304, 8388608, 16777216, 33554432, 67108864, 268435456],
    text: (n) => format(n),
    right: () => compute.tensor({h: 8192, f: 32768, T: 1, t: 8, W: 1e9, α: 0, F: 1e12, e: 1}).w_mlp_t,
    why: () => '8192 · 32768 / 8.',
    part: 'tensor'
  },
  {
    ask:
        'Ring attention, no mask, H100 at half its peak, links of 50 GB/s, as many key-value heads as heads: from how many tokens a rank on is the message hidden?',
    stops: [128, 1024, 3120, 4096, Math.ceil(ofGpu('h100').F * 0.5 / 50e9), 16384, 65536].sort((a, b) => a - b),
    text: String,
    right: () => Math.ceil(compute.context({s: 1, c: 1, h: 4096, kv: 8192, W: 50e9, F: ofGpu('h100').F, e: 0.5}).least),
    why: () => 'F·e/W: arithmetic of a block by its bytes.',
    part: 'context'
  },
  {
    ask: '1F1B with 8 stages and 24 micro-batches: the bubble?',
    stops: [0.097, 0.2, 7 / 31, 0.25, 7 / 24, 1 / 3],
    text: (share) => format(share, 'share'),
    right: () => piped(8, 24).bubble,
    why: () => '(p − 1)/(m + p − 1) = 7/31; 7/24 is the bubble by the ideal time.',
    part: 'pipeline'
  },
  {
    ask: '4 stages, 1F1B: the fewest micro-batches with a bubble of at most 10 %?',
    stops: [3, 8, 12, 16, 24, 27, 30, 32, 40],
    text: String,
    right: () => oneEach(64, (i) => i + 1).find((m) => piped(4, m).bubble <= 0.1),
    why: () => '3/(m + 3) ≤ 1/10: m ≥ 27.',
    part: 'pipeline'
  },
  {
    ask: '8 stages, 32 micro-batches: how many micro-batches’ activations does stage 0 hold with 1F1B?',
    stops: [1, 4, 7, 8, 16, 31, 32],
    text: String,
    right: () => piped(8, 32).q,
    why: () => 'min(m, p); GPipe holds all 32.',
    part: 'pipeline'
  },
];

/** The last one has three sliders: a layout within 5 % of the best. */
const LAYOUT_TASK = {
  model: '70b',
  gpu: 'h100',
  G: 128,
  B: 1024
};

class Exercises {
  constructor() {
    this.solved = new Set();
    this.tasks = [...EXERCISES, null];
    fill(
        'exercise-list',
        ...this.tasks.map(
            (task, i) => this.frame(
                i,
                task ? task.ask :
                       'Llama 2 70B on 128 H100, 1,024 sequences of 4,096 tokens a step. Choose tp, pp and ' +
                        'ZeRO so that it fits and takes at most 5 % longer than the best layout.',
                task ? ['answer'] : ['tp', 'pp', 'zero'])));
    this.sliders = EXERCISES.map(
        (task, i) =>
            new Slider(`ex-${i + 1}-answer`, 'answer', task.stops, task.stops[0], task.text, () => this.clear(i)));
    const last = EXERCISES.length, clear = () => this.clear(last);
    this.layout = [['tp', powers(0, 4)], ['pp', powers(0, 4)], ['zero', [0, 1, 2, 3]]].map(
        ([axis, stops]) => new Slider(
            `ex-${last + 1}-${axis}`, axis === 'zero' ? 'ZeRO stage' : axis, stops, stops[0], String, clear));
    this.score();
  }

  frame(i, ask, sliders) {
    return element(
        'fieldset', {class: 'exercise'}, element('legend', {}, `Exercise ${i + 1}`), element('p', {}, ask),
        ...sliders.map((name) => element('div', {'data-slider': `ex-${i + 1}-${name}`})),
        element('button', {type: 'button', id: `ex-${i + 1}-check`, onclick: () => this.check(i)}, 'Check'),
        element('p', {id: `ex-${i + 1}-result`, class: 'note', role: 'status'}));
  }

  clear(i) {
    fill(`ex-${i + 1}-result`);
  }

  check(i) {
    const [right, why, part] = i < EXERCISES.length ? this.checkOne(i) : this.checkLayout();
    if (right) this.solved.add(i);
    fill(
        `ex-${i + 1}-result`, element('b', {class: right ? 'right' : 'wrong'}, right ? 'Right. ' : 'Not yet. '), why,
        ' ', element('a', {href: `#${part}`}, 'See it'));
    this.score();
  }

  checkOne(i) {
    const task = EXERCISES[i], right = task.right(), given = this.sliders[i].value;
    return [
      Math.abs(given - right) <= 1e-9 * Math.abs(right),
      Math.abs(given - right) <= 1e-9 * Math.abs(right) ? task.why() : 'Look at the part that the link leads to.',
      task.part
    ];
  }

  /** The fastest that fits with these sizes, against the best of all. */
  checkLayout() {
    const model = data.models.find(({name}) => name === LAYOUT_TASK.model), gpu = ofGpu(LAYOUT_TASK.gpu),
          {G, B} = LAYOUT_TASK;
    const given = {...gpu, ...model, s: 4096, G, B, sched: 1, sp: 1, fa: 1, gb: 2, p8: 1, chunks: 0},
          [tp, pp, zero] = this.layout.map((slider) => slider.value);
    this.best ||= search(given, 1).best[0];
    const dp = G / (tp * pp),
          mine = divisors(B / dp).flatMap(
              (b) => [0, 1, 2].map(
                  (rc) => computeStep({...given, tp, pp, zero: dp > 1 ? zero : 0, cp: 1, ep: 1, dp, v: 1, b, rc})));
    const fitting = mine.filter((v) => v.free >= 0),
          fastest = fitting.reduce((best, v) => !best || v.T_step < best.T_step ? v : best, null);
    if (!fastest) {
      const least = mine.reduce((best, v) => v.total < best.total ? v : best);
      return [false, `It does not fit: ${format(least.total, 'B')} of ${format(least.budget, 'B')}.`, 'plan'];
    }
    return [
      fastest.T_step <= 1.05 * this.best.T_step,
      `${format(fastest.T_step, 's')} a step; the best takes ${format(this.best.T_step, 's')}.`, 'plan'
    ];
  }

  score() {
    fill('exercise-score', 'Solved: ', number('solved', this.solved.size, ''), ` of ${this.tasks.length}.`);
  }
}
