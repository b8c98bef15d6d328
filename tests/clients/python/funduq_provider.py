"""A provider on the reference's own SDK (identity, shapes, runtime); only the carrier
is ours: python funduq_provider.py WITNESS_URL SEED_HEX NAME"""

import asyncio
import json
import sys

import httpx
import websockets
from ag_ui.core import (
    EventType,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from funduq_contract import DeliveredRun, Refusal, funduq_connect_payload, verify_signature
from funduq_provider_sdk import (
    AgentHandle,
    FunduqLink,
    HandleProvider,
    ProviderIdentity,
    ProviderRuntime,
    new_nonce,
    verify_chain,
)

URL, SEED, NAME = sys.argv[1:4]


async def agent(run_input):
    """Says what it was told, and whose chain it came with, as its own verifier reads it."""
    yield RunStartedEvent(type=EventType.RUN_STARTED, thread_id=run_input.thread_id, run_id=run_input.run_id)
    props = run_input.forwarded_props or {}
    said = run_input.messages[-1].content if run_input.messages else ""
    if chain := props.get("actorChain"):
        verified = verify_chain(chain)
        said += f" | head {verified.head} hops {len(verified.hops)} to {verified.hops[-1].dispatched_to.name}"
    if resume := getattr(run_input, "resume", None):
        said = f"you said: {resume[0].payload}"
    elif said.startswith("ask"):
        # An interrupt as a plain mapping: the SDK passes events through.
        yield {
            "type": "RUN_FINISHED", "threadId": run_input.thread_id, "runId": run_input.run_id,
            "outcome": {"type": "interrupt", "interrupts": [{"id": "q-" + run_input.run_id, "reason": "input_required"}]},
        }
        return
    message = "m-" + run_input.run_id
    yield TextMessageStartEvent(type=EventType.TEXT_MESSAGE_START, message_id=message, role="assistant")
    yield TextMessageContentEvent(type=EventType.TEXT_MESSAGE_CONTENT, message_id=message, delta=said)
    yield TextMessageEndEvent(type=EventType.TEXT_MESSAGE_END, message_id=message)
    yield RunFinishedEvent(type=EventType.RUN_FINISHED, thread_id=run_input.thread_id, run_id=run_input.run_id)


class WebSocketLink(FunduqLink):
    """The carrier: the reference's frames over the witness's WebSocket."""

    def __init__(self, identity, runtime, socket):
        self.identity, self.runtime, self.socket = identity, runtime, socket

    public_key = property(lambda self: self.identity.public_key)
    max_concurrent_runs = property(lambda self: self.runtime.max_concurrent_runs)

    async def send(self, frame):
        await self.socket.send(json.dumps(frame))

    async def deliver(self, run):
        return await self.runtime.deliver(run)

    async def cancel(self, run_id):
        self.runtime.cancel(run_id)
        return True

    async def report_event(self, run_id, event):
        if not isinstance(event, dict):
            event = event.model_dump(by_alias=True, exclude_none=True, mode="json")
        await self.send({"type": "event", "runId": run_id, "event": event})

    async def finish_run(self, run_id):
        await self.send({"type": "finish", "runId": run_id})

    async def thread_messages(self, thread_id, *, limit=None):
        raise NotImplementedError


async def main():
    identity = ProviderIdentity(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SEED)))
    handle = AgentHandle(name=NAME, run_stream=agent, description="on the reference's SDK")
    runtime = ProviderRuntime(identity, HandleProvider([handle]))
    async with httpx.AsyncClient() as http:
        issued = (await http.post(f"{URL}/tickets", json={"publicKey": identity.public_key})).json()
    witness, ticket, nonce = issued["funduqPublicKey"], issued["ticket"], new_nonce()
    async with websockets.connect(URL.replace("http", "ws", 1) + "/ws/provider") as socket:
        link = WebSocketLink(identity, runtime, socket)
        await link.send({
            "type": "hello", "version": 4, "publicKey": identity.public_key, "ticket": ticket, "nonce": nonce,
            "maxConcurrentRuns": runtime.max_concurrent_runs, "proof": identity.sign_connect(witness, ticket, nonce),
        })
        welcome = json.loads(await socket.recv())
        assert verify_signature(witness, welcome["answer"], funduq_connect_payload(ticket, nonce)), "another witness"
        runtime.link = link
        runtime.start()
        await link.send({"type": "register", "agents": [handle.as_registration().model_dump(by_alias=True)]})
        async for text in socket:
            frame = json.loads(text)
            if frame["type"] == "registered":
                print("attached", flush=True)
            elif frame["type"] == "run":
                # The delivered frame, unchanged, through the reference's own closed shape.
                frame.pop("type")
                run = DeliveredRun.model_validate(frame)
                verdict = await link.deliver(run)
                ack = {"type": "ack", "runId": run.run_id, "accepted": verdict is True}
                if isinstance(verdict, Refusal):
                    ack["reason"] = verdict.reason
                await link.send(ack)
            elif frame["type"] == "cancel":
                await link.cancel(frame["runId"])
            elif frame["type"] == "error":
                print("error", frame, file=sys.stderr, flush=True)


asyncio.run(main())
