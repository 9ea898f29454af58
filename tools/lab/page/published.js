// Runs whose speed was published, beside what the planner predicts for them.

function showPublished() {
  const head = ['run', 'published', 'predicted', 'error', 'counted', 'tp', 'pp', 'dp', 'ep', 'ZeRO'];
  const layout = ['tp', 'pp', 'dp', 'ep', 'zero'];
  const rows = data.published.map(
      (run) => element(
          'tr', {},
          element(
              'th', {scope: 'row'}, run.label,
              element(
                  'small', {}, run.source, run.assumed === '' ? '' : `; assumed: ${run.assumed}`,
                  run.fits ? '' : '; by the planner it does not fit')),
          element('td', {'data-head': 'published'}, format(run.published, 'share')),
          element('td', {'data-head': 'predicted'}, number(`published-${run.name}`, run.predicted, 'share')),
          element(
              'td', {class: Math.abs(run.error) > 0.12 ? 'far' : '', 'data-head': 'error'},
              `${run.error < 0 ? '−' : '+'}${Math.abs(run.error * 100).toFixed(1)} %`),
          element('td', {'data-head': 'counted'}, run.counted),
          ...layout.map(
              (axis, i) =>
                  element('td', {'data-head': head[head.length - layout.length + i]}, String(run.layout[axis])))));
  const errors = data.published.map((run) => Math.abs(run.error)).sort((a, b) => a - b), half = errors.length / 2;
  const median = (errors[Math.ceil(half) - 1] + errors[Math.floor(half)]) / 2;
  fill(
      'published-table',
      element(
          'table', {class: 'plain runs'}, element('caption', {}, 'Published runs and predictions'),
          element('thead', {}, element('tr', {}, ...head.map((text) => element('th', {scope: 'col'}, text)))),
          element('tbody', {}, ...rows)));
  fill(
      'published-verdict', 'Median error ', number('published-median', median, 'share'), ', largest ',
      number('published-worst', errors[errors.length - 1], 'share'), '. What is off by more than 12 % is marked.');
}
