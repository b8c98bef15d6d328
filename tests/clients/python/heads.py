"""A head's side of the wire, on `cryptography` alone: hops and proofs (WIRE.md)."""

import base64
import hashlib
import json
import os
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Head:
    """A key that heads chains, presents them, answers and stops."""

    def __init__(self, seed: bytes):
        self.key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = self.key.public_key().public_bytes_raw().hex()

    def sign(self, text: str) -> str:
        return self.key.sign(text.encode()).hex()

    def hop(self, previous: str | None = None) -> str:
        prev = hashlib.sha256(previous.encode()).hexdigest() if previous else None
        claims = json.dumps({"actorPublicKey": self.public, "prevHash": prev}, separators=(",", ":"))
        signed = b64url(b'{"alg":"EdDSA","typ":"JWT"}') + "." + b64url(claims.encode())
        return signed + "." + b64url(self.key.sign(signed.encode()))

    def chain(self) -> list[str]:
        return [self.hop()]

    def proof(self, tag: str, run: str, at: int | None = None) -> dict:
        at = int(time.time()) if at is None else at
        return {"publicKey": self.public, "timestamp": at, "signature": self.sign(f"{tag}:{run}:{at}")}

    def resolve(self, run: str, at: int | None = None) -> dict:
        return self.proof("funduq-resolve", run, at)

    def cancel(self, run: str, at: int | None = None) -> dict:
        return self.proof("funduq-cancel", run, at)

    def present(self, witness: str, provider: str, name: str, chain: list[str]) -> dict:
        at, nonce = int(time.time()), os.urandom(16).hex()
        tip = hashlib.sha256(chain[-1].encode()).hexdigest() if chain else "0" * 64
        text = f"wikala-present:{witness}:{provider}:{name}:{tip}:{nonce}:{at}"
        return {"publicKey": self.public, "timestamp": at, "nonce": nonce, "signature": self.sign(text)}

    def bag(self, witness: str, provider: str, name: str) -> dict:
        chain = self.chain()
        return {"actorChain": chain, "presenter": self.present(witness, provider, name, chain)}


class Tally:
    """Counts what held; prints the closing line."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what: str, held: bool, seen=None):
        if held:
            self.passed += 1
            print(f"ok   {what}")
        else:
            self.failed += 1
            print(f"FAIL {what}: {seen!r}")

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed")
        raise SystemExit(1 if self.failed or not self.passed else 0)
