// The npm @ag-ui/client as a caller: node agui.mjs WITNESS_URL PROVIDER_KEY NAME [--old] [--no-tools]
// --old: version 0.0.59, as runtimes still ship it; --no-tools: the agent announces no calls;
// --approve: its questions are approvals of a call.
import { randomUUID } from "node:crypto";
import { Head, Tally } from "./heads.mjs";

const { HttpAgent } = await import(process.argv.includes("--old") ? "ag-ui-client-0" : "@ag-ui/client");

const [url, provider, name] = process.argv.slice(2);
const tally = new Tally();
const [head, stranger] = [new Head(Buffer.alloc(32, 0x55)), new Head(Buffer.alloc(32, 0x66))];
const witness = (await (await fetch(`${url}/.well-known/wikala.json`)).json()).publicKey;
const bag = () => head.bag(witness, provider, name);
const agent = (text, threadId = randomUUID()) =>
  new HttpAgent({
    url: `${url}/agui/${provider}/${name}`,
    threadId,
    initialMessages: [{ id: randomUUID(), role: "user", content: text }],
  });

/** Runs an agent and keeps every event it was shown. */
async function run(who, parameters) {
  const seen = [];
  await who.runAgent({ runId: randomUUID(), ...parameters }, { onEvent: ({ event }) => void seen.push(event) });
  return seen;
}
const kinds = (events) => events.map((event) => event.type);

const echo = agent("echo hello");
let events = await run(echo, {});
tally.check("a run streams from start to finish", kinds(events)[0] === "RUN_STARTED" && kinds(events).at(-1) === "RUN_FINISHED", kinds(events));
tally.check("the caller keeps its own ids", events[0].threadId === echo.threadId, events[0]);
tally.check("the echo comes back", echo.messages.some((m) => m.role === "assistant" && m.content.includes("hello")), echo.messages);

if (process.argv.includes("--approve")) {
  const asker = agent("approve it");
  events = await run(asker, { forwardedProps: bag() });
  const [asked, at] = [events.at(-1).outcome?.interrupts?.[0], events.at(-1).metadata?.wikala?.runId];
  tally.check("an approval is an interrupt", asked?.toolCallId === "call-2" && at, events.at(-1));
  const resume = (proof) => [{ interruptId: asked.id, status: "resolved", payload: { approved: true }, ...(proof && { metadata: { resolution: proof } }) }];
  await tally.refused("an unsigned approval is refused", "act-required", () => run(asker, { resume: resume(), forwardedProps: bag() }));
  await tally.refused("a stranger's approval is refused", "not-an-authority", () =>
    run(asker, { resume: resume(stranger.resolve(at)), forwardedProps: bag() }));
  events = await run(asker, { resume: resume(head.resolve(at)), forwardedProps: bag() });
  tally.check("the head's approval runs the call", JSON.stringify(events).includes("done: risked") && kinds(events).at(-1) === "RUN_FINISHED", events);
  tally.close();
}

const asker = agent("ask which way");
events = await run(asker, { forwardedProps: bag() });
const finished = events.at(-1);
const interrupt = finished.outcome?.interrupts?.[0];
tally.check("a pause is an interrupt", Boolean(interrupt), finished);
const note = finished.metadata?.wikala;
tally.check("the witness names run and authorities", note?.authorities?.includes(head.public), note);

const resume = (proof) => [{ interruptId: interrupt.id, status: "resolved", payload: "left", ...(proof && { metadata: { resolution: proof } }) }];
await tally.refused("an unsigned resume is refused", "act-required", () => run(asker, { resume: resume(), forwardedProps: bag() }));
await tally.refused("a stranger's resume is refused", "not-an-authority", () =>
  run(asker, { resume: resume(stranger.resolve(note.runId)), forwardedProps: bag() }));
events = await run(asker, { resume: resume(head.resolve(note.runId)), forwardedProps: bag() });
tally.check("the head's resume goes on to the end", kinds(events).at(-1) === "RUN_FINISHED" && !events.at(-1).outcome?.interrupts, kinds(events));
tally.check("and the answer reached the agent", asker.messages.some((m) => m.role === "assistant" && m.content.includes("left")), asker.messages);

if (!process.argv.includes("--no-tools")) {
  const caller = agent("tool where");
  events = await run(caller, { forwardedProps: bag() });
  const call = events.find((event) => event.type === "TOOL_CALL_START");
  const waiting = events.at(-1).metadata?.wikala?.runId;
  tally.check("a tool call is left to the caller", Boolean(call) && Boolean(waiting), kinds(events));
  caller.messages.push({ id: randomUUID(), role: "tool", toolCallId: call.toolCallId, content: "here" });
  await tally.refused("an unsigned tool result is refused", "act-required", () => run(caller, { forwardedProps: bag() }));
  events = await run(caller, { forwardedProps: { ...bag(), resolution: head.resolve(waiting) } });
  tally.check("the head's tool result goes on to the end", kinds(events).at(-1) === "RUN_FINISHED", kinds(events));
}

events = await run(agent("fail"), {});
tally.check("a failure is a RUN_ERROR", kinds(events).at(-1) === "RUN_ERROR", kinds(events));
tally.close();
