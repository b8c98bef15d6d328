"""The PyPI a2a-sdk as a caller: python a2a_client.py WITNESS_URL PROVIDER_KEY NAME [--rest] [--plain]"""

import asyncio
import sys
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct

from heads import Head, Tally

URL, PROVIDER, NAME = sys.argv[1:4]
tally = Tally()
head, stranger = Head(b"\x11" * 32), Head(b"\x22" * 32)


def metadata(values: dict) -> Struct:
    return ParseDict(values, Struct())


def request(text: str, bag: dict | None = None, **ids) -> SendMessageRequest:
    message = Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], **ids)
    return SendMessageRequest(message=message, metadata=metadata(bag or {}))


async def last_task(events):
    """The newest task of a send: the SDK yields stream responses."""
    task_id = context = state = None
    texts = []
    async for event in events:
        kind = event.WhichOneof("payload")
        body = getattr(event, kind)
        if kind == "task":
            task_id, context, state = body.id, body.context_id, body.status.state
            texts += [part.text for artifact in body.artifacts for part in artifact.parts]
        elif kind == "status_update":
            task_id, context, state = body.task_id, body.context_id, body.status.state
        elif kind == "artifact_update":
            texts += [part.text for part in body.artifact.parts]
    return task_id, context, state, "".join(texts)


async def refused(call, reason: str) -> tuple[bool, str]:
    try:
        result = await call
        return False, repr(result)
    except Exception as error:  # the SDK raises its own kinds, the reason travels in them
        text = repr(error) + " " + repr(getattr(error, "data", ""))
        return reason in text.lower().replace("-", "_"), text


async def main():
    async with httpx.AsyncClient(timeout=30) as http:
        witness = (await http.get(f"{URL}/.well-known/wikala.json")).json()["publicKey"]
        card = await A2ACardResolver(http, f"{URL}/a2a/{PROVIDER}/{NAME}").get_agent_card()
        tally.check("the card resolves", card.supported_interfaces[0].protocol_binding == "JSONRPC", card)
        speaks = ["HTTP+JSON" if "--rest" in sys.argv else "JSONRPC"]
        config = lambda streaming: ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=speaks)  # noqa: E731
        streaming = ClientFactory(config(True)).create(card)
        blocking = ClientFactory(config(False)).create(card)
        bag = lambda who=head: who.bag(witness, PROVIDER, NAME)  # noqa: E731

        _, _, state, text = await last_task(blocking.send_message(request("echo hello")))
        tally.check("send: an unsigned caller is served", state == TaskState.TASK_STATE_COMPLETED, state)
        tally.check("send: the echo comes back", "hello" in text, text)

        _, _, state, text = await last_task(streaming.send_message(request("stream 3", bag())))
        tally.check("stream: a chained caller is served", state == TaskState.TASK_STATE_COMPLETED, state)

        if "--plain" in sys.argv:  # an agent that has no questions of this kind
            return tally.close()
        task, context, state, _ = await last_task(streaming.send_message(request("ask which way", bag())))
        tally.check("a pause is INPUT_REQUIRED", state == TaskState.TASK_STATE_INPUT_REQUIRED, state)

        got = await blocking.get_task(GetTaskRequest(id=task))
        tally.check("get: the task waits", got.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, got)
        note = MessageToDict(got).get("metadata", {}).get("urn:wikala:witness:1", {})
        tally.check("get: the witness names the authorities", head.public in note.get("authorities", []), note)

        listed = await blocking.list_tasks(ListTasksRequest(context_id=context))
        tally.check("list: a known context lists its task", [t.id for t in listed.tasks] == [task], listed)
        unlisted = await blocking.list_tasks(ListTasksRequest())
        tally.check("list: nothing is enumerated to nobody", len(unlisted.tasks) == 0, unlisted)

        answer = lambda proofs: last_task(blocking.send_message(request("left", proofs, task_id=task, context_id=context)))  # noqa: E731
        held, seen = await refused(answer({}), "act_required")
        tally.check("an unsigned answer is refused", held, seen)
        held, seen = await refused(answer({"resolution": stranger.resolve(task)}), "not_an_authority")
        tally.check("a stranger's answer is refused", held, seen)
        got = await blocking.get_task(GetTaskRequest(id=task))
        tally.check("and the task still waits", got.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, got)

        proof = head.resolve(task)
        _, _, state, text = await last_task(blocking.send_message(request("left", {"resolution": proof}, task_id=task, context_id=context)))
        tally.check("the head's answer counts", state == TaskState.TASK_STATE_COMPLETED, state)
        tally.check("and reaches the agent", "left" in text, text)
        held, seen = await refused(
            last_task(blocking.send_message(request("right", {"resolution": proof}, task_id=task, context_id=context))),
            "already_answered",
        )
        tally.check("the same proof with another answer is refused", held, seen)

        slow = request("slow 30", bag())
        slow.configuration.return_immediately = True
        task, context, state, _ = await last_task(blocking.send_message(slow))
        tally.check("returnImmediately returns at once", state in (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING), state)
        held, seen = await refused(blocking.cancel_task(CancelTaskRequest(id=task)), "act_required")
        tally.check("an unsigned cancel is refused", held, seen)
        held, seen = await refused(
            blocking.cancel_task(CancelTaskRequest(id=task, metadata=metadata({"cancel": stranger.cancel(task)}))), "not_an_authority"
        )
        tally.check("a stranger's cancel is refused", held, seen)
        events = streaming.subscribe(SubscribeToTaskRequest(id=task))
        first = await anext(events)
        tally.check("subscribe begins with the task", first.WhichOneof("payload") == "task", first)
        await blocking.cancel_task(CancelTaskRequest(id=task, metadata=metadata({"cancel": head.cancel(task)})))
        _, _, state, _ = await last_task(events)
        tally.check("the head's cancel ends it, and the subscriber sees that", state == TaskState.TASK_STATE_CANCELED, state)
    tally.close()


asyncio.run(main())
