"""An AG-UI agent on a published framework (pydantic-ai) with a scripted model, to stand
behind the witness.

    agui_agent.py [--crlf] [--cut]

Listens on a free port of loopback and prints its address. The model's first word: echo T,
stream N, tool (a tool that runs), approve (a tool that wants a human's approval first).
--crlf frames its events as some servers do; --cut ends each stream before its last event.
"""

import json
import socket
import sys

import uvicorn
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

seen = []


def newest(messages):
    asked, results = "", []
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    asked, results = str(part.content if isinstance(part.content, str) else part.content[0]), []
                if isinstance(part, ToolReturnPart):
                    results.append(str(part.content))
    return asked, results


async def script(messages, info):
    asked, results = newest(messages)
    word, _, rest = asked.partition(" ")
    if results:
        yield "done: " + ", ".join(results)
    elif word == "tool":
        yield {0: DeltaToolCall(name="look", json_args=json.dumps({"at": rest or "it"}), tool_call_id="call-1")}
    elif word == "approve":
        yield {0: DeltaToolCall(name="risk", json_args="{}", tool_call_id="call-2")}
    elif word == "stream":
        for n in range(int(rest)):
            yield f"{n} "
    else:
        yield rest or "hello"


agent = Agent(FunctionModel(stream_function=script), output_type=[str, DeferredToolRequests])


@agent.tool_plain
def look(at: str) -> str:
    return "seen " + at


@agent.tool_plain(requires_approval=True)
def risk() -> str:
    return "risked"


async def run(request):
    body = await request.body()
    seen.append({"headers": dict(request.headers), "body": body.decode()})
    answer = await AGUIAdapter.dispatch_request(request, agent=agent)
    if not isinstance(answer, StreamingResponse):
        return answer
    crlf, cut = "--crlf" in sys.argv, "--cut" in sys.argv

    async def framed():
        async for piece in answer.body_iterator:
            text = piece if isinstance(piece, str) else piece.decode()
            if cut and "RUN_FINISHED" in text:
                return
            yield text.replace("\n", "\r\n") if crlf else text

    return StreamingResponse(framed(), media_type="text/event-stream")


def main():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    print(f"http://127.0.0.1:{port}/agent", flush=True)
    routes = [Route("/agent", run, methods=["POST"]), Route("/seen", lambda request: JSONResponse(seen))]
    routes += [
        # The traps of public servers: another origin, no stream, an empty success.
        Route("/elsewhere", lambda request: Response(status_code=307, headers={"location": "http://localhost:1/"}), methods=["POST"]),
        Route("/here", lambda request: Response(status_code=307, headers={"location": "/agent"}), methods=["POST"]),
        Route("/json", lambda request: JSONResponse({"ok": True}), methods=["POST"]),
        Route("/no", lambda request: JSONResponse({"error": "no"}, status_code=401), methods=["POST"]),
        Route("/empty", lambda request: Response("", media_type="text/event-stream"), methods=["POST"]),
    ]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="error")


main()
