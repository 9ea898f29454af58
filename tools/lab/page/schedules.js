// Pipeline schedules: the operations of every stage in order, and when each runs. A forward takes 1/v, a backward 2/v
// units (v: model chunks of a stage); ZB-H1 splits the backward into its input and its weight part, 1 unit each.

const SCHEDULES = ['gpipe', '1f1b', 'interleaved', 'zb-h1'];

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

/** Runs orders: [{stage, kind, batch, chunk, start, length}]. */
function run(orders, v) {
  const split = orders[0].some((op) => op.kind === 'W');
  const p = orders.length, ended = new Map(), next = orders.map(() => 0), free = orders.map(() => 0), done = [];
  const waiting = () => orders.some((order, stage) => next[stage] < order.length);
  while (waiting()) {
    let moved = false;
    orders.forEach((order, stage) => {
      while (next[stage] < order.length) {
        const op = order[next[stage]], needs = before(op, stage, p, v);
        if (needs && !ended.has(needs)) return;
        const start = Math.max(free[stage], needs ? ended.get(needs) : 0), length = (op.kind === 'F' || split ? 1 : 2) / v;
        done.push({...op, stage, start, length});
        free[stage] = start + length;
        ended.set(`${op.kind} ${stage} ${op.batch} ${op.chunk}`, free[stage]);
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
  return run(sched === 3 ? zeroBubbleOrder(p, m) : oneForwardOneBackwardOrder(p, m, chunks), chunks);
}

/** What the drawing shows: the idle share, and how many micro-batches' activations the first stage holds at most. */
function measured(operations, p) {
  const end = Math.max(...operations.map((op) => op.start + op.length));
  const busy = operations.reduce((sum, op) => sum + op.length, 0);
  const last = operations.some((op) => op.kind === 'W') ? 'W' : 'B';
  const chunks = 1 + Math.max(...operations.map((op) => op.chunk));
  let held = 0, most = 0;
  const mine = operations.filter((op) => op.stage === 0 && (op.kind === 'F' || op.kind === last));
  for (const op of mine.sort((a, b) => a.start - b.start)) most = Math.max(most, held += op.kind === 'F' ? 1 / chunks : -1 / chunks);
  return {end, idle: 1 - busy / (p * end), held: most};
}
