// Columns of every table sort on a click; empty cells stay last.
for (const button of document.querySelectorAll('th button')) button.onclick = () => {
  const head = button.parentElement, body = head.closest('table').tBodies[0];
  const up = head.getAttribute('aria-sort') !== 'ascending';
  for (const other of head.parentElement.children) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
  const key = row => row.cells[head.cellIndex].dataset.v ?? row.cells[head.cellIndex].textContent;
  const order = (a, b) => { const x = key(a), y = key(b);
    return x === '' || y === '' ? (x === '') - (y === '')
      : (up ? 1 : -1) * (isNaN(x - y) ? x.localeCompare(y) : x - y); };
  body.append(...[...body.rows].sort(order));
};
