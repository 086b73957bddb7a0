/* Uploads dropped and chosen files, with their folder paths, a few at a time.
   Writes text only, never HTML: file names are untrusted. */
const AT_A_TIME = 3, MOST_FILES = 5000, MOST_SHOWN = 20, MOST_AT_ONCE = 1000;
const zone = element.querySelector('.uploader');
const said = zone.querySelector('.upload-said'), bar = zone.querySelector('progress'), errors = zone.querySelector('.upload-errors');
const call = zone.querySelector('.uploader-target'), content = element.closest('#content');
const undo = zone.querySelector('.upload-undo'), place = undo.querySelector('select');
let waiting = [], running = 0, sent = 0, unchanged = 0, replaced = 0, total = 0, failed = [], told = 0;
let kept = '', into = '', added = []; /* collection of the last upload, and the ids of its new documents */

/* The list determines the target, because that is the collection that the person sees. */
function target() {
  const { collection, isNew } = content.querySelector('#documents-list [data-collection]')?.dataset ?? {};
  return { name: collection ?? '', isNew: isNew !== undefined };
}
const warn = (event) => event.preventDefault();
const files = (count) => (count === 1 ? gircse.text('1 file') : gircse.text('{count} files', { count }));

function drawTarget() {
  const { name, isNew } = target();
  const text = !name ? '' : isNew ? gircse.text('to the new collection “{name}”', { name }) : gircse.text('to the collection “{name}”', { name });
  if (call.textContent !== text) call.textContent = text;
  if (name !== kept && !isNew) gircse.keepCollection(kept = name); /* not a typed name that does not exist yet */
}
new MutationObserver(drawTarget).observe(content, { childList: true, subtree: true, attributes: true, attributeFilter: ['data-collection', 'data-is-new'] });
drawTarget();

/* Enter takes the typed text, not the first matching name, unless the arrow keys selected one. */
let isChoosing = false;
content.addEventListener('keydown', (event) => {
  if (!event.target.matches('#documents-collection input')) return;
  if (event.key === 'Enter' && !isChoosing && event.target.value) {
    event.stopPropagation();
    event.preventDefault();
    event.target.blur();
  }
  isChoosing = event.key !== 'Enter' && event.key.startsWith('Arrow');
}, true);

async function post(path, body) {
  const answer = await fetch(`/api/v1/${path}`, {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body),
  });
  if (!answer.ok) throw Object.assign(new Error(await reason(answer)), { status: answer.status });
  return answer.json();
}

/* The page itself may be creating the collection. */
let offered = '';
content.addEventListener('click', (event) => { offered = event.target.closest('[data-event=create]')?.dataset.name ?? offered; });
async function waitForOffered() {
  for (let waited = 0; offered === target().name && target().isNew && waited < 10_000; waited += 50) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/* The list follows the field with a delay; wait until both agree. */
async function waitForField() {
  const field = content.querySelector('#documents-collection input');
  for (let waited = 0; field?.value && field.value !== target().name && waited < 3_000; waited += 50) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function ensureCollection() {
  await waitForOffered();
  await waitForField();
  const { name, isNew } = target();
  if (!name) throw new Error(gircse.text('First choose a collection or enter the name of a new one.'));
  if (isNew) await post('collections', { name }).catch((error) => { if (error.status !== 409) throw error; });
  return name;
}

async function reason(answer) {
  try { return (await answer.json()).detail || answer.statusText; } catch { return `${answer.status} ${answer.statusText}`; }
}

async function send(item) {
  const form = new FormData();
  form.append('collection', item.collection);
  /* Encode the path, so that no character of a name acts as URL syntax. */
  form.append('uri', `upload://${(item.path.toWellFormed?.() ?? item.path).split('/').map(encodeURIComponent).join('/')}`);
  /* Drop the type from the operating system, which is unreliable for tables; the server uses the file name. */
  form.append('file', new File([item.file], item.file.name, { type: '' }));
  const answer = await fetch('/api/v1/documents', { method: 'POST', body: form });
  if (!answer.ok) throw new Error(await reason(answer));
  const { document, job } = await answer.json();
  if (job === null) unchanged += 1;
  else if (document.revision > 1) replaced += 1;
  else added.push(document.id);
}

function work() {
  while (running < AT_A_TIME && waiting.length) {
    const item = waiting.shift();
    running += 1;
    send(item).catch((error) => failed.push({ item, why: error.message || gircse.text('upload failed') }))
      .finally(() => { running -= 1; sent += 1; draw(); work(); });
  }
}

function draw() {
  const isDone = sent >= total;
  bar.hidden = isDone;
  bar.max = Math.max(total, 1);
  bar.value = sent;
  const good = sent - failed.length;
  const more = [[unchanged, gircse.text('unchanged')], [replaced, gircse.text('replaced earlier versions')], [failed.length, gircse.text('failed')]];
  said.textContent = isDone && !good
    ? gircse.text('No file was added to collection “{name}”: {count} failed.', { name: into, count: failed.length })
    : isDone
    ? gircse.text('{files} sent to collection “{name}”{more}. You can leave this page; indexing continues.', { files: files(good), name: into, more: more.filter(([count]) => count).map(([count, what]) => `, ${count} ${what}`).join('') })
    : gircse.text('Uploading {number} of {total} to collection “{name}”. Stay on this page until the upload is complete.', { number: sent + 1, total, name: into });
  offerUndo(isDone && added.length > 0);
  if (isDone) removeEventListener('beforeunload', warn);
  errors.replaceChildren(...failed.slice(0, MOST_SHOWN).map(({ item, why }) => line(`${item.path}: ${why}`)));
  if (failed.length > MOST_SHOWN) errors.append(line(gircse.text('and {count} more', { count: failed.length - MOST_SHOWN })));
  if (isDone && failed.length) {
    const again = document.createElement('button');
    again.type = 'button';
    again.className = 'plain-button';
    again.textContent = gircse.text('Retry upload');
    again.onclick = () => { const items = failed.map((each) => each.item); failed = []; begin(items); };
    errors.append(again);
  }
  if (isDone || Date.now() - told > 1500) { told = Date.now(); trigger('added', { collection: into }); }
}

function offerUndo(isThere) {
  const wasHidden = undo.hidden;
  undo.hidden = !isThere;
  if (wasHidden && isThere) gircse.fillCollections(place, into).then(() => { for (const each of undo.querySelectorAll('label, [data-move]')) each.hidden = !place.options.length; });
}

/* Deletes or moves the documents of the last upload, indexed or not. Replaced earlier versions are not restored. */
async function takeBack(to) {
  const ids = added;
  added = [];
  offerUndo(false);
  try {
    const moved = [];
    while (ids.length) {
      const some = ids.slice(0, MOST_AT_ONCE);
      if (to) moved.push(...await post('documents/move', { document_ids: some, collection: to }));
      else await post('documents/delete', { document_ids: some });
      ids.splice(0, some.length);
      if (!ids.length) said.textContent = to ? gircse.text('{files} moved to collection “{name}”.', { files: files(moved.length), name: to }) : gircse.text('Upload undone. Its files were deleted.');
    }
    if (to) { into = to; added = moved.map((each) => each.document.id); offerUndo(true); }
  } catch (error) {
    said.textContent = error.message;
    added = ids;
    offerUndo(true);
  }
  trigger('added', { collection: into });
}
undo.querySelector('[data-undo]').addEventListener('click', () => takeBack(''));
undo.querySelector('[data-move]').addEventListener('click', () => { if (place.value) takeBack(place.value); });

function line(text) {
  const each = document.createElement('li');
  each.textContent = text;
  return each;
}

function begin(items) {
  if (sent >= total) { sent = total = unchanged = replaced = 0; failed = []; added = []; into = items[0].collection; }
  total += items.length;
  waiting.push(...items);
  addEventListener('beforeunload', warn);
  for (const each of content.querySelectorAll('[data-until-upload]')) each.hidden = true; /* these notes asked for files */
  draw();
  work();
}

async function take(files) {
  const wanted = files.filter(({ path }) => !path.split('/').some((part) => part.startsWith('.')));
  if (!wanted.length) { said.textContent = files.length ? gircse.text('Only hidden files were found. Nothing was uploaded.') : gircse.text('No files were found.'); return; }
  if (wanted.length > MOST_FILES) {
    said.textContent = gircse.text('{count} files are too many for one upload (limit: {most}). Use `gircse ingest FOLDER` for any number of files.', { count: wanted.length, most: MOST_FILES });
    return;
  }
  try {
    const name = await ensureCollection();
    begin(wanted.map((each) => ({ ...each, collection: name })));
  } catch (error) { said.textContent = error.message; }
}

/* All files below a dropped entry. readEntries returns a hundred entries per call. */
async function entriesOf(entry) {
  if (entry.isFile) {
    const file = await new Promise((give, fail) => entry.file(give, fail));
    return [{ file, path: entry.fullPath.replace(/^\//, '') }];
  }
  const reader = entry.createReader(), found = [];
  for (;;) {
    const some = await new Promise((give, fail) => reader.readEntries(give, fail));
    if (!some.length || found.length > MOST_FILES) return found;
    for (const each of some) found.push(...await entriesOf(each));
  }
}

zone.addEventListener('dragover', (event) => { event.preventDefault(); zone.classList.add('is-over'); });
zone.addEventListener('dragleave', () => zone.classList.remove('is-over'));
zone.addEventListener('drop', async (event) => {
  event.preventDefault();
  zone.classList.remove('is-over');
  const entries = [...event.dataTransfer.items].map((each) => each.webkitGetAsEntry?.()).filter(Boolean);
  const loose = entries.length ? [] : [...event.dataTransfer.files].map((file) => ({ file, path: file.name }));
  try { take([...loose, ...(await Promise.all(entries.map(entriesOf))).flat()]); } catch (error) { said.textContent = String(error.message || error); }
});
for (const input of zone.querySelectorAll('input[type=file]')) {
  zone.querySelector(`[data-pick="${input.name}"]`).addEventListener('click', () => input.click());
  input.addEventListener('change', () => {
    take([...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
    input.value = '';
  });
}
