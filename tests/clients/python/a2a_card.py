"""The PyPI a2a-sdk's own verifier over an agent card of the witness: python a2a_card.py AGENT_URL WITNESS_KEY

Ends with 0 only if the card's signature holds, its key is the witness's, and a card with one
address changed does not verify.
"""

import asyncio
import sys

import httpx
from a2a.client import A2ACardResolver
from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

URL, KEY = sys.argv[1:3]


def key(kid: str | None, _jku: str | None) -> Ed25519PublicKey:
    assert kid == KEY, kid
    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(kid))


async def main() -> None:
    verify = create_signature_verifier(key, ["EdDSA"])
    async with httpx.AsyncClient(timeout=30) as http:
        card = await A2ACardResolver(http, URL).get_agent_card(signature_verifier=verify)
        card.supported_interfaces[0].url = "http://elsewhere/"
        try:
            verify(card)
        except InvalidSignaturesError:
            return
        sys.exit("a changed card verified")


asyncio.run(main())
