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

/** How many chunks of layers a stage may have (search.cpp: depths). */
function depths(given, pp) {
  if (given.sched !== 2 || pp === 1) return [1];
  const possible = (v) => v === 1 ? pp <= given.L : pp * v <= given.L + 2;
  if (given.chunks > 0) return possible(given.chunks) ? [given.chunks] : [];
  const fullest = (v) => v * Math.ceil(given.L / (pp * v)), found = [];
  for (let v = 1; v <= 1024 && possible(v); ++v) if (fullest(v) === fullest(1)) found.push(v);
  return found;
}

/** Whether m micro-batches of a rank can go through the stages. */
function goesThrough(given, m, pp, v) {
  return given.sched === 4 && pp > 1 ? m % 2 === 0 : v === 1 || m % pp === 0;
}

/** 0: ordinary; higher ones only where nothing lower fits. */
function levelOf(given, tp, cp) {
  if (tp > given.H) return 2;
  return cp > 1 && given.s < 32768 ? 1 : 0;
}

/** Every layout of G GPUs whose sizes divide model and batch, with the chunks and micro-batches that it may have. */
function* layouts(given, level) {
  for (const tp of divisors(given.G)) {
    if (given.a % tp !== 0) continue;
    for (const cp of divisors(given.G / tp)) {
      if (cp > 1 && given.s % (2 * cp) !== 0) continue; // zig-zag: two pieces a rank
      if (levelOf(given, tp, cp) !== level) continue;
      for (const ep of divisors(given.G / tp / cp)) {
        if (given.E % ep !== 0) continue;
        for (const pp of divisors(given.G / tp / cp / ep)) {
          const dp = given.G / (tp * cp * ep * pp);
          if (pp > given.L || given.B % (dp * ep) !== 0 || (given.sched === 4 && pp > 1 && pp % 2 !== 0)) continue;
          const sequences = given.B / (dp * ep);
          const pieces = depths(given, pp).flatMap((v) => divisors(sequences)
              .filter((b) => goesThrough(given, sequences / b, pp, v)).map((b) => ({v, b})));
          if (pieces.length > 0) yield [{tp, cp, ep, pp, dp}, pieces];
        }
      }
    }
  }
}

class Search {
  constructor(given, keep) {
    this.given = given;
    this.keep = keep;
    this.found = {best: [], smallest: null, layouts: 0, timed: 0};
  }

  run() {
    for (let level = 0; level <= 2 && this.found.best.length === 0; ++level) {
      for (const [layout, pieces] of layouts(this.given, level)) {
        for (let zero = 0; zero <= (layout.dp * layout.cp * layout.ep > 1 ? 3 : 0); ++zero) {
          ++this.found.layouts;
          this.recomputations({...layout, zero}, pieces);
        }
      }
    }
    return this.found;
  }

  recomputations(layout, pieces) {
    const {found} = this;
    for (let rc = 0; rc <= 2; ++rc) {
      let tooLarge = 0; // the depth at which a smaller micro-batch did not fit
      for (const piece of pieces) {
        if (piece.v === tooLarge) continue; // a larger micro-batch takes no less
        const v = computeMemory({...this.given, ...layout, ...piece, rc});
        if (v.states > v.budget && found.smallest && v.states >= found.smallest.total) return;
        if (v.total > v.budget) {
          if (!found.smallest || v.total < found.smallest.total) found.smallest = v;
          tooLarge = piece.v;
          continue;
        }
        this.consider(v);
      }
    }
  }

  consider(v) {
    const {best} = this.found;
    if (best.length === this.keep && v.T_floor >= best[best.length - 1].T_step) return;
    const timed = computeTime(v);
    ++this.found.timed;
    let place = best.findIndex((other) => timed.T_step < other.T_step);
    if (place < 0) place = best.length;
    best.splice(place, 0, timed);
    if (best.length > this.keep) best.pop();
  }
}

const search = (given, keep = 5) => new Search(given, keep).run();
