/* Sends the chosen judgement files to the API. Returns a notice with the result; it consists of text nodes only. */
async (collection, name, instruction) => {
  const chooser = document.querySelector('#evaluate-files input');
  const shown = (count) => count.toLocaleString(document.documentElement.lang);
  function notice(lines, isError) {
    const box = document.createElement('div');
    box.className = isError ? 'notice is-error' : 'notice';
    box.setAttribute('role', isError ? 'alert' : 'status');
    for (const text of lines) {
      const line = document.createElement('p');
      line.dir = 'auto';
      line.textContent = text;
      box.append(line);
    }
    return box.outerHTML;
  }
  if (!collection || !chooser.files.length) return [notice([collection ? gircse.text('Choose at least one file first.') : gircse.text('Choose a collection first.')], true), name];
  const form = new FormData();
  form.append('collection', collection);
  if (name.trim()) form.append('name', name.trim());
  if (instruction.trim()) form.append('instruction', instruction.trim());
  for (const file of chooser.files) form.append('files', file);
  try {
    const answer = await fetch('/api/v1/judgements/import', { method: 'POST', body: form });
    const said = await answer.json();
    if (!answer.ok) return [notice([said.detail || answer.statusText], true), name];
    chooser.value = '';
    const lines = [gircse.text('Imported judgements: {judgements} (queries: {queries}, documents: {documents}).', {
      judgements: shown(said.judgement_count), queries: shown(said.query_count), documents: shown(said.document_count),
    })];
    const add = (count, names, what) => { if (count) lines.push(`${shown(count)}: ${what} ${names.join(', ')}${count > names.length ? ', …' : ''}`); };
    add(said.unmatched_count, said.unmatched, gircse.text('skipped, not in this collection:'));
    add(said.ambiguous_count, said.ambiguous, gircse.text('skipped, the name matches several documents:'));
    add(said.unknown_query_count, said.unknown_queries, gircse.text('skipped, the files contain no text for the query:'));
    if (said.scaled_from !== null) lines.push(gircse.text('The highest grade was {most}; all grades were scaled to 0–3.', { most: said.scaled_from }));
    return [notice(lines, false), ''];
  } catch (error) { return [notice([gircse.text('Upload failed: {error}', { error: error.message })], true), name]; }
}
