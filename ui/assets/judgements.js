/* Sends the chosen files of judgements to the API. Gives HTML that says what became of them, made of text nodes alone. */
async (collection, name, instruction) => {
  const chooser = document.querySelector('#evaluate-files input');
  const counted = (count, one, many) => `${count.toLocaleString('en')} ${count === 1 ? one : many}`;
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
  if (!collection || !chooser.files.length) return [notice([collection ? 'Choose at least one file first.' : 'Choose a collection first.'], true), name];
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
    const lines = [`${counted(said.judgement_count, 'judgement', 'judgements')} of ${counted(said.query_count, 'query', 'queries')} and ${counted(said.document_count, 'document', 'documents')} are kept.`];
    const add = (count, names, what) => { if (count) lines.push(`${count.toLocaleString('en')}: ${what}. ${names.join(', ')}${count > names.length ? ', …' : ''}`); };
    add(said.unmatched_count, said.unmatched, 'not in this collection, and left out');
    add(said.ambiguous_count, said.ambiguous, 'the name of several documents, and left out');
    add(said.unknown_query_count, said.unknown_queries, 'a judged query whose text no file told');
    if (said.scaled_from !== null) lines.push(`Grades went up to ${said.scaled_from}; they were scaled to 3.`);
    return [notice(lines, false), ''];
  } catch (error) { return [notice([`The files could not be sent: ${error.message}`], true), name]; }
}
