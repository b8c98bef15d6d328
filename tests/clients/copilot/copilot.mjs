// CopilotKit's runtime as a caller: node copilot.mjs WITNESS_URL PROVIDER_KEY NAME [--approve]
// A front end talks to the runtime, the runtime to the witness, with the AG-UI client it ships.
import { randomUUID } from "node:crypto";
import { HttpAgent } from "@ag-ui/client";
import { CopilotRuntime, createCopilotRuntimeHandler } from "@copilotkit/runtime/v2";
import { Head, Tally } from "./heads.mjs";

const [url, provider, name] = process.argv.slice(2);
const tally = new Tally();
const [head, stranger] = [new Head(Buffer.alloc(32, 0x77)), new Head(Buffer.alloc(32, 0x88))];
const witness = (await (await fetch(`${url}/.well-known/wikala.json`)).json()).publicKey;
const bag = () => head.bag(witness, provider, name);
const runtime = new CopilotRuntime({ agents: { default: new HttpAgent({ url: `${url}/agui/${provider}/${name}` }) } });
const handler = createCopilotRuntimeHandler({ runtime, basePath: "/api" });

/** What a front end posts, and the events it is shown. */
async function run(threadId, text, more = {}) {
  const input = { threadId, runId: randomUUID(), state: {}, tools: [], context: [], messages: [{ id: randomUUID(), role: "user", content: text }], forwardedProps: {}, ...more };
  const answer = await handler(new Request("http://front.example/api/agent/default/run", {
    method: "POST",
    headers: { "content-type": "application/json", accept: "text/event-stream", authorization: "Bearer of the front end" },
    body: JSON.stringify(input),
  }));
  const words = await answer.text();
  return words.split("\n").filter((line) => line.startsWith("data:")).map((line) => JSON.parse(line.slice(5)));
}
const text = (events) => events.map((event) => event.delta ?? "").join("");
const kinds = (events) => events.map((event) => event.type);

let events = await run(randomUUID(), "echo hello");
tally.check("a run comes through the runtime from start to finish", kinds(events)[0] === "RUN_STARTED" && kinds(events).at(-1) === "RUN_FINISHED", events);
tally.check("the echo comes back", text(events).includes("hello"), events);
if (process.argv.includes("--approve")) tally.close(); // an agent that has no questions of this kind

const thread = randomUUID();
events = await run(thread, "ask which way", { forwardedProps: bag() });
const [asked, at] = [events.at(-1).outcome?.interrupts?.[0], events.at(-1).metadata?.wikala?.runId];
tally.check("a pause is an interrupt, and says which run waits", Boolean(asked && at), events.at(-1));
const resume = (proof) => [{ interruptId: asked.id, status: "resolved", payload: "left", ...(proof && { metadata: { resolution: proof } }) }];
for (const [whose, proof, code] of [["an unsigned", undefined, "act-required"], ["a stranger's", stranger.resolve(at), "not-an-authority"]]) {
  events = await run(thread, "x", { resume: resume(proof), forwardedProps: bag() });
  tally.check(`${whose} resume is refused`, JSON.stringify(events).includes(code) && kinds(events).at(-1) === "RUN_ERROR", events);
}
events = await run(thread, "x", { resume: resume(head.resolve(at)), forwardedProps: bag() });
tally.check("the head's resume goes on to the end, its proof untouched on the way", text(events).includes("left") && kinds(events).at(-1) === "RUN_FINISHED", events);
tally.close();
