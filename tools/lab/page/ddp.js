// DDP: buckets of gradients leave while the backward pass goes on.

class Ddp {
  constructor() {
    const again = () => this.update(), bytes = (value) => format(value, 'B');
    this.size = new Slider('ddp-size', 'parameters', decades(1e8, 7e10), 7e9, parameters, again);
    this.ranks = new Slider('ddp-ranks', 'n: ranks', powers(1, 10), 8, String, again);
    this.tokens = new Slider('ddp-tokens', 'T: tokens of a GPU', powers(8, 15), 4096, String, again);
    this.bucket = new Slider(
        'ddp-bucket', 'bucket', [25e6, 50e6, 100e6, 250e6, 500e6, 1e9, 2e9, 4e9, 8e9, 16e9], 1e9, bytes, again);
    this.link = new Slider(
        'ddp-link', 'W: link, one direction', [1.25e9, 3.125e9, 6.25e9, 12.5e9, 25e9, 50e9, 100e9, 300e9], 25e9,
        (W) => format(W, 'B/s'), again);
    chooseGpu('ddp-gpu', 'a100', again);
    this.draw = canvas('ddp-chart', (width) => this.chart(width));
    this.update();
  }

  update() {
    const {F, α_out} = gpuOf('ddp-gpu');
    this.v = compute.ddp({
      Ψ: this.size.value,
      n: this.ranks.value,
      T: this.tokens.value,
      bucket: this.bucket.value,
      W: this.link.value,
      α: α_out,
      F,
      e: 0.5
    });
    const {v} = this, seen = bucketTimes(v);
    fill(
        'ddp-numbers',
        element(
            'p', {class: 'verdict'},
            v.t_comm > v.t_back ? 'Communication takes longer than the backward pass: the links set the pace.' :
                v.K === 1       ? 'One bucket hides nothing: it leaves when the backward pass is over.' :
                                  'The backward pass takes longer: all buckets but the last are hidden.'),
        figureTable(
            data.sheets.ddp, ['S', 'sent', 'K', 't_back', 't_ready', 't_bucket', 't_comm', 'shown', 'hidden', 't_step'],
            v, {keep: ['hidden'], caption: 'DDP'}),
        element(
            'p', {class: 'note'},
            'Counted in the drawing: ', number('ddp_seen', seen[seen.length - 1].end - v.t_back, 's'),
            ' after the backward pass. e = 50 % of the peak.'));
    this.draw();
  }

  chart(width) {
    const {v} = this, forward = v.t_back / 2, buckets = bucketTimes(v),
          end = forward + Math.max(v.t_back, buckets[buckets.length - 1].end);
    const rows = [
      {
        name: 'arithmetic',
        blocks: [
          {start: 0, length: forward, colour: 'stage0', text: 'forward'},
          {start: forward, length: v.t_back, colour: 'compute', text: 'backward'}
        ]
      },
      {name: `all-reduce: ${plural(buckets.length, 'bucket')}`, blocks: together(buckets, forward)}
    ];
    return [
      timeline(
          width, rows, end,
          `Forward ${format(forward, 's')}, backward ${format(v.t_back, 's')}, ${buckets.length} buckets; ${
              format(v.shown, 's')} of communication after the backward pass`,
          [{at: forward + v.t_back, text: 'backward ends'}, {at: end, text: format(end, 's')}]),
      legendOf([['stage0', 'forward'], ['compute', 'backward'], ['dp', 'all-reduce of a bucket']])
    ];
  }
}

/** Blocks of the drawing: of one bucket each, or of several where there are more than 200. */
function together(buckets, forward) {
  const each = Math.ceil(buckets.length / 200);
  return oneEach(Math.ceil(buckets.length / each), (i) => {
    const first = i * each, last = Math.min(buckets.length, first + each) - 1, {start} = buckets[first];
    const title = each === 1 ? `bucket ${i}` : `buckets ${first} to ${last}`;
    return {start: forward + start, length: buckets[last].end - start, colour: 'dp', text: String(first), title};
  });
}

/** When each bucket's all-reduce runs, from the beginning of the backward pass. */
function bucketTimes(v) {
  let free = 0;
  return oneEach(v.K, (i) => {
    const start = Math.max(free, (i + 1) * v.t_ready);
    return {start, end: free = start + v.t_bucket};
  });
}
