// The same as reporting.py, for clients in JavaScript.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

export const { APPLICATION, EMBEDDER, EMBEDDER_KEY } = process.env;
export const MODEL = "gircse-small";
const DIMENSION = 384;
export const QUERY = "Where is my new card?";
export const TEXTS = [
  "The card that you ordered has not arrived yet.",
  "The office opens at nine.",
  "Bake the bread for an hour.",
];

export async function runCalls(client, calls) {
  const packageFile = new URL(`node_modules/${client}/package.json`, import.meta.url);
  const { version } = JSON.parse(readFileSync(packageFile));
  for (const [call, run] of Object.entries(calls)) {
    const line = { client: `${client} (npm)`, version, call };
    try {
      line.result = await run();
    } catch (error) {
      line.error = `${error.name}: ${error.message}`;
    }
    console.log(JSON.stringify(line));
  }
}

export function checkedVectors(vectors, count) {
  assert.deepEqual(vectors.map((vector) => vector.length), Array(count).fill(DIMENSION));
  for (const vector of vectors) {
    const square = vector.reduce((sum, number) => sum + number * number, 0);
    assert(Math.abs(square - 1) < 1e-3, `not of length 1: ${square}`);
  }
  return count > 1 ? `${count} vectors of ${DIMENSION} numbers` : `a vector of ${DIMENSION} numbers`;
}

export function checkedRanking(indexes, count = TEXTS.length) {
  assert.equal(indexes.length, count);
  assert.equal(indexes[0], 0, `text ${indexes[0]} is first`);
  return `${count} of ${TEXTS.length} texts, the relevant one first`;
}

export function checkedHits(texts) {
  assert(texts.length > 0, "no hits");
  assert(texts[0].includes(TEXTS[0]), `first is ${texts[0]}`);
  return `${texts.length} hits, the relevant one first`;
}
