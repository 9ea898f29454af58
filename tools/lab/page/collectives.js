// Every collective step by step, with numbers: rank r starts with r + 1, and a sum shows what it is of.

const oneEach = (n, make) => Array.from({length: n}, (_, i) => make(i));
const turned = (i, n) => ((i % n) + n) % n;
const isPower = (n) => (n & (n - 1)) === 0;
const doublings = (n) => Math.ceil(Math.log2(n));

/** A round in which every rank sends the block `of(rank)` to its right neighbour. */
const toTheRight = (n, of, add) => oneEach(n, (r) => ({from: r, to: (r + 1) % n, block: of(r), into: of(r), add}));
const reduceScatterRounds = (n, first) => oneEach(n - 1, (t) => toTheRight(n, (r) => turned(r + first - t, n), true));
const allGatherRounds = (n, first) => oneEach(n - 1, (t) => toTheRight(n, (r) => turned(r + first - t, n), false));

/**
 * Binomial tree towards rank 0: in round t, ranks whose lowest set bit is 2^t send the blocks of their subtree (or
 * block 0).
 */
function treeRounds(n, {whole, add}) {
  return oneEach(doublings(n), (t) => {
    const d = 2 ** t, senders = oneEach(n, (r) => r).filter((r) => r % (2 * d) === d);
    const blocks = (r) => whole ? [0] : oneEach(Math.min(d, n - r), (i) => r + i);
    return senders.flatMap((r) => blocks(r).map((block) => ({from: r, to: r - d, block, into: block, add})));
  });
}

/** The same messages the other way, last round first. */
const backwards = (rounds) => rounds.map((round) => round.map((m) => ({...m, from: m.to, to: m.from}))).reverse();

/** Halves: a rank sends the half of its range that its partner keeps. Doubling: the same ranges back. */
function halvingRounds(n) {
  const ranges = oneEach(n, () => [0, n]), rounds = [];
  for (let d = n / 2; d >= 1; d /= 2) {
    rounds.push(oneEach(n, (r) => {
                  const [low] = ranges[r], keepsLow = (r & d) === 0, from = keepsLow ? low + d : low;
                  ranges[r] = keepsLow ? [low, low + d] : [low + d, low + 2 * d];
                  return oneEach(d, (i) => ({from: r, to: r ^ d, block: from + i, into: from + i, add: true}));
                }).flat());
  }
  return [...rounds, ...backwards(rounds).map((round) => round.map((m) => ({...m, add: false})))];
}

/**
 * blocks(n): how many a buffer has; start(r, c, n): what rank r's block c holds at first, or null; rounds(n): their
 * messages; steps, sent: the closed forms, of n, k = ⌈log₂ n⌉ and K = 2^(k − 1), the second for the rank that sends
 * most, in buffers.
 */
const COLLECTIVES = [
  {
    name: 'all-reduce, ring',
    blocks: (n) => n,
    start: (r) => [r + 1],
    steps: '2·(n − 1)',
    sent: '2·(n − 1)/n',
    rounds: (n) => [...reduceScatterRounds(n, 0), ...allGatherRounds(n, 1)],
    done: 'Every rank has the whole sum.'
  },
  {
    name: 'all-reduce, recursive doubling',
    only: isPower,
    blocks: () => 1,
    start: (r) => [r + 1],
    steps: 'k',
    sent: 'k',
    rounds: (n) =>
        oneEach(doublings(n), (t) => oneEach(n, (r) => ({from: r, to: r ^ 2 ** t, block: 0, into: 0, add: true}))),
    done: 'Every rank has the sum, after few rounds; but each round sends the whole buffer.'
  },
  {
    name: 'all-reduce, halving and doubling',
    only: isPower,
    blocks: (n) => n,
    start: (r) => [r + 1],
    steps: '2·k',
    sent: '2·(n − 1)/n',
    rounds: halvingRounds,
    done: 'Few rounds and few bytes, if n is a power of two.'
  },
  {
    name: 'reduce-scatter, ring',
    blocks: (n) => n,
    start: (r) => [r + 1],
    steps: 'n − 1',
    sent: '(n − 1)/n',
    rounds: (n) => reduceScatterRounds(n, -1),
    done: 'Rank r has the whole sum of block r.'
  },
  {
    name: 'all-gather, ring',
    blocks: (n) => n,
    start: (r, c) => r === c ? [r + 1] : null,
    steps: 'n − 1',
    sent: '(n − 1)/n',
    rounds: (n) => allGatherRounds(n, 0),
    done: 'Every rank has every block.'
  },
  {
    name: 'broadcast, tree',
    blocks: () => 1,
    start: (r) => r === 0 ? [1] : null,
    steps: 'k',
    sent: 'k',
    rounds: (n) => backwards(treeRounds(n, {whole: true, add: false})),
    done: 'Every rank has rank 0’s buffer.'
  },
  {
    name: 'reduce, tree',
    blocks: () => 1,
    start: (r) => [r + 1],
    steps: 'k',
    sent: '1',
    rounds: (n) => treeRounds(n, {whole: true, add: true}),
    done: 'Rank 0 has the whole sum; the others hold sums of their subtrees.'
  },
  {
    name: 'scatter, tree',
    blocks: (n) => n,
    start: (r, c) => r === 0 ? [c + 1] : null,
    steps: 'k',
    sent: '(n − 1)/n',
    rounds: (n) => backwards(treeRounds(n, {whole: false, add: false})),
    done: 'Rank r has block r of rank 0 (and what it passed on).'
  },
  {
    name: 'gather, tree',
    blocks: (n) => n,
    start: (r, c) => r === c ? [r + 1] : null,
    steps: 'k',
    sent: 'max(K/2, n − K)/n',
    rounds: (n) => treeRounds(n, {whole: false, add: false}),
    done: 'Rank 0 has every rank’s block.'
  },
  {
    name: 'all-to-all, in pairs',
    blocks: (n) => n,
    start: (r, c) => [10 * (r + 1) + c + 1],
    steps: 'n',
    sent: '(n − 1)/n',
    rounds: (n) => oneEach(
        n,
        (t) => oneEach(n, (r) => ({from: r, to: turned(t - r, n), block: turned(t - r, n), into: r, add: false}))
                   .filter((m) => m.from !== m.to)),
    done: 'Rank r’s block c went to rank c’s block r: 23 is what rank 1 had for rank 2.'
  },
];

/** Buffers after `steps` rounds, the last round's messages, and how many blocks each rank has sent. */
function played(collective, n, steps) {
  const held = oneEach(n, (r) => oneEach(collective.blocks(n), (c) => collective.start(r, c, n)));
  const sent = oneEach(n, () => 0), rounds = collective.rounds(n);
  let last = [];
  for (const round of rounds.slice(0, steps)) {
    const moved = round.map((m) => held[m.from][m.block]);
    round.forEach((m, i) => {
      held[m.to][m.into] = m.add ? [...held[m.to][m.into], ...moved[i]].sort((a, b) => a - b) : moved[i];
      ++sent[m.from];
    });
    last = round;
  }
  return {held, last, rounds: rounds.length, sent: Math.max(...sent) / collective.blocks(n)};
}

/** A closed form of a collective. */
function closedForm(formula, n) {
  return new Function('$', `const {min, max} = Math; with ($) return ${toJavaScript(formula)};`)(
      {n, k: doublings(n), K: 2 ** (doublings(n) - 1)});
}

class Collectives {
  constructor() {
    fill('coll-kind', ...COLLECTIVES.map((c, i) => element('option', {value: i}, c.name)));
    byId('coll-kind').addEventListener('change', () => this.restart());
    this.ranks = new Slider('coll-ranks', 'n: ranks', [2, 3, 4, 5, 6, 7, 8], 4, String, () => this.restart());
    this.stepper = new Stepper('coll', () => this.update());
    this.restart(2);
  }

  get kind() {
    return COLLECTIVES[byId('coll-kind').value];
  }

  restart(at = 0) {
    this.ranks.stops([2, 3, 4, 5, 6, 7, 8].filter(this.kind.only || (() => true)));
    this.stepper.restart(this.kind.rounds(this.ranks.value).length, at);
    this.update();
  }

  update() {
    const n = this.ranks.value, t = this.stepper.value, {kind} = this, now = played(kind, n, t),
          whole = played(kind, n, now.rounds);
    byId('coll-text').textContent = this.sentence(now, n, t);
    fill('coll-picture', this.table(n, now, whole));
    const line = (name, text, formula, value, counted) => element(
        'tr', {}, element('th', {scope: 'row'}, text),
        element('td', {class: 'value'}, number(`coll_${name}`, value, '')),
        element('td', {class: 'formula'}, element('span', {}, formula)),
        element('td', {class: 'value'}, 'counted: ', number(`coll_${name}_seen`, counted, '')));
    fill(
        'coll-numbers',
        element(
            'table', {class: 'figures both'}, element('caption', {}, 'Rounds and buffers sent'),
            element(
                'tbody', {}, line('steps', 'rounds', kind.steps, closedForm(kind.steps, n), whole.rounds),
                line(
                    'sent', 'buffers sent by the rank that sends most', kind.sent, closedForm(kind.sent, n),
                    whole.sent))));
  }

  sentence({held, last, rounds}, n, t) {
    if (t === 0) return 'The start: nothing is sent yet.';
    const m = last[0], sum = held[m.to][m.into],
          what = m.add ? `and has ${sum.join(' + ')} = ${total(sum)}` : `which has ${total(sum)} now`;
    return `Round ${t} of ${rounds}, ${plural(last.length, 'message')}: rank ${m.from} sends ${
               this.kind.blocks(n) > 1 ? `block ${m.block}` : 'its buffer'} to rank ${m.to}` +
        `${m.add ? ', which adds it ' : ', '}${what}${last.length > 1 ? '; the others do alike' : ''}.${
               t === rounds ? ` ${this.kind.done}` : ''}`;
  }

  /** Rows are ranks, columns blocks; a cell shows its sum, what it is of, and who sent it in this round. */
  table(n, {held, last}, whole) {
    const blocks = this.kind.blocks(n);
    const head = element(
        'tr', {}, element('th', {scope: 'col'}, 'rank'),
        ...oneEach(blocks, (c) => element('th', {scope: 'col'}, blocks > 1 ? `#${c}` : 'buffer')));
    const rows = held.map(
        (mine, r) => element('tr', {}, element('th', {scope: 'row'}, String(r)), ...mine.map((sum, c) => {
          const from = last.filter((m) => m.to === r && m.into === c).map((m) => m.from);
          const complete = sum && whole.held[r][c] && total(sum) === total(whole.held[r][c]) &&
              sum.length === whole.held[r][c].length;
          const share = sum ? Math.round(sum.length / n * 100) : 0;
          return element(
              'td',
              {class: `${complete ? 'complete' : ''}${from.length > 0 ? ' arrived' : ''}`, style: `--share: ${share}%`},
              element('b', {class: 'sum'}, sum ? String(total(sum)) : '·'),
              sum && sum.length > 1 ? element('small', {}, shortSum(sum)) : '',
              from.length > 0 ? element('small', {class: 'from'}, `from ${from.join(', ')}`) : '');
        })));
    return scroller(
        'Buffers of the ranks',
        element(
            'table', {class: 'chunks numbers'}, element('caption', {}, 'What each rank holds'),
            element('thead', {}, head), element('tbody', {}, ...rows)));
  }
}

/** [1, 2, 3, 4, 5, 8] as "1+…+5+8". */
function shortSum(list) {
  const runs = [];
  for (const value of list) {
    const last = runs[runs.length - 1];
    if (last && value === last[last.length - 1] + 1) last.push(value);
    else runs.push([value]);
  }
  return runs.map((run) => run.length > 4 ? `${run[0]}+…+${run[run.length - 1]}` : run.join('+')).join('+');
}

const total = (list) => list.reduce((sum, value) => sum + value, 0);
