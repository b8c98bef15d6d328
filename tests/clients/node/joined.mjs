// What stock AG-UI clients make of a joined stream: node joined.mjs FILE [--old]
// FILE: {"input": RunAgentInput, "full": [[event…]…], "joins": [{"name", "events": [event…]}…]}.
// A client that was told everything from the start, stream by stream, and each that joined late
// must end with the same messages and the same state, without a complaint of its verifier.
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { from } from "rxjs";

const { AbstractAgent } = await import(process.argv.includes("--old") ? "ag-ui-client-0" : "@ag-ui/client");
const { input, full, joins } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));
console.error = console.warn;

class Told extends AbstractAgent {
  run() {
    return from(this.events);
  }
}

async function ends(streams) {
  const agent = new Told({ threadId: input.threadId, initialMessages: input.messages, initialState: input.state });
  for (const events of streams) {
    agent.events = structuredClone(events);
    const resume = agent.pendingInterrupts?.map(({ id }) => ({ interruptId: id, status: "resolved", payload: "yes" }));
    await agent.runAgent({ runId: input.runId, ...(resume?.length && { resume }) });
  }
  return { messages: agent.messages, state: agent.state };
}

let failed = 0;
for (const { name, events, until } of joins) {
  try {
    const wanted = await ends(full.slice(0, until ?? full.length));
    const got = await ends([events]);
    if (!isDeepStrictEqual(got, wanted)) {
      failed += 1;
      console.log(`${name}: got ${JSON.stringify(got)}\nwanted ${JSON.stringify(wanted)}`);
    }
  } catch (error) {
    failed += 1;
    console.log(`${name}: ${error}\n${JSON.stringify(events)}`);
  }
}
// The story has one patch that does not fit, and one call whose parent is no assistant.
const known = ["apply state patch", "falling back to toolCallId"];
const odd = warnings.filter((words) => !known.some((part) => words.includes(part)));
odd.forEach((words) => console.log(words));
console.log(`${joins.length - failed} joined alike, ${failed} not, ${odd.length} warnings`);
process.exit(failed || odd.length ? 1 : 0);
