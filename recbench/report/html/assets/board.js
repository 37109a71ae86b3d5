// Filters hide what does not match, and the points of charts that lead to it.
const form = document.forms[0], every = selector => [...document.querySelectorAll(selector)];
const filter = () => {
  const [dataset, metric, family] = ['dataset', 'metric', 'family'].map(n => form.elements[n].value);
  const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const one of every('[data-t]')) one.hidden = false;
  for (const one of every('[data-d]')) one.hidden = (dataset && one.dataset.d !== dataset)
    || (metric && 'm' in one.dataset && !one.dataset.m.split(' ').includes(metric));
  for (const one of every('[data-k]'))
    one.hidden = metric ? one.dataset.k !== metric : 'rest' in one.dataset;
  for (const one of every('[data-t]')) one.hidden ||= (family && 'f' in one.dataset
    && one.dataset.f !== family) || !words.every(word => one.dataset.t.includes(word));
  for (const row of every('.overview tbody tr')) {
    row.hidden = false;
    row.hidden = ![...row.querySelectorAll('a')].some(link => link.checkVisibility());
  }
  for (const link of every('.chart a')) {
    const line = document.getElementById('r-' + link.getAttribute('href').slice(1));
    link.style.display = line && line.hidden ? 'none' : '';
  }
  const shown = every('.models tbody tr').filter(one => one.checkVisibility()).length;
  document.querySelector('output').textContent = `${shown} line${shown === 1 ? '' : 's'}`;
};
form.oninput = filter;
form.onsubmit = event => event.preventDefault();
filter();
// What an address leads to is unfolded; Escape closes a trial.
const unfold = () => document.getElementById(location.hash.slice(1))?.closest('details')?.setAttribute('open', '');
addEventListener('hashchange', unfold);
addEventListener('keydown', event => {
  if (event.key === 'Escape') document.querySelector('.trial:target .close')?.click();
});
unfold();
