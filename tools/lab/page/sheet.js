// The table of formulas, as tutti wrote it into this page, made to functions. There is no second version of a formula.
const data = JSON.parse(document.getElementById('data').textContent);

/** A formula's text as JavaScript. */
function toJavaScript(formula) {
  return formula.replaceAll('=', '===').replaceAll('≥', '>=').replaceAll('≤', '<=').replaceAll('·', '*')
      .replaceAll('−', '-').replaceAll(' and ', ' && ');
}

/** Rows that a topology's selector may give instead (SelectedTimes, below). */
const SELECTED = ['t_tp', 't_cp', 't_ep', 't_rs', 't_ag', 't_pp'];

/** One statement for each name: the first row whose condition holds gives the value. */
function statement(name, rows) {
  const choices = rows.map((row) => row.when === ''
      ? `(${toJavaScript(row.formula)})` : `(${toJavaScript(row.when)}) ? (${toJavaScript(row.formula)})`);
  const always = rows[rows.length - 1].when === '';
  const given = SELECTED.includes(name) ? `selected?.${name} ?? ` : '';
  return `const ${name} = ${given}(${choices.join(' : ')}${always ? '' : ' : NaN'});`;
}

/** Groups of rows that follow each other and have one name. */
function grouped(rows) {
  const groups = [];
  for (const row of rows) {
    const last = groups[groups.length - 1];
    if (last && last.name === row.name) last.rows.push(row);
    else groups.push({name: row.name, rows: [row]});
  }
  return groups;
}

/**
 * A function that computes the rows of these parts. Its argument holds the inputs (and the parts before, if they are not among
 * `parts`); its result holds these and the rows. A new object of one shape each time: a search asks thousands of times.
 */
function compile(sheet, parts) {
  const groups = grouped(sheet.rows);
  const mine = groups.filter((group) => parts.includes(group.rows[0].part));
  const first = groups.indexOf(mine[0]);
  const known = [...sheet.inputs.map((input) => input.name), ...groups.slice(0, first).map((group) => group.name),
    'bySelector', 'selected'];
  const body = `const {min, max, floor, ceil, cbrt, sqrt} = Math; const {${known.join(', ')}} = $;\n` +
      mine.map((group) => statement(group.name, group.rows)).join('\n') +
      `\nreturn {${[...known, ...mine.map((group) => group.name)].join(', ')}};`;
  return new Function('$', body);
}

const PARTS = ['layout', 'memory', 'links', 'volume', 'time'];
const computeMemory = compile(data.sheets.step, ['layout', 'memory']);
const computeVolume = compile(data.sheets.step, ['links', 'volume']);
const computeRest = compile(data.sheets.step, ['time']);
const computeRing = compile(data.sheets.ring, PARTS);
const computeGuess = compile(data.sheets.guess, PARTS);
/** The lesson's sheets: compute.ddp({Ψ: …}). */
const compute = Object.fromEntries(Object.entries(data.sheets).map(([name, sheet]) => [name, compile(sheet, PARTS)]));

/** Times of collectives by the selector, on the topology that the program was given: curves by call and group of ranks. */
class SelectedTimes {
  constructor({first, curves}) {
    this.first = first;
    this.curves = new Map(curves.map((c) => [`${c.call} ${c.ranks} ${c.in_host}`, c.seconds]));
  }

  /** As CallTimes::seconds (call_times.cpp); NaN: there is no such curve. */
  seconds(call, ranks, inHost, bytes) {
    const curve = this.curves.get(`${call} ${ranks} ${inHost}`);
    if (!curve) return NaN;
    if (bytes <= 2 ** this.first) return curve[0];
    const below = Math.min(Math.floor(Math.log2(bytes)), this.first + curve.length - 2), size = 2 ** below;
    const i = below - this.first;
    return curve[i] + (curve[i + 1] - curve[i]) * (bytes - size) / size;
  }

  /** As calls_of() (call_times.cpp). Rows without a curve are left to their formulas. */
  rows(v) {
    const rows = {};
    const add = (row, call, ranks, inHost, bytes, count = 1) => {
      rows[row] = (rows[row] || 0) + count * this.seconds(call, ranks, inHost, bytes);
    };
    if (v.tp > 1 && v.sp === 1) for (const call of ['reduce_scatter', 'all_gather']) add('t_tp', call, v.tp, v.k_tp, v.S_tp);
    else if (v.tp > 1) add('t_tp', 'all_reduce', v.tp, v.k_tp, v.S_tp);
    if (v.cp > 1) add('t_cp', 'message', 2, v.k_cp < v.cp ? 1 : 2, v.S_cp, v.cp - 1);
    if (v.ep > 1) add('t_ep', 'all_to_all', v.ep, v.k_ep, v.S_ep);
    if (v.pp > 1) add('t_pp', 'message', 2, v.k_pp < v.pp ? 1 : 2, v.S_pp);
    for (const [ranks, inHost, bytes] of [[v.N, v.k_N, 2 * v.Ψr / v.l], [v.Nx, v.k_Nx, 2 * v.Ψx / v.l]]) {
      if (ranks <= 1 || bytes <= 0) continue;
      add('t_rs', v.zero === 0 ? 'all_reduce' : 'reduce_scatter', ranks, inHost, bytes, v.l * (v.zero === 0 ? 0.5 : 1));
      add('t_ag', v.zero === 0 ? 'all_reduce' : 'all_gather', ranks, inHost, bytes, v.l * (v.zero === 0 ? 0.5 : 1));
    }
    return Object.fromEntries(Object.entries(rows).filter(([, seconds]) => !Number.isNaN(seconds)));
  }
}
const collectives = data.calls ? new SelectedTimes(data.calls) : null;

function computeTime(v) {
  const volume = computeVolume(v);
  if (volume.bySelector) volume.selected = collectives.rows(volume);
  return computeRest(volume);
}
const computeStep = (v) => computeTime(computeMemory(v));

/** The row of `name` that applies to the values `v`. */
function rowOf(sheet, name, v) {
  const rows = sheet.rows.filter((row) => row.name === name);
  return rows.find((row) => row.when === '' || new Function('$', `with ($) return ${toJavaScript(row.when)};`)(v));
}

const NAMES = /[A-Za-zΑ-ω_][A-Za-zΑ-ω_0-9]*/g;
const FUNCTIONS = ['min', 'max', 'floor', 'ceil', 'cbrt', 'sqrt'];

/** "2·Ψr/N" → "2·7.00 G/64". */
function filled(sheet, formula, v) {
  return formula.replace(NAMES, (name) => FUNCTIONS.includes(name) ? name : format(v[name], unitOf(sheet, name)));
}

function unitOf(sheet, name) {
  const found = sheet.inputs.find((input) => input.name === name) || sheet.rows.find((row) => row.name === name);
  return found ? found.unit : '';
}

/** Units that have no parts of a thousandth: half a dollar is 0.50 $, not 500 m$. */
const WHOLE_UNITS = ['', 'd', 'h', '$'];

/** Three digits and a unit, as `tutti lab` prints them. */
function format(value, unit = '') {
  if (unit === 'share') return `${(value * 100).toFixed(1)} %`;
  if (value === 0) return unit === '' ? '0' : `0 ${unit}`;
  if (unit === '' && Number.isInteger(value) && Math.abs(value) < 1e5) return String(value).replace('-', '−');
  if (unit === 'd' && Math.abs(value) >= 999.5) return `${value.toFixed(0)} d`;
  const prefixes = ['p', 'n', 'µ', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'];
  let prefix = 4, scaled = Math.abs(value);
  while (scaled >= 999.5 && prefix < prefixes.length - 1) scaled /= 1000, ++prefix;
  while (scaled < 0.9995 && prefix > 0 && !WHOLE_UNITS.includes(unit)) scaled *= 1000, --prefix;
  const digits = scaled < 0.0995 ? 1 - Math.floor(Math.log10(scaled)) : scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
  const gap = unit.startsWith('token') && prefix !== 4 ? ' ' : '';
  const full = prefixes[prefix] + gap + unit;
  return `${value < 0 ? '−' : ''}${scaled.toFixed(digits)}${full === '' ? '' : ' '}${full}`;
}
