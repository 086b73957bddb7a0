// Types that openapi-typescript generates from the descriptions of both servers, with openapi-fetch and tsc.
// packages: openapi-typescript openapi-fetch typescript@5 @types/node
// files: generated_client.ts
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { APPLICATION, EMBEDDER, EMBEDDER_KEY, checkedHits, checkedVectors, runCalls } from "./reporting.mjs";

function run(program, ...options) {
  try {
    return execFileSync(process.execPath, [`node_modules/.bin/${program}`, ...options], { encoding: "utf8", stdio: "pipe" });
  } catch (error) {
    throw new Error(`${program}: ${error.stdout}${error.stderr}`);
  }
}

async function generate(name, url) {
  const answer = await fetch(`${url}/openapi.json`, { headers: { Authorization: `Bearer ${EMBEDDER_KEY}` } });
  writeFileSync(`${name}.json`, await answer.text());
  // Else fields with a default would be required in requests.
  run("openapi-typescript", `${name}.json`, "--default-non-nullable", "false", "--output", `${name}.d.ts`);
}

await runCalls("openapi-typescript", {
  "generate from both servers": async () => {
    await generate("application", APPLICATION);
    await generate("embedding_server", EMBEDDER);
    return "types of both";
  },
  "tsc --strict of calls by openapi-fetch": () => {
    const options = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "--skipLibCheck", "false"];
    run("tsc", ...options, "generated_client.ts");
    return "no type error";
  },
  "openapi-fetch: search": async () => checkedHits(await (await import("./generated_client.js")).search()),
  "openapi-fetch: embeddings": async () => {
    const vectors = await (await import("./generated_client.js")).embed();
    return checkedVectors(vectors, vectors.length);
  },
});
