// ZeRO's stages against the number of ranks.

const STAGES = ['data parallel', 'ZeRO-1', 'ZeRO-2', 'ZeRO-3'];
const STAGE_FORMULAS = ['16·Ψ', '4·Ψ + 12·Ψ/N', '2·Ψ + 14·Ψ/N', '16·Ψ/N'];

class Zero {
  constructor() {
    const again = () => this.update();
    this.size = new Slider('zero-size', 'parameters', decades(1e8, 2e12), 7e9, parameters, again);
    this.ranks = new Slider('zero-ranks', 'N: ranks', powers(0, 10), 64, (N) => format(N), again);
    this.update();
  }

  update() {
    const Ψ = this.size.value, N = this.ranks.value;
    const stages = STAGES.map((name, zero) => states(Ψ, N, N > 1 ? zero : 0));
    const whole = stages[0].states;
    const rows = stages.map((v, zero) => element('tr', {}, element('th', {scope: 'row'},
        element('i', {class: 'swatch', style: `background: var(--stage${zero})`}), STAGES[zero]),
        element('td', {class: 'value'}, number(`zero-${zero}`, v.states, 'B')),
        element('td', {class: 'formula'}, element('span', {}, STAGE_FORMULAS[zero]),
            element('small', {}, `= ${filled(step, STAGE_FORMULAS[zero], v)}`)),
        element('td', {class: 'value'}, `÷ ${(whole / v.states).toFixed(2)}`),
        element('td', {class: 'cell-bar'}, bar(KINDS.map((kind) => ({label: kind, value: v[kind], colour: COLOURS[kind]})), whole, 'B'))));
    fill('zero-numbers', element('table', {class: 'figures zero'}, element('caption', {}, 'Model states of a rank'),
        element('thead', {}, element('tr', {}, ...['', 'states', 'formula', 'less', ''].map((t) => element('th', {scope: 'col'}, t)))),
        element('tbody', {}, ...rows)),
        element('p', {class: 'legend'}, ...KINDS.map((kind) => element('span', {},
            element('i', {class: 'swatch', style: `background: var(--${kind})`}), kind))));
    fill('zero-chart', this.chart(Ψ, N));
  }

  chart(Ψ, N) {
    const left = 70, right = 670, top = 14, bottom = 250, most = Math.log10(16 * Ψ * 1.15), least = Math.log10(16 * Ψ / 1024 / 1.2);
    const x = (n) => left + (right - left) * Math.log2(n) / 10;
    const y = (bytes) => bottom - (bottom - top) * (Math.log10(bytes) - least) / (most - least);
    const picture = element('svg', {viewBox: '0 0 700 285', role: 'img', 'aria-label': 'Model states of a rank against the number of ranks, for each ZeRO stage'});
    for (const n of powers(0, 10)) {
      picture.append(element('line', {x1: x(n), x2: x(n), y1: top, y2: bottom, class: 'gridline'}),
          element('text', {x: x(n), y: bottom + 16, class: 'tick', 'text-anchor': 'middle'}, String(n)));
    }
    for (const bytes of decades(1e7, 1e14).filter((b) => /^[1]/.test(String(b)) && !/^15|^1\.5/.test(String(b)))) {
      if (Math.log10(bytes) < least || Math.log10(bytes) > most) continue;
      picture.append(element('line', {x1: left, x2: right, y1: y(bytes), y2: y(bytes), class: 'gridline'}),
          element('text', {x: left - 6, y: y(bytes) + 4, class: 'tick', 'text-anchor': 'end'}, format(bytes, 'B').replace(/\.0+/, '')));
    }
    picture.append(element('text', {x: (left + right) / 2, y: bottom + 33, class: 'tick', 'text-anchor': 'middle'}, 'ranks N'),
        element('line', {x1: x(N), x2: x(N), y1: top, y2: bottom, class: 'wall'}));
    for (const zero of [0, 1, 2, 3]) {
      const of = (n) => states(Ψ, n, n > 1 ? zero : 0).states;
      picture.append(element('polyline', {points: powers(0, 10).map((n) => `${x(n)},${y(of(n))}`).join(' '), class: 'curve',
        style: `stroke: var(--stage${zero})`}), element('circle', {cx: x(N), cy: y(of(N)), r: 5, style: `fill: var(--stage${zero})`}),
      element('text', {x: x(700), y: y(of(700)) - 7, class: 'tick strong', 'text-anchor': 'middle'}, STAGES[zero]));
    }
    return picture;
  }
}
