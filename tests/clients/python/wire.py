"""The wire, written from vectors/WIRE.md and nothing else: encodings, keys, hops,
chains, signed strings, proofs, certificates. Section names in comments are that page's."""

import base64
import hashlib
import json
import re
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


class No(Exception):
    """A refusal: its code, and the hop if it is one's."""

    def __init__(self, code, hop=None):
        super().__init__(code)
        self.code, self.hop = code, hop


def sha256(data):
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def is_hex(text, digits):
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{%d}" % digits, text) is not None


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def unb64(text):
    """Canonical base64url, or None."""
    if not re.fullmatch(r"[A-Za-z0-9_-]*", text) or len(text) % 4 == 1:
        return None
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return data if b64(data) == text else None


# JSON ----------------------------------------------------------------------------------


class Number(str):
    """A number as it was written."""


class NotJson(Exception):
    pass


class Twice(Exception):
    pass


def has_surrogate(text):
    return any(0xD800 <= ord(c) <= 0xDFFF for c in text)


def read_json(text):
    """One strict value. Syntax and depth are told before a repeated key."""
    twice = []

    def members(pairs):
        names = [name for name, _ in pairs]
        if any(has_surrogate(name) for name in names):
            raise NotJson
        if len(set(names)) < len(names):
            twice.append(True)
        return dict(pairs)

    def refuse(_):
        raise NotJson

    try:
        value = json.loads(
            text, object_pairs_hook=members, parse_int=Number, parse_float=Number, parse_constant=refuse
        )
    except (ValueError, RecursionError):
        raise NotJson from None
    if depth(text) > 64:
        raise NotJson
    if twice:
        raise Twice
    return value


def depth(text):
    """How deep the brackets of a well-formed text nest, whatever stands in its strings."""
    deepest = level = 0
    for token in re.findall(r'"(?:[^"\\]|\\.)*"|[][{}]', text):
        level += (token in "[{") - (token in "]}")
        deepest = max(deepest, level)
    return deepest


def integer(raw):
    """N or N.0 of 0..2^53-1; None for anything else."""
    if not re.fullmatch(r"(0|[1-9][0-9]*)(\.0)?", raw):
        return None
    value = int(raw.removesuffix(".0"))
    return value if value < 2**53 else None


def number(value):
    return integer(value) if isinstance(value, Number) else None


def text_of(value):
    """A JSON string; None for anything else, a number and half a surrogate pair included."""
    return value if isinstance(value, str) and not isinstance(value, Number) and not has_surrogate(value) else None


def closed(raw, names, code):
    """The members of an object with no others than these."""
    try:
        value = read_json(raw)
    except (NotJson, Twice):
        raise No(code) from None
    if not isinstance(value, dict) or not set(value) <= set(names):
        raise No(code)
    return value


# Keys and signatures -------------------------------------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT = pow(2, (P - 1) // 4, P)


def decode_point(data):
    """An extended point from its canonical encoding, or None."""
    encoded = int.from_bytes(data, "little")
    y, sign = encoded & (2**255 - 1), encoded >> 255
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


def add(a, b):
    (x1, y1, z1, t1), (x2, y2, z2, t2) = a, b
    i, j = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    k, m = 2 * D * t1 * t2 % P, 2 * z1 * z2 % P
    e, f, g, h = j - i, m - k, m + k, j + i
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def times(n, point):
    result = (0, 1, 1, 0)
    while n:
        if n & 1:
            result = add(result, point)
        point, n = add(point, point), n >> 1
    return result


def is_identity(point):
    x, y, z, _ = point
    return x % P == 0 and (y - z) % P == 0


@lru_cache(maxsize=None)
def admit(text):
    """None if the key is admitted, else its code."""
    point = decode_point(bytes.fromhex(text)) if is_hex(text, 64) else None
    if point is None:
        return "hop-key"
    if is_identity(times(8, point)) or not is_identity(times(L, point)):
        return "hop-weak-key"
    return None


def is_key(value):
    return isinstance(value, str) and not isinstance(value, Number) and admit(value) is None


def fingerprint(key):
    return sha256(bytes.fromhex(key))[:16]


def holds(key, message, signature):
    """A strict verdict for an admitted key."""
    if len(signature) != 64 or int.from_bytes(signature[32:], "little") >= L:
        return False
    r = decode_point(signature[:32])
    if r is None or is_identity(times(8, r)):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def holds_hex(key, message, signature):
    return holds(key, message.encode(), bytes.fromhex(signature))


def private(seed):
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed))


def public(seed):
    return private(seed).public_key().public_bytes_raw().hex()


def sign(seed, message):
    return private(seed).sign(message.encode()).hex()


# Hops and chains -----------------------------------------------------------------------

REGISTERED = {"iss", "sub", "aud", "exp", "nbf", "iat", "jti"}


def is_name(value):
    name = text_of(value)
    control = lambda c: c < 0x20 or 0x7F <= c <= 0x9F
    return name is not None and 1 <= len(name) <= 128 and not any(control(ord(c)) for c in name)


def read_hop(token):
    """Every check of one hop that needs no other: (actor, prevHash, dispatchedTo)."""
    segments = token.split(".")
    if len(segments) != 3:
        raise No("hop-not-jws")
    decoded = [unb64(segment) for segment in segments]
    if None in decoded:
        raise No("hop-base64")
    header, claims, signature = decoded
    try:
        header = read_json(header.decode())
    except (NotJson, Twice, UnicodeDecodeError):
        raise No("hop-header") from None
    if header not in ({"alg": "EdDSA"}, {"alg": "EdDSA", "typ": "JWT"}):
        raise No("hop-header")
    try:
        claims = read_json(claims.decode())
    except (NotJson, UnicodeDecodeError):
        raise No("hop-json") from None
    except Twice:
        raise No("hop-duplicate-key") from None
    if not isinstance(claims, dict):
        raise No("hop-json")
    if REGISTERED & set(claims):
        raise No("hop-registered-claim")
    if not set(claims) <= {"actorPublicKey", "prevHash", "dispatchedTo"}:
        raise No("hop-claims")
    actor, target = text_of(claims.get("actorPublicKey")), None
    if actor is None or "prevHash" not in claims:
        raise No("hop-claims")
    prev = claims["prevHash"]
    if prev is not None and (text_of(prev) is None or not is_hex(prev, 64)):
        raise No("hop-claims")
    if "dispatchedTo" in claims:
        target = claims["dispatchedTo"]
        if not isinstance(target, dict) or set(target) != {"providerKey", "name"}:
            raise No("hop-claims")
        if not is_key(target["providerKey"]) or not is_name(target["name"]):
            raise No("hop-claims")
    if admit(actor):
        raise No(admit(actor))
    if not holds(actor, token[: token.rindex(".")].encode(), signature):
        raise No("hop-signature")
    return actor, prev, target


def read_chain(tokens):
    """The signers in order; None for null."""
    if tokens is None:
        return None
    if not isinstance(tokens, list):
        raise No("chain-not-a-list")
    if not tokens:
        raise No("chain-empty")
    if len(tokens) > 64:
        raise No("chain-too-long")
    for n, token in enumerate(tokens):
        if not isinstance(token, str):
            raise No("hop-not-a-string", n)
    for n, token in enumerate(tokens):
        if len(token.encode()) > 2048:
            raise No("hop-too-large", n)
    signers, before = [], None
    for n, token in enumerate(tokens):
        try:
            actor, prev, target = read_hop(token)
            if prev != (sha256(tokens[n - 1]) if n else None):
                raise No("hop-broken-link")
            if before and actor != before["providerKey"]:
                if actor != signers[-1]:
                    raise No("hop-wrong-successor")
                if target is None:
                    raise No("hop-witness-as-party")
        except No as no:
            raise No(no.code, n) from None
        signers.append(actor)
        before = target
    return signers


def write_hop(seed, before=None, to=None):
    claims = {"actorPublicKey": public(seed), "prevHash": before and sha256(before)}
    if to:
        claims["dispatchedTo"] = {"providerKey": to[0], "name": to[1]}
    compact = lambda value: b64(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
    signed = compact({"alg": "EdDSA", "typ": "JWT"}) + "." + compact(claims)
    return signed + "." + b64(bytes.fromhex(sign(seed, signed)))


# Signed strings ------------------------------------------------------------------------


def certificate_id(authority, delegate, expires_at):
    return sha256(f"wikala-certificate:{authority}:{delegate}:{expires_at}")


def asks_hash(asks):
    ids = sorted(ask.encode() for ask in asks)
    return sha256(b"".join(len(one).to_bytes(4, "big") + one for one in ids))


def present(witness, provider, name, tip, nonce, at):
    return f"wikala-present:{witness}:{provider}:{name}:{tip or '0' * 64}:{nonce}:{at}"


def answer(run, asks, text, at):
    return f"wikala-answer:{run}:{asks_hash(asks)}:{sha256(text)}:{at}"


# Proofs and certificates ---------------------------------------------------------------


def read_proof(raw):
    proof = closed(raw, ["publicKey", "timestamp", "signature", "nonce"], "proof-malformed")
    at = number(proof.get("timestamp"))
    shaped = is_key(proof.get("publicKey")) and at is not None and is_hex(text_of(proof.get("signature")), 128)
    if not shaped or ("nonce" in proof and not is_hex(text_of(proof["nonce"]), 32)):
        raise No("proof-malformed")
    return {"publicKey": proof["publicKey"], "timestamp": at, "signature": proof["signature"], "nonce": proof.get("nonce")}


def covers(proof, signed):
    return holds_hex(proof["publicKey"], signed, proof["signature"])


def read_certificate(raw):
    names = ["authorityPublicKey", "delegatePublicKey", "expiresAt", "signature", "acceptance"]
    read = closed(raw, names, "certificate-malformed")
    until = number(read.get("expiresAt"))
    signatures = [read.get("signature")] + ([read["acceptance"]] if "acceptance" in read else [])
    shaped = all(is_hex(text_of(one), 128) for one in signatures) and until is not None
    if not shaped or not is_key(read.get("authorityPublicKey")) or not is_key(read.get("delegatePublicKey")):
        raise No("certificate-malformed")
    authority, delegate = read["authorityPublicKey"], read["delegatePublicKey"]
    identity = certificate_id(authority, delegate, until)
    if not holds_hex(authority, f"funduq-delegate:{delegate}:{until}", read["signature"]):
        raise No("certificate-signature")
    if "acceptance" in read and not holds_hex(delegate, f"wikala-accept:{identity}", read["acceptance"]):
        raise No("certificate-signature")
    accepted = "acceptance" in read
    return {"authority": authority, "delegate": delegate, "expiresAt": until, "id": identity, "accepted": accepted}


def fresh(now, at):
    return abs(now - at) <= 60


# Obligations


def obligation_act(i, at):
    """The signed bytes of an act on an obligation."""
    act, revision = i["act"], i.get("revision")
    if act == "ack":
        return f"wikala-mailbox-ack:{i['event']}:{i['envelope']}:{at}"
    said = {
        "create": lambda: f"{i['thread']}:{i['request']}",
        "accept": lambda: f"{i['obligation']}:{revision}",
        "decline": lambda: f"{i['obligation']}:{revision}:{sha256(i['reason'])}",
        "progress": lambda: f"{i['obligation']}:{revision}:{i['to']}:{i['reason']}",
        "respond": lambda: f"{i['obligation']}:{i['event']}:{i['request']}:{i['response']}",
        "cancel": lambda: f"{i['obligation']}:{revision}:{i['reason']}",
    }
    return f"wikala-obligation-{act}:{said[act]()}:{at}"


def es_number(value):
    """A number as ECMAScript prints it (RFC 8785, 3.2.2.3)."""
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError("not finite")
    if value == int(value) and abs(value) > 2**53 - 1:
        raise ValueError("not exact")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    digits, exponent = f"{abs(value):.17e}".split("e")
    for precision in range(1, 18):
        short = f"{abs(value):.{precision - 1}e}"
        if float(short) == abs(value):
            digits, exponent = short.split("e")
            break
    digits, point = digits.replace(".", ""), int(exponent) + 1
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def canonical(value):
    """RFC 8785 of a value as json.loads gives it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return es_number(value)
    if isinstance(value, str):
        value.encode()  # half a surrogate pair is no text
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ",".join(canonical(one) for one in value) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in names) + "}"


OPEN = ["created", "recipient_committed", "acknowledged", "in_progress", "pending_human", "blocked"]
CLAIMS = {
    "created": ["recipient_committed"],
    "acknowledged": ["in_progress", "pending_human", "blocked"],
    "in_progress": ["pending_human", "blocked"],
    "pending_human": ["acknowledged", "in_progress"],
    "blocked": ["acknowledged", "in_progress"],
}


def next_state(state, event, to=None):
    if event == "transition" and to not in OPEN[1:]:
        raise No("state-not-assertable")
    if state not in OPEN:
        raise No("obligation-terminal")
    early, working = state in OPEN[:2], state in ("acknowledged", "in_progress")
    if event == "decline" and not early:
        raise No("decline-after-acceptance")
    follows = {
        "transition": to if to in CLAIMS.get(state, []) else None,
        "committed": "recipient_committed" if state == "created" else None,
        "accept": "acknowledged" if early else None,
        "decline": "declined",
        "paused": "pending_human" if working else None,
        "completed": "completed",
        "failed": "failed",
        "cancel": "canceled",
        "overdue": "expired",
    }[event]
    if follows is None:
        raise No("illegal-transition")
    return follows


def read_ledger(lines):
    """How many entries verify; each has the digest of what it says and of the one before."""
    before, previous = None, "0" * 64
    for count, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            said = entry.pop("entryDigest", None)
            digest = sha256(canonical(entry))
        except (ValueError, AttributeError):
            raise No("ledger-broken", count) from None
        follows = before is None or (entry["from"], entry["obligationId"]) == (before["to"], before["obligationId"])
        if said != digest or entry["prevDigest"] != previous or entry["revision"] != count or not follows:
            raise No("ledger-broken", count)
        before, previous = entry, digest
    if before is None:
        raise No("ledger-broken", 0)
    return len(lines)
