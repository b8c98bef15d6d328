"""An A2A agent on the official SDK, to stand behind the witness.

    a2a_agent.py [--rest] [--old] [--no-streaming] [--require URI]

Listens on a free port of loopback and prints its address. What it does is decided by the
first word of the text, or by the prefix of the message id (the words of the conformance
kit): echo T, stream N, ask, data, message, fail, reject, slow S, auth, meta.
"""

import asyncio
import socket
import sys

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import (
    AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill, Message, Part, Role, TaskState,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Value
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

KIT = {
    "tck-complete-task": "say Hello from TCK", "tck-artifact-text": "art text", "tck-artifact-file-url": "art url",
    "tck-artifact-file": "art file", "tck-artifact-data": "art data", "tck-message-response": "message Direct message response",
    "tck-input-required": "ask", "tck-reject-task": "reject", "tck-stream-001": "work Stream hello from TCK",
    "tck-stream-002": "done", "tck-stream-003": "work Stream task lifecycle", "tck-stream-ordering-001": "work Ordered output",
    "tck-stream-artifact-text": "work Streamed text content", "tck-stream-artifact-file": "workfile",
    "tck-stream-artifact-chunked": "chunks", "test-resubscribe-message-id": "slow 4",
}
seen = []  # what arrived, for a test to look at


def text(words):
    return [Part(text=words)]


def data(value):
    return Part(data=ParseDict(value, Value()))


class Agent(AgentExecutor):
    async def execute(self, context, queue):
        message = context.message
        prefix = max((p for p in KIT if message.message_id.startswith(p)), key=len, default=None)
        words = KIT[prefix] if prefix else context.get_user_input() or "done"
        answers = context.current_task is not None
        word, _, rest = words.partition(" ")
        if word == "message":
            reply = Message(message_id="m-" + message.message_id, role=Role.ROLE_AGENT, parts=text(rest), context_id=context.context_id)
            return await queue.enqueue_event(reply)
        if not answers:
            task = new_task_from_user_message(message)
            task.id, task.context_id = context.task_id, context.context_id
            await queue.enqueue_event(task)
        run = TaskUpdater(queue, context.task_id, context.context_id)
        says = lambda words: run.new_agent_message(text(words))
        if answers and not (prefix and word == "ask"):
            await run.start_work()
            await run.add_artifact(text("answered: " + words), artifact_id="answer", last_chunk=True)
            return await run.complete(says("thank you"))
        match word:
            case "ask":
                return await run.requires_input(says(rest or "which?"))
            case "auth":
                return await run.requires_auth(says("let me in?"))
            case "fail":
                return await run.failed(says(rest or "broke"))
            case "reject":
                return await run.reject(says("rejected"))
            case "slow":
                await run.start_work()
                await asyncio.sleep(float(rest))
            case "stream":
                await run.start_work(says("at it"))
                for n in range(int(rest)):
                    await run.add_artifact(text(f"{n} "), artifact_id="count", append=n > 0, last_chunk=n + 1 == int(rest))
            case "art" | "workfile" | "work" | "data":
                if word.startswith("work"):
                    await run.start_work()
                kind = {"workfile": "file", "data": "data", "work": "text"}.get(word, rest)
                part = {
                    "text": Part(text="Generated text content" if word == "art" else rest),
                    "file": Part(raw=b"output", filename="output.txt", media_type="text/plain"),
                    "url": Part(url="https://example.com/output.txt", filename="output.txt", media_type="text/plain"),
                    "data": data({"key": "value", "count": 42}),
                }[kind]
                await run.add_artifact([part], name="output", last_chunk=True, metadata={"level": "artifact"})
            case "chunks":
                await run.start_work()
                await run.add_artifact(text("chunk-1 "), artifact_id="c", append=False)
                await run.add_artifact(text("chunk-2"), artifact_id="c", append=True, last_chunk=True)
            case "echo":
                await run.add_artifact(text(rest), artifact_id="echo", last_chunk=True)
            case "meta":
                await run.update_status(TaskState.TASK_STATE_WORKING, says("m"), metadata={"progress": 0.5, "x": [1, "2"]})
                await run.add_artifact([data(MessageToDict(context.call_context.state.get("none", Value())) or {})], artifact_id="m")
            case "say":
                return await run.complete(says(rest))
        await run.complete()

    async def cancel(self, context, queue):
        await TaskUpdater(queue, context.task_id, context.context_id).cancel()


class Seen:
    """Keeps every request's headers and body, as they arrived."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["path"] == "/seen":
            return await self.app(scope, receive, send)
        entry = {"path": scope["path"], "headers": {k.decode(): v.decode() for k, v in scope["headers"]}, "body": ""}
        seen.append(entry)

        async def reading():
            part = await receive()
            entry["body"] += part.get("body", b"").decode()
            return part

        await self.app(scope, reading, send)


def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = sys.argv[1:]
    required = [flags[n + 1] for n, flag in enumerate(flags) if flag == "--require"]
    url = f"http://127.0.0.1:{port}"
    kinds = ["HTTP+JSON"] if "--rest" in flags else ["JSONRPC"]
    card = AgentCard(
        name="sdk agent", description="An agent on the official SDK", version="1.2.3",
        supported_interfaces=[AgentInterface(url=url, protocol_binding=kind, protocol_version="1.0") for kind in kinds],
        capabilities=AgentCapabilities(
            streaming="--no-streaming" not in flags,
            extensions=[AgentExtension(uri=uri, required=True) for uri in required],
        ),
        default_input_modes=["text/plain"], default_output_modes=["text/plain"],
        skills=[AgentSkill(id="s", name="s", description="does things", tags=["t"])],
    )
    old = "--old" in flags
    handler = DefaultRequestHandler(agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = [Route("/seen", lambda request: JSONResponse(seen))]
    if old:
        describe = {
            "name": "old agent", "description": "speaks 0.3", "version": "1", "url": url, "protocolVersion": "0.3.0",
            "preferredTransport": "JSONRPC", "capabilities": {"streaming": "--no-streaming" not in flags},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"], "skills": [],
        }
        routes += [Route("/.well-known/agent-card.json", lambda request: JSONResponse(describe))]
    else:
        routes += create_agent_card_routes(card)
    routes += create_jsonrpc_routes(handler, "/", enable_v0_3_compat=old)
    routes += create_rest_routes(handler)
    print(url, flush=True)
    uvicorn.run(Seen(Starlette(routes=routes)), host="127.0.0.1", port=port, log_level="error")


main()
