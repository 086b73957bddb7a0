// Calls with the types that generated_npm.mjs generates.
import createClient from "openapi-fetch";
import type { paths as Application } from "./application.js";
import type { paths as EmbeddingServer } from "./embedding_server.js";

const { APPLICATION, EMBEDDER, EMBEDDER_KEY } = process.env;

export async function search(): Promise<string[]> {
  const client = createClient<Application>({ baseUrl: APPLICATION });
  const { data, error } = await client.POST("/api/v1/search", {
    body: { query: "Where is my new card?", collection: "letters" },
  });
  if (error !== undefined) throw new Error(JSON.stringify(error));
  // The same path also gives CSV, Markdown and events, if they are asked for.
  if (typeof data === "string" || !("hits" in data)) throw new Error("not JSON");
  return data.hits.map((hit) => hit.chunk.text);
}

export async function embed(): Promise<number[][]> {
  const client = createClient<EmbeddingServer>({
    baseUrl: EMBEDDER,
    headers: { Authorization: `Bearer ${EMBEDDER_KEY}` },
  });
  const { data, error } = await client.POST("/v1/embeddings", {
    body: { model: "gircse-small", input: ["The card has not arrived."] },
  });
  if (error !== undefined) throw new Error(JSON.stringify(error));
  return data.data.map((row) => row.embedding as number[]);
}
