// LangChain's OpenAI embeddings for JavaScript.
// packages: @langchain/openai @langchain/core @langchain/classic
import { OpenAIEmbeddings } from "@langchain/openai";
import { MemoryVectorStore } from "@langchain/classic/vectorstores/memory";
import { EMBEDDER, EMBEDDER_KEY, MODEL, QUERY, TEXTS, checkedVectors, runCalls } from "./reporting.mjs";

const embeddings = new OpenAIEmbeddings({
  model: MODEL,
  apiKey: EMBEDDER_KEY,
  configuration: { baseURL: `${EMBEDDER}/v1` },
});

await runCalls("@langchain/openai", {
  "OpenAIEmbeddings.embedDocuments": async () =>
    checkedVectors(await embeddings.embedDocuments(TEXTS), TEXTS.length),
  "OpenAIEmbeddings.embedQuery": async () => checkedVectors([await embeddings.embedQuery(QUERY)], 1),
  "MemoryVectorStore.similaritySearch": async () => {
    const store = await MemoryVectorStore.fromTexts(TEXTS, [{}, {}, {}], embeddings);
    const found = await store.similaritySearch(QUERY, 2);
    if (found[0].pageContent !== TEXTS[0]) throw new Error(`first is ${found[0].pageContent}`);
    return `${found.length} hits, the relevant one first`;
  },
});
