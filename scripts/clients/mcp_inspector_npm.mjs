// The inspector of the Model Context Protocol, on the command line.
// packages: @modelcontextprotocol/inspector
import { execFileSync } from "node:child_process";
import { APPLICATION, QUERY, checkedHits, runCalls } from "./reporting.mjs";

function inspect(...options) {
  const command = ["node_modules/.bin/mcp-inspector", "--cli", `${APPLICATION}/mcp`, "--transport", "http", ...options];
  return JSON.parse(execFileSync(process.execPath, command, { encoding: "utf8", timeout: 60_000 }));
}

await runCalls("@modelcontextprotocol/inspector", {
  "--method tools/list": () => {
    const names = inspect("--method", "tools/list").tools.map((tool) => tool.name);
    if (!names.includes("search")) throw new Error(`tools: ${names}`);
    return `${names.length} tools`;
  },
  "--method tools/call search": () => {
    const named = ["--tool-name", "search", "--tool-arg", `query=${QUERY}`, "--tool-arg", "collection=letters"];
    const answer = inspect("--method", "tools/call", ...named);
    return checkedHits(answer.structuredContent.hits.map((hit) => hit.text));
  },
});
