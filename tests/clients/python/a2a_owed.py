"""The PyPI a2a-sdk as a caller that is owed an answer: python a2a_owed.py WITNESS_URL PROVIDER_KEY NAME

Creates obligations by message metadata, reads them on the task, and sees one closed by a typed
response and one stay open. Canonical JSON is written here, not by the witness.
"""

import asyncio
import hashlib
import json
import sys
import time
import uuid

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import GetTaskRequest, Message, Part, Role, SendMessageRequest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct

from heads import Head, Tally

URL, PROVIDER, NAME = sys.argv[1:4]
EXTENSION = "urn:wikala:obligation:1"
SPEC = {
    "response_required": True,
    "response_schema_id": "stock.v1",
    "response_schema": {
        "type": "object",
        "properties": {"quantity": {"type": "integer", "minimum": 0}},
        "required": ["quantity"],
    },
}
head, tally = Head(b"\x55" * 32), Tally()


def canonical(value) -> bytes:
    """RFC 8785 for what is used here: ASCII texts and small integers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def demand(thread: str, message_id: str, text: str) -> dict:
    payload = {
        "v": 1, "thread": thread, "kind": "post", "messageId": message_id, "role": "ROLE_USER",
        "parts": [{"text": text}], "obligation": SPEC,
    }
    digest, at = hashlib.sha256(canonical(payload)).hexdigest(), int(time.time())
    signature = head.sign(f"wikala-obligation-create:{thread}:{digest}:{at}")
    return {"v": 1, "obligation": SPEC, "act": {"publicKey": head.public, "timestamp": at, "signature": signature}}


async def main():
    async with httpx.AsyncClient(timeout=30, headers={"A2A-Extensions": EXTENSION}) as http:
        card = await A2ACardResolver(http, f"{URL}/a2a/{PROVIDER}/{NAME}").get_agent_card()
        uris = [extension.uri for extension in card.capabilities.extensions]
        tally.check("the card offers obligations", EXTENSION in uris, uris)
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)

        async def ask(text: str, thread: str, message_id: str):
            message = Message(
                message_id=message_id, context_id=thread, role=Role.ROLE_USER, parts=[Part(text=text)],
                metadata=ParseDict({EXTENSION: demand(thread, message_id, text)}, Struct()),
            )
            bag = ParseDict({"actorChain": head.chain()}, Struct())
            task = None
            async for event in client.send_message(SendMessageRequest(message=message, metadata=bag)):
                task = getattr(event, event.WhichOneof("payload"))
            return task

        def note(task) -> dict:
            return MessageToDict(task).get("metadata", {}).get(EXTENSION, {})

        for word, result, state in [("owe", '{"quantity": 4}', "completed"), ("owebad", '{"quantity": "x"}', "in_progress")]:
            thread = (await http.post(f"{URL}/threads/{PROVIDER}/{NAME}")).json()["threadId"]
            message_id = str(uuid.uuid4())
            task = await ask(f"{word} {result}", thread, message_id)
            tally.check(f"{word}: the task names what is owed", note(task).get("obligation_id", "").startswith("ob_"), task)
            got = note(await client.get_task(GetTaskRequest(id=task.id)))
            tally.check(f"{word}: it is seen to be {state}", got.get("state") == state, got)
            again = note(await ask(f"{word} {result}", thread, message_id))
            tally.check(f"{word}: sent again it is the same", again.get("obligation_id") == got.get("obligation_id"), again)
            said = "".join(part.text for artifact in task.artifacts for part in artifact.parts)
            wanted = "completed" if word == "owe" else "response-schema-violation"
            tally.check(f"{word}: the agent says so", wanted in said, said)
    tally.close()


asyncio.run(main())
