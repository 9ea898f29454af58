// What a run costs: arithmetic, years of one GPU, days of all, money.

class Price {
  constructor() {
    const again = () => this.update();
    this.size = new Slider('price-size', 'parameters', decades(1e8, 2e12), 7e9, parameters, again);
    this.tokens = new Slider('price-tokens', 'tokens', decades(1e9, 2e13), 1e12, (D) => format(D, 'token'), again);
    this.gpus = new Slider('price-gpus', 'GPUs', powers(0, 15), 64, String, again);
    this.share = new Slider(
        'price-share', 'of the peak that is reached', [10, 20, 30, 40, 50, 60, 70, 100].map((p) => p / 100), 0.5,
        (e) => format(e, 'share'), again);
    this.price =
        new Slider('price-hour', 'an hour of a GPU', [0.5, 1, 1.5, 2, 3, 4, 6, 10], 2, (price) => `${price} $`, again);
    chooseGpu('price-gpu', 'a100', again);
    this.update();
  }

  update() {
    const {F} = gpuOf('price-gpu');
    const v = compute.price({
      Ψ: this.size.value,
      D: this.tokens.value,
      G: this.gpus.value,
      F,
      e: this.share.value,
      price: this.price.value
    });
    fill(
        'price-numbers',
        figureTable(
            data.sheets.price, ['C', 'one', 'years', 'hours', 'days', 'cost', 'D_best'], v, {caption: 'The run'}),
        element(
            'p', {class: 'verdict'},
            v.D < v.D_best ?
                `${format(v.D_best / v.D)} times as many tokens would be compute-optimal.` :
                `${
                    format(
                        v.D /
                        v.D_best)} times the compute-optimal number of tokens: a smaller model, trained longer, is cheaper to use.`));
  }
}

/** A list of the kinds of GPU. */
function chooseGpu(id, value, changed) {
  fill(id, ...data.clusters.map((c) => element('option', {value: c.name, selected: c.name === value}, c.label)));
  byId(id).addEventListener('change', changed);
}

const gpuOf = (id) => data.clusters.find((cluster) => cluster.name === byId(id).value);
