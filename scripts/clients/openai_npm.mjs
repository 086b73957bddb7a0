// OpenAI's client for JavaScript.
// packages: openai
import OpenAI from "openai";
import { EMBEDDER, EMBEDDER_KEY, MODEL, QUERY, TEXTS, checkedVectors, runCalls } from "./reporting.mjs";

const client = new OpenAI({ baseURL: `${EMBEDDER}/v1`, apiKey: EMBEDDER_KEY, maxRetries: 0 });

await runCalls("openai", {
  "embeddings.create": async () => {
    const answer = await client.embeddings.create({ model: MODEL, input: TEXTS });
    return checkedVectors(answer.data.map((row) => row.embedding), TEXTS.length);
  },
  "embeddings.create with instruction and steps": async () => {
    const extra = { input_type: "query", instruction: "Identify the feeling.", steps: 5 };
    const answer = await client.embeddings.create({ model: MODEL, input: QUERY, encoding_format: "float", ...extra });
    return checkedVectors(answer.data.map((row) => row.embedding), 1);
  },
  "models.list": async () => {
    const names = (await client.models.list()).data.map((model) => model.id);
    if (names.join() !== MODEL) throw new Error(`models: ${names}`);
    return MODEL;
  },
  "a wrong key": async () => {
    const other = new OpenAI({ baseURL: `${EMBEDDER}/v1`, apiKey: "wrong", maxRetries: 0 });
    try {
      await other.embeddings.create({ model: MODEL, input: QUERY });
    } catch (error) {
      if (error instanceof OpenAI.AuthenticationError) return "AuthenticationError";
      throw error;
    }
    throw new Error("accepted");
  },
});
