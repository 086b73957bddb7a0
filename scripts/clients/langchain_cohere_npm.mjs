// LangChain's re-ranker of Cohere for JavaScript, for the embedding server.
// packages: @langchain/cohere @langchain/core cohere-ai
import { CohereRerank } from "@langchain/cohere";
import { Document } from "@langchain/core/documents";
import { CohereClient } from "cohere-ai";
import { EMBEDDER, EMBEDDER_KEY, QUERY, TEXTS, checkedRanking, runCalls } from "./reporting.mjs";

const client = new CohereClient({ token: EMBEDDER_KEY, environment: EMBEDDER });
const reranker = new CohereRerank({ client, model: "gircse", topN: 2 });

await runCalls("@langchain/cohere", {
  "CohereRerank.rerank": async () =>
    checkedRanking((await reranker.rerank(TEXTS, QUERY)).map((row) => row.index), 2),
  "CohereRerank.compressDocuments": async () => {
    const documents = TEXTS.map((pageContent) => new Document({ pageContent }));
    const found = await reranker.compressDocuments(documents, QUERY);
    return checkedRanking(found.map((document) => TEXTS.indexOf(document.pageContent)), 2);
  },
});
