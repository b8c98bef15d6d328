// An A2A agent on the official JavaScript SDK, to stand behind the witness:
//   node a2a_agent.mjs [--rest]
// Listens on a free port of loopback and prints its address. The first word of the text:
// echo T, stream N, ask, slow S, message T, fail.
import express from 'express';
import { Role, TaskState } from '@a2a-js/sdk';
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';

const rest = process.argv.includes('--rest');
const text = (words) => ({ content: { $case: 'text', value: words }, metadata: undefined, filename: '', mediaType: '' });
const stopped = new Set();

class Agent {
  async execute(context, bus) {
    const { taskId, contextId, userMessage, task } = context;
    const ids = { taskId, contextId };
    const words = userMessage.parts.map((part) => (part.content?.$case === 'text' ? part.content.value : '')).join('\n');
    const [word, ...more] = words.split(' ');
    const said = (words) => ({ messageId: crypto.randomUUID(), role: Role.ROLE_AGENT, parts: [text(words)], contextId, taskId, extensions: [], referenceTaskIds: [], metadata: undefined });
    if (word === 'message' && !task) {
      bus.publish(AgentEvent.message({ ...said(more.join(' ')), taskId: '' }));
      return bus.finished();
    }
    const now = () => new Date().toISOString();
    const status = (state, message) => bus.publish(AgentEvent.statusUpdate({ ...ids, status: { state, message, timestamp: now() }, metadata: undefined }));
    const artifact = (id, words, append, lastChunk) => bus.publish(AgentEvent.artifactUpdate({ ...ids, artifact: { artifactId: id, name: '', description: '', parts: [text(words)], metadata: undefined, extensions: [] }, append, lastChunk, metadata: undefined }));
    bus.publish(AgentEvent.task(task ?? { id: taskId, contextId, status: { state: TaskState.TASK_STATE_SUBMITTED, message: undefined, timestamp: now() }, history: [userMessage], artifacts: [], metadata: userMessage.metadata }));
    if (task) {
      status(TaskState.TASK_STATE_WORKING);
      artifact('answer', `answered: ${words}`, false, true);
      status(TaskState.TASK_STATE_COMPLETED, said('thank you'));
      return bus.finished();
    }
    status(TaskState.TASK_STATE_WORKING);
    if (word === 'ask') {
      status(TaskState.TASK_STATE_INPUT_REQUIRED, said(more.join(' ') || 'which?'));
      return bus.finished();
    }
    if (word === 'fail') {
      status(TaskState.TASK_STATE_FAILED, said('broke'));
      return bus.finished();
    }
    if (word === 'slow') {
      for (let tenths = Number(more[0]) * 10; tenths > 0; tenths -= 1) {
        if (stopped.delete(taskId)) {
          status(TaskState.TASK_STATE_CANCELED);
          return bus.finished();
        }
        await new Promise((done) => setTimeout(done, 100));
      }
    }
    if (word === 'stream') {
      for (let n = 0; n < Number(more[0]); n += 1) artifact('count', `${n} `, n > 0, n + 1 === Number(more[0]));
    }
    if (word === 'echo') artifact('echo', more.join(' '), false, true);
    status(TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  }

  async cancelTask(taskId) {
    stopped.add(taskId);
  }
}

const app = express();
const server = app.listen(0, '127.0.0.1', () => {
  const url = `http://127.0.0.1:${server.address().port}`;
  const card = {
    name: 'js agent', description: 'An agent on the JavaScript SDK', version: '1.0.0',
    supportedInterfaces: [{ url, protocolBinding: rest ? 'HTTP+JSON' : 'JSONRPC', protocolVersion: '1.0', tenant: '' }],
    capabilities: { streaming: true, pushNotifications: false, extensions: [], extendedAgentCard: false },
    defaultInputModes: ['text/plain'], defaultOutputModes: ['text/plain'],
    skills: [{ id: 's', name: 's', description: 'does things', tags: ['t'], examples: [], inputModes: [], outputModes: [], securityRequirements: [] }],
    securitySchemes: {}, securityRequirements: [], signatures: [], provider: undefined, documentationUrl: '', iconUrl: '',
  };
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Agent());
  const options = { requestHandler, userBuilder: UserBuilder.noAuthentication };
  app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
  app.use('/', rest ? restHandler(options) : jsonRpcHandler(options));
  console.log(url);
});
