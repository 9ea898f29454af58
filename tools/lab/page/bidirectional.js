// Two schedules whose micro-batches turn round or come from both ends: ZB-V and DualPipe.

/** ZB-V's places: chunk 0 goes down the stages, chunk 1 comes back up, so stage 0 has the first layers and the last. */
function beforeInV(op, stage, p) {
  const key = (kind, at, chunk) => `${kind} ${at} ${op.batch} ${chunk}`;
  if (op.kind === 'W') return key('B', stage, op.chunk);
  const down = (op.kind === 'F') === (op.chunk === 0),
        turn = down ? (op.chunk === 0 ? 'begin' : key('F', 0, 1)) : key(op.kind, p - 1, 1 - op.chunk);
  if (down) return stage > 0 ? key(op.kind, stage - 1, op.chunk) : turn === 'begin' ? null : turn;
  return stage < p - 1 ? key(op.kind, stage + 1, op.chunk) : turn;
}

/**
 * A schedule in ZB-V's places, made by a rule: a stage runs a backward if one is ready, else a forward, else a weights'
 * part, and never holds more than 1F1B's first stage, p micro-batches. `room(stage, waiting)`: chunks to leave free for
 * what has gone down and must come back.
 */
function tryV(p, m, room) {
  const ended = new Map(), stages = oneEach(p, () => ({held: 0, F: [0, 0], B: [0, 0], weights: []})), done = [];
  for (let t = 0, left = 6 * m * p; left > 0; ++t) {
    const picks = stages.map((own, stage) => {
      const ready = (kind, chunk) => {
        const op = {kind, batch: own[kind][chunk], chunk}, needs = beforeInV(op, stage, p);
        return op.batch < m && (kind === 'F' || op.batch < own.F[chunk]) && (!needs || ended.get(needs) <= t) ? op :
                                                                                                                null;
      };
      const fits = (chunk) => own.held + 1 + (chunk === 0 ? room(stage, own.F[0] - own.F[1]) : 0) <= 2 * p;
      return ready('B', 0) || ready('B', 1) || (fits(1) && ready('F', 1)) || (fits(0) && ready('F', 0)) ||
          own.weights[0] || null;
    });
    if (picks.every((op) => !op)) return null;
    picks.forEach((op, stage) => {
      if (!op) return;
      const own = stages[stage];
      if (op.kind === 'W')
        own.weights.shift();
      else
        ++own[op.kind][op.chunk];
      if (op.kind === 'B') own.weights.push({...op, kind: 'W'});
      own.held += op.kind === 'F' ? 1 : op.kind === 'W' ? -1 : 0;
      ended.set(`${op.kind} ${stage} ${op.batch} ${op.chunk}`, t + 1);
      done.push({...op, stage, start: t / 2, length: 1 / 2});
      --left;
    });
  }
  return done;
}

/** The shortest that the rule gives. */
function zeroBubbleV(p, m) {
  const rooms = [(stage) => p - stage, () => 0, () => 1, (_, waiting) => waiting],
        end = (done) => Math.max(...done.map((op) => op.start));
  return rooms.map((room) => tryV(p, m, room))
      .filter((done) => done)
      .reduce((best, other) => end(other) < end(best) ? other : best);
}

/**
 * DualPipe: half of the micro-batches start at stage 0, half at stage p − 1, so every rank holds two stages. A forward
 * of one direction and a backward of the other run together (3 units). `near`: the direction that enters at this rank's
 * end. p is even, m even and at least 2·p.
 */
function dualPipe(p, m) {
  const half = p / 2,
        orders = oneEach(p, (stage) => {
          const r = Math.min(stage, p - 1 - stage), near = stage < half ? 0 : 1, far = 1 - near, order = [],
                weights = [];
          const next = {F: [0, 0], B: [0, 0]};
          const take = (kind, way) => ({kind, batch: way * m / 2 + next[kind][way]++, chunk: 0, way});
          const forward = (way) => order.push({...take('F', way), length: 1});
          const both = (f, b) => order.push({kind: 'FB', length: 3, chunk: 0, parts: [take('F', f), take('B', b)]});
          const backward = (way, split) => {
            const op = take('B', way);
            order.push({...op, length: split ? 1 : 2});
            if (split) weights.push({...op, kind: 'W', length: 1});
          };
          const weight = () => order.push(weights.shift());
          const times = (n, work) => {
            for (let i = 0; i < n; ++i) work(i);
          };
          times(2 * (half - r - 1), () => forward(near));
          times(r + 1, () => {
            forward(near);
            forward(far);
          });
          times(half - r - 1, () => {
            backward(far, true);
            weight();
            forward(far);
          });
          times(m / 2 - p + r + 1, (i) => {
            if (i === 0 && r === half - 1) {
              forward(near);
              backward(far, false);
            } else
              both(near, far);
            both(far, near);
          });
          times(half - r - 1, () => {
            backward(far, false);
            both(far, near);
          });
          times(r + 1, (i) => {
            const late = (way) => 2 * i + way >= r + 1;
            backward(far, late(0));
            backward(near, late(1));
          });
          times(half - r - 1, () => {
            weight();
            backward(near, true);
          });
          times(r + 1, weight);
          return order;
        });
  return run(orders, 1, (op, stage) => {
    const key = (kind, at) => `${kind} ${at} ${op.batch} 0`, first = op.way === 0 ? 0 : p - 1, last = p - 1 - first,
          on = op.way === 0 ? 1 : -1;
    if (op.kind === 'W') return key('B', stage);
    if (op.kind === 'F') return stage === first ? null : key('F', stage - on);
    return stage === last ? key('F', stage) : key('B', stage + on);
  });
}
