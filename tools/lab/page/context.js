// Long sequences: keys and values go round a ring while each rank computes; or Ulysses, an all-to-all before and after.

class Context {
  constructor() {
    const again = () => this.update();
    this.length = new Slider('ctx-length', 's: tokens of the sequence', powers(10, 20), 32768, String, again);
    this.ranks = new Slider('ctx-ranks', 'c: ranks', powers(1, 4), 8, String, again);
    this.hidden =
        new Slider('ctx-hidden', 'h: width of attention', [1024, 2048, 4096, 8192, 16384], 4096, String, again);
    this.shared = new Slider('ctx-shared', 'heads for each key-value head', [1, 2, 4, 8, 16], 1, String, again);
    this.link = new Slider(
        'ctx-link', 'W: link, one direction', [3.125e9, 12.5e9, 25e9, 50e9, 100e9, 300e9, 450e9], 50e9,
        (W) => format(W, 'B/s'), again);
    this.turn = new Slider('ctx-turn', 'turn', [0], 0, String, () => this.showTurn());
    chooseGpu('ctx-gpu', 'a100', again);
    this.draw = canvas('ctx-time', (width) => this.chart(width));
    this.update();
  }

  update() {
    const h = this.hidden.value, {F} = gpuOf('ctx-gpu');
    this.v = compute.context(
        {s: this.length.value, c: this.ranks.value, h, kv: 2 * h / this.shared.value, W: this.link.value, F, e: 0.5});
    this.turn.stops(oneEach(this.v.c, (i) => i));
    const {v} = this;
    fill(
        'ctx-numbers',
        element(
            'p', {class: 'verdict'},
            v.block >= v.least ?
                'A block’s arithmetic takes longer than its message: the ring hides all of it. ' :
                `Blocks of fewer than ${
                    format(Math.ceil(v.least))} tokens: the message takes longer than the arithmetic. `,
            v.sent_ring === v.sent_ulysses ?
                'The ring and Ulysses send the same; ' :
                `The ring sends ${format(v.sent_ring / v.sent_ulysses)} times what Ulysses does; `,
            'Ulysses takes no more ranks than there are heads.'),
        figureTable(
            data.sheets.context,
            ['block', 'C', 't_block', 'S', 't_send', 'least', 'shown', 't_ring', 'sent_ring', 'sent_ulysses'], v,
            {keep: ['shown'], caption: 'Attention on several ranks'}),
        element(
            'p', {class: 'note'}, 'Counted in the drawing: ', number('ctx_seen', ringTurns(v).end, 's'),
            '. e = 50 % of the peak. A causal mask halves the arithmetic, and so ' +
                'doubles the tokens that hide a message; each rank then has an early and a late piece, so that all have equal work.'));
    this.draw();
    this.showTurn();
    fill(
        'ctx-ulysses', this.exchange(true),
        element('div', {class: 'between'}, '→ ', element('b', {}, 'all-to-all'), ' →'), this.exchange(false));
  }

  /** Which block of keys and values each rank has. */
  showTurn() {
    const {c} = this.v, t = this.turn.value;
    fill(
        'ctx-ring',
        scroller(
            'Blocks of the ring',
            element(
                'table', {class: 'chunks tight'},
                element('caption', {}, `Turn ${t}: which rank's queries meet which block of keys (k)`),
                element(
                    'thead', {},
                    element(
                        'tr', {}, element('th', {scope: 'col'}, 'rank'),
                        ...oneEach(c, (k) => element('th', {scope: 'col'}, `k${k}`)))),
                element(
                    'tbody', {},
                    ...oneEach(
                        c, (r) => element('tr', {}, element('th', {scope: 'row'}, String(r)), ...oneEach(c, (k) => {
                                            const age = turned(r - k, c);
                                            return element(
                                                'td', {
                                                  class: age === t ? 'arrived complete' :
                                                      age < t      ? 'complete' :
                                                                     '',
                                                  style: '--share: 0%'
                                                },
                                                age === t   ? 'now' :
                                                    age < t ? 'done' :
                                                              '');
                                          })))))));
  }

  chart(width) {
    const {v} = this, {turns, end} = ringTurns(v);
    return timeline(
        width,
        [
          {
            name: 'attention: a block a turn',
            blocks: turns.map(({start}, i) => ({start, length: v.t_block, colour: 'compute', text: String(i)}))
          },
          {
            name: 'sends keys and values on',
            blocks:
                turns.slice(0, -1).map(({start}, i) => ({start, length: v.t_send, colour: 'cp', text: String(i + 1)}))
          }
        ],
        end,
        `${v.c} turns: arithmetic ${format(v.t_block, 's')}, message ${format(v.t_send, 's')} each; together ${
            format(end, 's')}`);
  }

  /**
   * What a rank has of tokens (t) and heads (h), before the all-to-all and after. Marked: what goes to or comes from
   * rank 0.
   */
  exchange(before) {
    const c = Math.min(4, this.v.c);
    const cell = (r, k) => before ? `t${r} h${k}` : `t${k} h${r}`;
    return element(
        'table', {class: 'chunks'},
        element(
            'caption', {},
            before ? 'Before: all heads of a part of the tokens' : 'After: all tokens of a part of the heads'),
        element(
            'thead', {},
            element(
                'tr', {}, element('th', {scope: 'col'}, 'rank'),
                element(
                    'th', {scope: 'colgroup', colspan: c},
                    before ? 'its tokens, all heads' : 'all tokens, its heads'))),
        element(
            'tbody', {},
            ...oneEach(
                c,
                (r) => element(
                    'tr', {}, element('th', {scope: 'row'}, String(r)),
                    ...oneEach(
                        c,
                        (k) => element(
                            'td', {class: (before ? k : r) === 0 ? 'complete' : '', style: '--share: 0%'},
                            cell(r, k)))))));
  }
}

/** A turn begins when the block before is done and its keys and values have come. */
function ringTurns(v) {
  let start = 0;
  const turns = oneEach(v.c, (i) => {
    if (i > 0) start += Math.max(v.t_block, v.t_send);
    return {start};
  });
  return {turns, end: start + v.t_block};
}
