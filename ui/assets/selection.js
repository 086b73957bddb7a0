/* Tracks the selected documents. The list is redrawn in place, so each redraw sets the checkboxes again.
   The selection spans all pages of the list, until an action runs or the collection changes. */
const MOST = 1000;
const bar = element.querySelector('.selection'), select = bar.querySelector('select');
const content = element.closest('#content');
const selected = new Set();
let of = null;

const boxes = () => [...content.querySelectorAll('#documents-list input[data-document]')];
const every = () => content.querySelector('#documents-list input[data-every]');
const collection = () => content.querySelector('#documents-list [data-collection]')?.dataset.collection ?? null;

function draw() {
  if (collection() !== of) { of = collection(); selected.clear(); }
  const shown = boxes();
  for (const box of shown) box.checked = selected.has(box.dataset.document);
  const all = every(), checked = shown.filter((box) => box.checked).length;
  if (all) { all.checked = checked > 0 && checked === shown.length; all.indeterminate = checked > 0 && checked < shown.length; }
  const wasHidden = bar.hidden;
  bar.hidden = !selected.size;
  const count = selected.size === 1 ? gircse.text('1 document selected') : gircse.text('{count} documents selected', { count: selected.size });
  const text = selected.size ? count : '';
  const said = bar.querySelector('b');
  if (said.textContent !== text) said.textContent = text;
  if (wasHidden && selected.size) {
    gircse.fillCollections(select, of).then(() => { bar.querySelector('.selection-move').hidden = !select.options.length; });
  }
}

content.addEventListener('change', (event) => {
  const box = event.target;
  if (!box.matches('#documents-list input[type=checkbox]')) return;
  for (const each of box.matches('[data-every]') ? boxes() : [box]) {
    if (box.checked && selected.size < MOST) selected.add(each.dataset.document);
    else selected.delete(each.dataset.document);
  }
  draw();
});
bar.addEventListener('click', (event) => {
  const what = event.target.closest('button')?.dataset.do;
  if (!what || !selected.size) return;
  if (what !== 'clear') trigger('act', { action: what, documents: [...selected].join(' '), to: select.value });
  selected.clear();
  draw();
});
new MutationObserver(draw).observe(content, { childList: true, subtree: true, attributes: true, attributeFilter: ['data-collection', 'data-document'] });
draw();
