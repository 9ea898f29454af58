// The planner: a model and a cluster, the best layout or the user's own, and what it takes.

const COLOURS = {weights: 'weights', gradients: 'gradients', optimizer: 'optimizer', activations: 'activations',
  buffers: 'buffers', T_comp: 'compute', T_tp: 'tp', E_cp: 'cp', E_ep: 'ep', T_opt: 'optimizer', T_bubble: 'bubble', T_pp: 'pp', E_dp: 'dp',
  sent_tp: 'tp', sent_cp: 'cp', sent_ep: 'ep', sent_pp: 'pp', sent_dp: 'dp'};
const MEMORY = ['weights', 'gradients', 'optimizer', 'activations', 'buffers'];
const SENT = ['sent_tp', 'sent_cp', 'sent_ep', 'sent_pp', 'sent_dp'];
const TIME = ['T_comp', 'T_tp', 'E_cp', 'E_ep', 'T_bubble', 'T_pp', 'E_dp', 'T_opt'];
const RECOMPUTED = ['nothing', 'selective', 'whole layers'];
const step = data.sheets.step;
/** What a dense model of the usual shape is not. */
const PLAIN = {V: 32000, E: 1, k: 1, ks: 0, kn: 1, drop: 0, Ψe: 0};

class Planner {
  constructor() {
    const {start} = data;
    const again = () => this.update();
    this.model = data.models.find((model) => model.name === start.model);
    this.cluster = {...start.cluster};
    this.own = null; // the user's layout; null: the best
    this.select('plan-model', [...data.models.map((m) => [m.name, m.label]), ['any', 'any size']], this.model.name,
        () => this.chooseModel());
    this.select('plan-gpu', data.clusters.map((c) => [c.name, c.label]), this.cluster.name, () => this.chooseGpu());
    this.select('plan-schedule', ['GPipe', '1F1B', 'interleaved 1F1B', 'ZB-H1', 'DualPipe'].map((text, i) => [i, text]), start.sched, again);
    const gb = (value) => format(value, 'B'), speed = (value) => format(value, 'B/s');
    const one = (value) => format(value);
    this.size = new Slider('plan-size', 'parameters', decades(1e8, 2e12), this.model.Ψ, parameters, () => this.chooseSize());
    this.gpus = new Slider('plan-gpus', 'GPUs', powers(0, 14, start.G), start.G, one, again);
    this.memory = new Slider('plan-memory', 'memory of a GPU',
        stopsWith([16, 24, 32, 40, 48, 64, 80, 96, 128, 141, 180, 192, 288].map((g) => g * 1e9), start.cluster.M), start.cluster.M, gb, again);
    this.host = new Slider('plan-host', 'GPUs of a host', stopsWith([1, 2, 4, 8, 16, 32, 72], start.cluster.H), start.cluster.H, one, again);
    this.inside = new Slider('plan-inside', 'link inside a host', stopsWith([16, 32, 64, 150, 300, 450, 900].map((g) => g * 1e9),
        start.cluster.W_in), start.cluster.W_in, speed, again);
    this.between = new Slider('plan-between', 'link between hosts', stopsWith([1.25, 3.125, 6.25, 12.5, 25, 50, 100, 200].map((g) => g * 1e9),
        start.cluster.W_out), start.cluster.W_out, speed, again);
    this.sequence = new Slider('plan-sequence', 'tokens of a sequence', powers(9, 17, start.s), start.s, one, again);
    this.batch = new Slider('plan-batch', 'sequences of a step', powers(0, 14, start.B), start.B, one, again);
    this.layout = {};
    for (const [axis, label] of [['tp', 'tensor'], ['pp', 'pipeline'], ['cp', 'context'], ['ep', 'expert']]) {
      this.layout[axis] = new Slider(`plan-${axis}`, `${axis}: ${label}`, [1], 1, one, () => this.chooseLayout());
    }
    this.layout.zero = new Slider('plan-zero', 'ZeRO stage', [0, 1, 2, 3], 0, String, () => this.chooseLayout());
    this.layout.b = new Slider('plan-b', 'micro-batch', [1], 1, one, () => this.chooseLayout());
    this.layout.v = new Slider('plan-v', 'v: chunks of a stage', [1], 1, one, () => this.chooseLayout());
    this.layout.rc = new Slider('plan-rc', 'recompute', [0, 1, 2], 0, (rc) => RECOMPUTED[rc], () => this.chooseLayout());
    byId('plan-best').addEventListener('click', () => { this.own = null; this.update(); });
    this.showModel();
    this.update();
  }

  select(id, choices, value, changed) {
    fill(id, ...choices.map(([name, text]) => element('option', {value: name, selected: String(name) === String(value)}, text)));
    byId(id).addEventListener('change', changed);
  }

  chooseModel() {
    const name = byId('plan-model').value;
    if (name === 'any') return this.chooseSize();
    this.model = data.models.find((model) => model.name === name);
    this.size.set(this.model.Ψ);
    this.sequence.set(this.model.s);
    this.showModel();
    this.update();
  }

  /** A model of any size has the usual proportions. */
  chooseSize() {
    byId('plan-model').value = 'any';
    this.model = {name: 'any', ...PLAIN, ...computeGuess({Ψ: this.size.value})};
    this.showModel();
    this.update();
  }

  chooseGpu() {
    this.cluster = {...data.clusters.find((cluster) => cluster.name === byId('plan-gpu').value)};
    for (const [slider, name] of [['memory', 'M'], ['host', 'H'], ['inside', 'W_in'], ['between', 'W_out']]) {
      this[slider].stops(stopsWith(this[slider].list, this.cluster[name]), this.cluster[name]);
    }
    this.update();
  }

  chooseLayout() {
    this.own = Object.fromEntries(Object.entries(this.layout).map(([axis, slider]) => [axis, slider.value]));
    this.update();
  }

  showModel() {
    const {L, h, a, E} = this.model;
    byId('plan-shape').textContent = `${L} layers · hidden size ${h} · ${a} heads${E > 1 ? ` · ${E} experts` : ''}`;
  }

  /** All inputs of the sheet but the layout. */
  given() {
    const sched = Number(byId('plan-schedule').value);
    const {Ψ, Ψe, L, h, a, da, kv, f, w, drop, V, E, k, ks, kn} = this.model;
    const {u, F, η_m, η, W_mem, ω, α_in, α_out} = this.cluster;
    const {sp, fa, gb, p8, chunks} = data.start;
    return {Ψ, Ψe, L, h, a, da, kv, f, w, drop, V, E, k, ks, kn, u, F, η_m, η, W_mem, ω, α_in, α_out, s: this.sequence.value, G: this.gpus.value,
      B: this.batch.value, H: this.host.value, M: this.memory.value, W_in: this.inside.value, W_out: this.between.value,
      sched, sp, fa, gb, p8, chunks, bySelector: this.isOnTopology()};
  }

  /** Are hosts and links still those of the topology whose calls the selector has timed? */
  isOnTopology() {
    const {cluster} = data.start;
    return collectives !== null && byId('plan-gpu').value === cluster.name && this.host.value === cluster.H &&
        this.inside.value === cluster.W_in && this.between.value === cluster.W_out;
  }

  /** The user's layout with the data-parallel size that is left; a text if there is none. */
  ownValues(given) {
    const {tp, pp, cp, ep, b, v} = this.own;
    const dp = given.G / (tp * pp * cp * ep);
    if (dp < 1) return `tp·pp·cp·ep = ${tp * pp * cp * ep} needs more than ${plural(given.G, 'GPU')}.`;
    if (!Number.isInteger(dp)) return `tp·pp·cp·ep = ${tp * pp * cp * ep} does not divide ${plural(given.G, 'GPU')}.`;
    if (given.B % (dp * ep * b) !== 0) {
      return `dp·ep·micro-batch = ${dp * ep * b} does not divide the ${given.B} sequences of a step.`;
    }
    if (pp > given.L) return `pp = ${pp} is more than the ${given.L} layers.`;
    const zero = dp * cp * ep > 1 ? this.own.zero : 0;
    const m = given.B / (dp * ep * b), deep = depths(given, pp).includes(v) && goesThrough(given, m, pp, v);
    return computeStep({...given, ...this.own, v: deep ? v : 1, zero, dp});
  }

  showLayoutSliders(given, v) {
    const of = divisors(given.G);
    this.layout.tp.stops(of.filter((n) => given.a % n === 0), v.tp);
    this.layout.pp.stops(of.filter((n) => n <= given.L), v.pp);
    this.layout.v.stops([...new Set([...depths(given, v.pp), v.v])].sort((x, y) => x - y), v.v);
    this.layout.cp.stops(of.filter((n) => n === 1 || given.s % (2 * n) === 0), v.cp);
    this.layout.ep.stops(of.filter((n) => given.E % n === 0), v.ep);
    this.layout.b.stops(divisors(given.B).filter((n) => n <= 64), v.b);
    this.layout.zero.set(v.zero);
    this.layout.rc.set(v.rc);
  }

  update() {
    const given = this.given();
    const found = search(given);
    const mine = this.own ? this.ownValues(given) : null;
    const best = found.best[0] || null;
    byId('plan-best').disabled = !this.own;
    if (typeof mine === 'string') {
      this.showLayoutSliders(given, this.own);
      fill('plan-headline', element('p', {class: 'warning', role: 'status'}, mine));
      fill('plan-result');
      return;
    }
    let v = mine || best || found.smallest;
    if (!v) {
      fill('plan-headline', element('p', {class: 'warning', role: 'status'},
          `No layout uses all ${given.G} GPUs: dp·ep must divide the ${given.B} sequences of a step. Take a larger batch.`));
      fill('plan-result');
      return;
    }
    if (v.T_step === undefined) v = computeTime(v);
    this.showLayoutSliders(given, v);
    this.showHeadline(v, best);
    this.showResult(v, found);
  }

  showHeadline(v, best) {
    const chip = (name, value) => element('span', {class: 'chip'}, `${name} `, element('b', {'data-name': `layout-${name}`,
      'data-value': value}, String(value)));
    const chips = ['dp', 'pp', 'cp', 'ep', 'tp'].map((name) => chip(name, v[name]));
    chips.push(chip('ZeRO', v.zero), chip('micro-batch', v.b), chip('micro-batches', v.m), chip('chunks', v.v),
        element('span', {class: 'chip'}, `recompute: ${RECOMPUTED[v.rc]}`));
    const fits = v.free >= 0;
    const title = fits ? (this.own ? 'Your layout fits' : 'The best layout')
                       : (this.own ? 'Your layout does not fit' : 'Nothing fits: the smallest layout');
    let verdict = `${format(v.T_step, 's')} a step, ${format(v.tokens, 'token/s')}, ${format(v.MFU, 'share')} of the GPUs’ peak.`;
    if (!fits) verdict = `${format(-v.free, 'B')} too much on each GPU: ${format(v.total, 'B')} of ${format(v.budget, 'B')} usable.`;
    else if (this.own && best) verdict += ` The best takes ${format(best.T_step, 's')}.`;
    fill('plan-headline', element('h3', {class: fits ? 'fits' : 'fails', role: 'status'}, title),
        element('p', {class: 'chips'}, ...chips), element('p', {class: 'verdict'}, verdict));
  }

  showResult(v, found) {
    const parts = (names) => names.map((name) => ({value: v[name], label: rowOf(step, name, v).label, colour: COLOURS[name]}));
    const whole = Math.max(v.total, v.budget) * 1.04;
    const table = (names, caption, keep = []) => figureTable(step, names, v, {colours: COLOURS, keep, caption, sums: ['total', 'T_step', 'sent', 'states']});
    fill('plan-result',
        element('h3', {}, 'Memory of a GPU'),
        bar(parts(MEMORY), whole, 'B', {value: v.budget, label: `${format(v.budget, 'B')} usable`}),
        table([...MEMORY.slice(0, 3), 'states', ...MEMORY.slice(3), 'total', 'budget', 'free'], 'Memory of a GPU', ['free']),
        element('h3', {}, 'Time of a step'),
        bar(parts(TIME), v.T_step, 's'), table([...TIME, 'T_step', 'tokens', 'MFU'], 'Time of a step'),
        element('h3', {}, 'Bytes that a GPU sends in a step'),
        v.sent > 0 ? bar(parts(SENT), v.sent, 'B') : element('p', {class: 'note'}, 'A single GPU sends nothing.'),
        table([...SENT, 'sent'], 'Bytes sent'),
        this.others(found), this.everything(v));
  }

  others(found) {
    const head = ['dp', 'pp', 'cp', 'ep', 'tp', 'v', 'ZeRO', 'micro-batch', 'recompute', 'memory', 'step', 'MFU'];
    const line = (v) => element('tr', {}, ...[v.dp, v.pp, v.cp, v.ep, v.tp, v.v, v.zero, v.b, RECOMPUTED[v.rc], format(v.total, 'B'),
      format(v.T_step, 's'), format(v.MFU, 'share')].map((text) => element('td', {}, String(text))));
    return element('details', {}, element('summary', {}, `The fastest of ${found.layouts} layouts (${found.timed} were timed)`),
        scroller('The fastest layouts', element('table', {class: 'plain'},
            element('thead', {}, element('tr', {}, ...head.map((t) => element('th', {scope: 'col'}, t)))),
            element('tbody', {}, ...found.best.map(line)))));
  }

  everything(v) {
    const names = grouped(step.rows).map((group) => group.name);
    const details = element('details', {}, element('summary', {}, 'Every value in between'));
    details.addEventListener('toggle', () => {
      if (details.open && details.children.length === 1) {
        details.append(figureTable(step, names, v, {keep: names, caption: 'Every value'}), this.inputs(v));
      }
    });
    return details;
  }

  inputs(v) {
    return element('p', {class: 'note'}, 'Given: ' + step.inputs.map((input) =>
      `${input.name} = ${format(v[input.name], input.unit)} (${input.label})`).join('; ') + '.');
  }
}

/** `list` and `value`, in order. */
function stopsWith(list, value) {
  return [...new Set([...list, value])].sort((a, b) => a - b);
}
