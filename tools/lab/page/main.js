// Puts the page together.

/** Light, dark or the system's choice; remembered where the browser permits it. */
function startTheme() {
  const button = byId('theme'), order = ['auto', 'light', 'dark'], system = matchMedia('(prefers-color-scheme: dark)');
  let choice = 'auto';
  try { choice = localStorage.getItem('theme') || choice; } catch { /* a file may have no storage */ }
  const show = () => {
    const dark = choice === 'dark' || (choice === 'auto' && system.matches);
    document.documentElement.dataset.theme = dark ? 'dark' : 'light';
    button.textContent = `Theme: ${choice}`;
  };
  system.addEventListener('change', show);
  button.addEventListener('click', () => {
    choice = order[(order.indexOf(choice) + 1) % order.length];
    try { localStorage.setItem('theme', choice); } catch { /* as above */ }
    show();
  });
  show();
}

function showNotes() {
  fill('sources', ...data.sources.map(({key, text, url}) =>
    element('li', {}, element('b', {}, key), ': ', text, '. ', element('a', {href: url, rel: 'noreferrer'}, url.replace('https://', '')))));
}

startTheme();
showNotes();
new Planner();
new Wall();
new Zero();
new Recompute();
new Ring();
new Collectives();
new Growth();
new Ddp();
new Fsdp();
new Tensor();
new Context();
new Moe();
new Pipeline();
new Grid();
new Price();
showPublished();
showErrata();
new Exercises();
showTables();
for (const id of ['published-table', 'cheat-table']) fading(byId(id));
