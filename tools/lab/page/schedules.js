// Pipeline schedules: the operations of every stage in order, and when each runs. A forward takes 1/v, a backward 2/v
// units (v: model chunks of a stage); ZB-H1 splits the backward into its input and its weight part, 1 unit each.

/** Order of a stage: all forwards, then all backwards. */
function gpipeOrder(p, m) {
  const forwards = Array.from({length: m}, (_, i) => ({kind: 'F', batch: i, chunk: 0}));
  return Array.from({length: p}, () => [...forwards, ...forwards.map((op) => ({...op, kind: 'B'}))]);
}

/** Megatron's order: warm-up forwards, then one forward and one backward in turn, then the rest. v = 1: plain 1F1B. */
function oneForwardOneBackwardOrder(p, m, v) {
  const total = m * v;
  const operation = (kind, k) => {
    const chunk = Math.floor(k % (p * v) / p);
    return {kind, batch: v === 1 ? k : Math.floor(k / (p * v)) * p + k % p, chunk: v === 1 ? 0 : kind === 'F' ? chunk : v - 1 - chunk};
  };
  return Array.from({length: p}, (_, stage) => {
    const warm = Math.min(total, v === 1 ? p - stage - 1 : (p - stage - 1) * 2 + (v - 1) * p);
    const order = [];
    for (let k = 0; k < warm; ++k) order.push(operation('F', k));
    for (let k = warm; k < total; ++k) order.push(operation('F', k), operation('B', k - warm));
    for (let k = total - warm; k < total; ++k) order.push(operation('B', k));
    return order;
  });
}

/** The operation that must have ended before, as "kind stage batch chunk". */
function before(op, stage, p, v) {
  const key = (kind, at, chunk) => `${kind} ${at} ${op.batch} ${chunk}`;
  if (op.kind === 'F') {
    if (stage > 0) return key('F', stage - 1, op.chunk);
    return op.chunk > 0 ? key('F', p - 1, op.chunk - 1) : null;
  }
  if (op.kind === 'W') return key('B', stage, op.chunk);
  if (stage < p - 1) return key('B', stage + 1, op.chunk);
  return op.chunk < v - 1 ? key('B', 0, op.chunk + 1) : key('F', stage, op.chunk);
}

/** How long an operation takes, in units of a forward pass of a stage. */
function lengthOf(op, v, split) {
  return op.length || (op.kind === 'F' || split ? 1 : 2) / v;
}

/**
 * Runs orders: [{stage, kind, batch, chunk, start, length}]. `needed(part, stage)`: what must have ended before. An operation with
 * `parts` is several that run together.
 */
function run(orders, v, needed = (op, stage) => before(op, stage, orders.length, v)) {
  const split = orders[0].some((op) => op.kind === 'W'), ended = new Map(), next = orders.map(() => 0), free = orders.map(() => 0), done = [];
  const waiting = () => orders.some((order, stage) => next[stage] < order.length);
  while (waiting()) {
    let moved = false;
    orders.forEach((order, stage) => {
      while (next[stage] < order.length) {
        const op = order[next[stage]], parts = op.parts || [op], needs = parts.map((part) => needed(part, stage)).filter((key) => key);
        if (needs.some((key) => !ended.has(key))) return;
        const start = Math.max(free[stage], ...needs.map((key) => ended.get(key))), length = lengthOf(op, v, split);
        done.push({...op, stage, start, length});
        free[stage] = start + length;
        for (const part of parts) ended.set(`${part.kind} ${stage} ${part.batch} ${part.chunk}`, free[stage]);
        ++next[stage];
        moved = true;
      }
    });
    if (!moved) throw new Error('the schedule waits for itself');
  }
  return done;
}

/** ZB-H1: 1F1B, with the backward in two parts; stage s lets the weights' part wait for s micro-batches. */
function zeroBubbleOrder(p, m) {
  return Array.from({length: p}, (_, stage) => {
    const order = [], operation = (kind, batch) => batch >= 0 && batch < m && order.push({kind, batch, chunk: 0});
    for (let k = 0; k < p - stage; ++k) operation('F', k);
    for (let k = 0; k < m + stage; ++k) {
      operation('B', k);
      operation('W', k - stage);
      operation('F', p - stage + k);
    }
    return order;
  });
}

/** All operations of a schedule with their times. */
function schedule(sched, p, m, v) {
  const chunks = sched === 2 ? v : 1;
  if (sched === 0) return run(gpipeOrder(p, m), 1);
  if (sched === 4) return dualPipe(p, m);
  if (sched === 5) return zeroBubbleV(p, m);
  return run(sched === 3 ? zeroBubbleOrder(p, m) : oneForwardOneBackwardOrder(p, m, chunks), chunks);
}

/**
 * What the drawing shows: the idle share, and how many micro-batches' activations a stage holds at most: the first, or with `any`
 * the one that holds most. A forward takes room when it begins; a backward (or its weights' part) gives it back when it ends.
 */
function measured(operations, p, any = false) {
  const end = Math.max(...operations.map((op) => op.start + op.length)), busy = operations.reduce((sum, op) => sum + op.length, 0);
  const chunks = 1 + Math.max(...operations.map((op) => op.chunk)), apart = new Set(operations.filter((op) => op.kind === 'W')
      .map((op) => `${op.stage} ${op.batch} ${op.chunk}`));
  const heldBy = (stage) => {
    const changes = operations.filter((op) => op.stage === stage).flatMap((op) => (op.parts || [op]).flatMap((part) => part.kind === 'F' ? [[op.start, 1]]
        : part.kind === 'W' || !apart.has(`${stage} ${part.batch} ${part.chunk}`) ? [[op.start + op.length, -1]] : []));
    let held = 0, most = 0;
    for (const [, by] of changes.sort((a, b) => Math.abs(a[0] - b[0]) < 1e-9 ? a[1] - b[1] : a[0] - b[0])) most = Math.max(most, held += by);
    return most / chunks;
  };
  return {end, idle: 1 - busy / (p * end), held: any ? Math.max(...oneEach(p, heldBy)) : heldBy(0)};
}
