// The npm @a2a-js/sdk as a caller: node a2a.mjs WITNESS_URL PROVIDER_KEY NAME [--rest] [--plain]
import { randomUUID } from "node:crypto";
import { ClientFactory, ClientFactoryOptions } from "@a2a-js/sdk/client";
import { Role, TaskState } from "@a2a-js/sdk";
import { Head, Tally } from "./heads.mjs";

const [url, provider, name] = process.argv.slice(2);
const tally = new Tally();
const [head, stranger] = [new Head(Buffer.alloc(32, 0x33)), new Head(Buffer.alloc(32, 0x44))];
const witness = (await (await fetch(`${url}/.well-known/wikala.json`)).json()).publicKey;
const options = process.argv.includes("--rest")
  ? ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: ["HTTP+JSON"] })
  : ClientFactoryOptions.default;
const client = await new ClientFactory(options).createFromUrl(`${url}/a2a/${provider}/${name}`, ".well-known/agent-card.json").catch(
  () => new ClientFactory(options).createFromUrl(`${url}/a2a/${provider}/${name}/`),
);
const say = (text, metadata = {}, ids = {}, configuration) => ({
  tenant: "",
  message: {
    messageId: randomUUID(),
    role: Role.ROLE_USER,
    parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }],
    contextId: "", taskId: "", metadata: undefined, extensions: [], referenceTaskIds: [],
    ...ids,
  },
  configuration,
  metadata,
});
const bag = () => head.bag(witness, provider, name);
const taskOf = (result) => result?.payload?.value ?? result?.task ?? result;
const dump = (value) => JSON.stringify(value);

const echoed = taskOf(await client.sendMessage(say("echo hello")));
tally.check("send: an unsigned caller is served", echoed.status?.state === TaskState.TASK_STATE_COMPLETED, echoed);
tally.check("send: the echo comes back", dump(echoed.artifacts).includes("hello"), echoed.artifacts);
if (process.argv.includes("--plain")) tally.close(); // an agent that has no questions of this kind

let waiting;
for await (const event of client.sendMessageStream(say("ask which way", bag()))) {
  const body = event.payload?.value ?? event;
  waiting = { id: body.id ?? body.taskId ?? waiting?.id, contextId: body.contextId ?? waiting?.contextId, state: body.status?.state ?? waiting?.state };
}
tally.check("stream: a pause is INPUT_REQUIRED", waiting?.state === TaskState.TASK_STATE_INPUT_REQUIRED, waiting);
const got = await client.getTask({ tenant: "", id: waiting.id });
tally.check("get: the task waits", got.status?.state === TaskState.TASK_STATE_INPUT_REQUIRED, got);
const listed = await client.listTasks({ tenant: "", contextId: waiting.contextId, status: 0, pageToken: "", statusTimestampAfter: undefined });
tally.check("list: a known context lists its task", listed.tasks?.[0]?.id === waiting.id, listed);

const ids = { taskId: waiting.id, contextId: waiting.contextId };
await tally.refused("an unsigned answer is refused", "act_required", () => client.sendMessage(say("left", {}, ids)));
await tally.refused("a stranger's answer is refused", "not_an_authority", () =>
  client.sendMessage(say("left", { resolution: stranger.resolve(waiting.id) }, ids)));
const answered = taskOf(await client.sendMessage(say("left", { resolution: head.resolve(waiting.id) }, ids)));
tally.check("the head's answer counts", answered.status?.state === TaskState.TASK_STATE_COMPLETED, answered);
tally.check("and reaches the agent", dump(answered.artifacts).includes("left"), answered.artifacts);

const slow = taskOf(await client.sendMessage(say("slow 30", bag(), {}, {
  acceptedOutputModes: [], taskPushNotificationConfig: undefined, historyLength: undefined, returnImmediately: true,
})));
// Over HTTP+JSON this SDK sends a cancel without its metadata: the proof goes by our own route.
const stop = async (who) => {
  if (!process.argv.includes("--rest")) return client.cancelTask({ tenant: "", id: slow.id, metadata: { cancel: who.cancel(slow.id) } });
  const body = JSON.stringify({ cancel: who.cancel(slow.id) });
  const answer = await fetch(`${url}/v1/runs/${slow.id}/cancel`, { method: "POST", headers: { "content-type": "application/json" }, body });
  if (!answer.ok) throw Object.assign(new Error(await answer.text()), { statusCode: answer.status });
};
await tally.refused("a stranger's cancel is refused", "not_an_authority", () => stop(stranger));
await stop(head);
let last;
for (let tries = 0; tries < 100 && last !== TaskState.TASK_STATE_CANCELED; tries += 1) {
  last = (await client.getTask({ tenant: "", id: slow.id })).status?.state;
  await new Promise((done) => setTimeout(done, 50));
}
tally.check("the head's cancel ends it", last === TaskState.TASK_STATE_CANCELED, last);
tally.close();
