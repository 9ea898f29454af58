// The fastest layout that fits, among all: the same search, in the same order, as tutti's own (search.cpp).

function divisors(n) {
  const low = [], high = [];
  for (let d = 1; d * d <= n; ++d) {
    if (n % d !== 0) continue;
    low.push(d);
    if (d * d !== n) high.unshift(n / d);
  }
  return [...low, ...high];
}

/** Every layout of G GPUs whose sizes divide model and batch, with the micro-batches that it may have. */
function* layouts(given) {
  for (const tp of divisors(given.G)) {
    if (given.a % tp !== 0) continue;
    for (const cp of divisors(given.G / tp)) {
      if (cp > 1 && given.s % (2 * cp) !== 0) continue; // zig-zag: two pieces a rank
      for (const ep of divisors(given.G / tp / cp)) {
        if (given.E % ep !== 0) continue;
        for (const pp of divisors(given.G / tp / cp / ep)) {
          const interleaved = given.sched === 2 && pp > 1;
          const dp = given.G / (tp * cp * ep * pp);
          if (given.L % (pp * (interleaved ? given.v : 1)) !== 0 || given.B % (dp * ep) !== 0) continue;
          const sequences = given.B / (dp * ep);
          const batches = divisors(sequences).filter((b) => !interleaved || sequences / b % pp === 0);
          if (batches.length > 0) yield [{tp, cp, ep, pp, dp}, batches];
        }
      }
    }
  }
}

class Search {
  constructor(given, keep) {
    this.given = given;
    this.keep = keep;
    this.arithmetic = [0, 0, 0]; // seconds, by recomputation
    this.found = {best: [], smallest: null, layouts: 0, timed: 0};
  }

  run() {
    for (const [layout, batches] of layouts(this.given)) {
      for (let zero = 0; zero <= (layout.dp * layout.cp * layout.ep > 1 ? 3 : 0); ++zero) {
        ++this.found.layouts;
        this.recomputations({...layout, zero}, batches);
      }
    }
    return this.found;
  }

  recomputations(layout, batches) {
    const {found} = this;
    for (let rc = 0; rc <= 2; ++rc) {
      for (const b of batches) {
        const v = computeMemory({...this.given, ...layout, rc, b});
        if (v.states > v.budget && found.smallest && v.states >= found.smallest.total) return;
        if (v.total > v.budget) {
          if (!found.smallest || v.total < found.smallest.total) found.smallest = v;
          break; // a larger micro-batch takes no less
        }
        this.consider(v);
      }
    }
  }

  consider(v) {
    const {best} = this.found;
    if (best.length === this.keep && this.arithmetic[v.rc] / (1 - v.bubble) >= best[best.length - 1].T_step) return;
    computeTime(v);
    ++this.found.timed;
    this.arithmetic[v.rc] = v.T_comp;
    let place = best.findIndex((other) => v.T_step < other.T_step);
    if (place < 0) place = best.length;
    best.splice(place, 0, v);
    if (best.length > this.keep) best.pop();
  }
}

const search = (given, keep = 5) => new Search(given, keep).run();
