// The table of formulas, as tutti wrote it into this page, made to functions. There is no second version of a formula.
const data = JSON.parse(document.getElementById('data').textContent);

/** A formula's text as JavaScript. */
function toJavaScript(formula) {
  return formula.replaceAll('=', '===').replaceAll('≥', '>=').replaceAll('≤', '<=').replaceAll('·', '*')
      .replaceAll('−', '-').replaceAll(' and ', ' && ');
}

/** One statement for each name: the first row whose condition holds gives the value. */
function statement(name, rows) {
  const choices = rows.map((row) => row.when === ''
      ? `(${toJavaScript(row.formula)})` : `(${toJavaScript(row.when)}) ? (${toJavaScript(row.formula)})`);
  const always = rows[rows.length - 1].when === '';
  return `const ${name} = ${choices.join(' : ')}${always ? '' : ' : NaN'};`;
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
  const known = [...sheet.inputs.map((input) => input.name), ...groups.slice(0, first).map((group) => group.name)];
  const body = `const {min, max, floor, ceil, cbrt, sqrt} = Math; const {${known.join(', ')}} = $;\n` +
      mine.map((group) => statement(group.name, group.rows)).join('\n') +
      `\nreturn {${[...known, ...mine.map((group) => group.name)].join(', ')}};`;
  return new Function('$', body);
}

const PARTS = ['layout', 'memory', 'links', 'volume', 'time'];
const computeMemory = compile(data.sheets.step, ['layout', 'memory']);
const computeTime = compile(data.sheets.step, ['links', 'volume', 'time']);
const computeRing = compile(data.sheets.ring, PARTS);
const computeGuess = compile(data.sheets.guess, PARTS);
/** The lesson's sheets: compute.ddp({Ψ: …}). */
const compute = Object.fromEntries(Object.entries(data.sheets).map(([name, sheet]) => [name, compile(sheet, PARTS)]));
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

/** Three digits and a unit, as `tutti lab` prints them. */
function format(value, unit = '') {
  if (unit === 'share') return `${(value * 100).toFixed(1)} %`;
  if (value === 0) return unit === '' ? '0' : `0 ${unit}`;
  if (unit === '' && Number.isInteger(value) && Math.abs(value) < 1e5) return String(value).replace('-', '−');
  const prefixes = ['p', 'n', 'µ', 'm', '', 'k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'];
  let prefix = 4, scaled = Math.abs(value);
  while (scaled >= 999.5 && prefix < prefixes.length - 1) scaled /= 1000, ++prefix;
  while (scaled < 0.9995 && prefix > 0 && unit !== '') scaled *= 1000, --prefix;
  const digits = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
  const gap = unit.startsWith('token') && prefix !== 4 ? ' ' : '';
  const full = prefixes[prefix] + gap + unit;
  return `${value < 0 ? '−' : ''}${scaled.toFixed(digits)}${full === '' ? '' : ' '}${full}`;
}
