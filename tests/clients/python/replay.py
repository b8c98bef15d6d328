"""Replays every published vector against wire.py, which was written from WIRE.md.

    python replay.py [VECTORS]          exit 1 if a case fails
"""

import base64
import hashlib
import hmac
import json
import re
import sys
from pathlib import Path

import gate
import wire
from wire import No, sha256

ROOT = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[3] / "vectors"


def chain(i):
    signers = wire.read_chain(i["chain"])
    return {"head": signers and signers[0], "presenter": signers and signers[-1]}


def keys(i):
    code = wire.admit(i["key"])
    if code:
        raise No(code)
    return {"fingerprint": wire.fingerprint(i["key"])}


def signed_string(i):
    name, at = i["string"], i.get("timestamp")
    if name == "connect-provider":
        return f"funduq-connect-provider:{i['witness']}:{i['ticket']}:{i['nonce']}"
    if name == "connect-witness":
        return f"funduq-connect-funduq:{i['ticket']}:{i['nonce']}"
    if name == "delegate":
        return f"funduq-delegate:{i['delegate']}:{i['expiresAt']}"
    if name == "accept":
        return "wikala-accept:" + wire.certificate_id(i["authority"], i["delegate"], i["expiresAt"])
    if name in ("resolve", "cancel"):
        return f"funduq-{name}:{i['run']}:{at}"
    if name == "answer":
        return wire.answer(i["run"], i["asks"], i["answer"], at)
    if name == "present":
        return wire.present(i["witness"], i["provider"], i["name"], i["tip"], i["nonce"], at)
    if name == "revoke-certificate":
        return f"wikala-revoke:certificate/{i['certificate']}:{at}"
    if name == "revoke-authority":
        return f"wikala-revoke:authority/{i['authority']}:{at}"
    if name == "consent":
        return f"wikala-consent:{i['witness']}:{i['name']}:{sha256(i['url'])}"
    raise KeyError(name)


def payloads(i):
    text = signed_string(i)
    return {"payload": text, "sha256": sha256(text), "signature": wire.sign(i["seed"], text)}


def proofs(i):
    return wire.read_proof(i["proof"])


def window(i):
    if not wire.fresh(i["now"], i["timestamp"]):
        raise No("act-stale")
    return {}


def json_texts(i):
    if "integer" in i:
        value = wire.integer(i["integer"])
        if value is None:
            raise No("body-malformed")
        return {"value": value}
    try:
        wire.read_json(i["text"])
    except wire.NotJson:
        raise No("body-malformed") from None
    except wire.Twice:
        raise No("body-duplicate-key") from None
    return {}


def live(certificate, now, signer):
    if now > certificate["expiresAt"]:
        raise No("certificate-expired")
    if certificate["delegate"] != signer:
        raise No("certificate-not-signer")


def acts(i):
    proof = wire.read_proof(i["proof"])
    certificate = wire.read_certificate(i["certificate"]) if i.get("certificate") else None
    at, signer, run = proof["timestamp"], proof["publicKey"], i["run"]
    if i["act"] == "answer":
        signed = wire.answer(run, i["asks"], i["answer"], at)
    else:
        signed = f"funduq-{i['act']}:{run}:{at}"
    if proof["nonce"] is not None or not wire.covers(proof, signed):
        raise No("act-signature")
    if certificate:
        live(certificate, i["now"], signer)
    behind, members = certificate and certificate["authority"], i["authorities"]
    if members is None:
        authority = behind or signer
    else:
        authority = next((key for key in (signer, behind) if key in members), None)
    if authority is None:
        raise No("not-an-authority")
    if not wire.fresh(i["now"], at):
        raise No("act-stale")
    return {"authority": authority, "signer": signer, "digest": sha256(signed)}


def presenter(i):
    proof = wire.read_proof(i["proof"])
    signers = wire.read_chain(i["chain"])
    tip = sha256(i["chain"][-1]) if signers else None
    signed = wire.present(i["witness"], i["provider"], i["name"], tip, proof["nonce"], proof["timestamp"])
    if proof["nonce"] is None or not wire.covers(proof, signed):
        raise No("presenter-proof")
    if signers and signers[-1] != proof["publicKey"]:
        raise No("presenter-mismatch")
    if not wire.fresh(i["now"], proof["timestamp"]):
        raise No("presenter-proof")
    return {"signer": proof["publicKey"], "digest": sha256(signed)}


def certificates(i):
    certificate = wire.read_certificate(i["certificate"])
    live(certificate, i["now"], i["signer"])
    if i["beside"] == "chain" and not certificate["accepted"]:
        raise No("certificate-not-accepted")
    return certificate


def links(i):
    try:
        return hello(i) if i["side"] == "witness" else welcome(i)
    except (No, wire.NotJson, wire.Twice, ValueError):
        raise No("handshake") from None


def hello(i):
    frame = wire.closed(
        i["hello"], ["type", "version", "publicKey", "ticket", "nonce", "maxConcurrentRuns", "proof"], "handshake"
    )
    text = {name: wire.text_of(frame.get(name)) for name in ("type", "publicKey", "ticket", "nonce", "proof")}
    capacity = frame.get("maxConcurrentRuns")
    limit = None if capacity is None else wire.number(capacity)
    key, ticket, nonce = text["publicKey"], text["ticket"], text["nonce"]
    shaped = (
        text["type"] == "hello" and wire.number(frame.get("version")) == 4 and (capacity is None or limit is not None)
        and wire.is_key(key) and wire.is_hex(ticket, 32) and wire.is_hex(nonce, 32) and wire.is_hex(text["proof"], 128)
    )
    if not shaped:
        raise No("handshake")
    raw = bytes.fromhex(ticket)
    seal = hmac.digest(bytes.fromhex(i["ticketSecret"]), bytes.fromhex(key) + raw[:8], hashlib.sha256)[:8]
    if seal != raw[8:] or not 0 <= i["now"] - int.from_bytes(raw[:4], "big") <= 60:
        raise No("handshake")
    witness = wire.public(i["witnessSeed"])
    if not wire.holds_hex(key, f"funduq-connect-provider:{witness}:{ticket}:{nonce}", text["proof"]):
        raise No("handshake")
    answer = wire.sign(i["witnessSeed"], f"funduq-connect-funduq:{ticket}:{nonce}")
    reply = json.dumps({"type": "welcome", "funduqPublicKey": witness, "answer": answer}, separators=(",", ":"))
    return {"provider": key, "maxConcurrentRuns": limit, "welcome": reply}


def welcome(i):
    frame = wire.read_json(i["welcome"])
    named, answer = wire.text_of(frame.get("funduqPublicKey")), wire.text_of(frame.get("answer"))
    if frame.get("type") != "welcome" or named != i["witness"] or not wire.is_hex(answer, 128):
        raise No("handshake")
    if not wire.holds_hex(i["witness"], f"funduq-connect-funduq:{i['ticket']}:{i['nonce']}", answer):
        raise No("handshake")
    return {}


# The part of RFC 9651 that Signature-Input, Signature and Content-Digest use.
KEY = r"[a-z*][a-z0-9_.*-]*"
BARE = r'"(?:[^"\\]|\\["\\])*"|:[A-Za-z0-9+/=]*:|-?[0-9]+(?:\.[0-9]+)?|\?[01]|[A-Za-z*][A-Za-z0-9:/_.*-]*'
PARAMS = rf"(?:;{KEY}(?:=(?:{BARE}))?)*"
MEMBER = re.compile(rf"({KEY})=(\((?:(?:{BARE}){PARAMS} ?)*\)|{BARE})({PARAMS})")


def dictionary(text):
    read, at = {}, 0
    while at < len(text):
        member = MEMBER.match(text, at)
        if not member:
            raise No("presenter-proof")
        read[member[1]] = (member[2], member[3])
        comma = re.compile(r"[ \t]*,[ \t]*(?=.)").match(text, member.end())
        at = comma.end() if comma else member.end()
        if not comma and at < len(text):
            raise No("presenter-proof")
    return read


def parameters(text):
    return {name: value for name, value in re.findall(rf";({KEY})(?:=({BARE}))?", text)}


def base64_bytes(item):
    return base64.b64decode(item[1:-1], validate=True) if item.startswith(":") else b""


def rfc9421(i):
    def field(name):
        lines = [value.strip() for known, value in i["headers"] if known.lower() == name]
        return ", ".join(lines) if lines else None

    inputs = dictionary(field("signature-input") or "")
    ours = [label for label, (_, params) in inputs.items() if parameters(params).get("tag") == '"wikala"']
    if not ours:
        raise No("presenter-required")
    refused = No("presenter-proof")
    if len(ours) > 1 or field("signature") is None:
        raise refused
    items, params = inputs[ours[0]]
    told = parameters(params)
    signature = base64_bytes(dictionary(field("signature")).get(ours[0], ("", ""))[0])
    key, nonce = told.get("keyid", "")[1:-1], told.get("nonce", "")[1:-1]
    if told.get("alg", '"ed25519"') != '"ed25519"' or wire.admit(key) or not 1 <= len(nonce) <= 128:
        raise refused
    if not re.fullmatch(r"[0-9]+", told.get("created", "")):
        raise refused
    covered = items[1:-1].split()
    names = [name[1:-1] for name in covered]
    if len(set(names)) < len(names) or not {"@method", "@target-uri"} <= set(names):
        raise refused
    if ("content-digest" in names) < bool(i["body"]):
        raise refused
    values = {"@method": i["method"], "@target-uri": i["targetUri"]}
    base = ""
    for quoted, name in zip(covered, names):
        value = values.get(name) if name.startswith("@") else field(name)
        if value is None or not re.fullmatch(r'"[a-z0-9@-]+"', quoted):
            raise refused
        base += f"{quoted}: {value}\n"
    if "content-digest" in names:
        digests = dictionary(field("content-digest"))
        if base64_bytes(digests.get("sha-256", ("", ""))[0]) != hashlib.sha256(i["body"].encode()).digest():
            raise refused
    base += f'"@signature-params": {items}{params}'
    if not wire.holds(key, base.encode(), signature) or not wire.fresh(i["now"], int(told["created"])):
        raise refused
    return {"signer": key, "created": int(told["created"]), "base": base, "digest": sha256(base)}


def obligation_acts(i):
    proof = wire.read_proof(i["proof"])
    signed = wire.obligation_act(i, proof["timestamp"])
    if proof["nonce"] is not None or not wire.covers(proof, signed):
        raise No("act-signature")
    if not wire.fresh(i["now"], proof["timestamp"]):
        raise No("act-stale")
    return {"signer": proof["publicKey"], "digest": sha256(signed)}


def request_digest(i):
    for name in ("parts", "obligation"):
        try:
            wire.read_json(i[name])
        except wire.NotJson:
            raise No("body-malformed") from None
        except wire.Twice:
            raise No("body-duplicate-key") from None
    request = {"v": 1, **{name: i[name] for name in ("thread", "kind", "messageId", "role")}}
    try:
        request |= {name: json.loads(i[name]) for name in ("parts", "obligation")}
        canonical = wire.canonical(request)
    except (ValueError, OverflowError):
        raise No("body-malformed") from None
    return {"digest": sha256(canonical), "canonical": canonical}


def state_table(i):
    return {"state": wire.next_state(i["from"], i["event"], i.get("to"))}


def ledger_chain(i):
    return {"entries": wire.read_ledger(i["lines"])}


FAMILIES = {
    "acts": acts, "certificates": certificates, "chain": chain, "json": json_texts, "keys": keys, "links": links,
    "payloads": payloads, "presenter": presenter, "proofs": proofs, "rfc9421": rfc9421, "window": window,
    "obligation_acts": obligation_acts, "request_digest": request_digest, "state_table": state_table,
    "ledger_chain": ledger_chain, "schema_gate": gate.replay,
}


def replay(family, inputs):
    try:
        return {"ok": True, **FAMILIES[family](inputs)}
    except No as no:
        refusal = {"ok": False, "code": no.code}
        if no.code == "response-schema-violation":
            return {**refusal, "places": no.hop}
        if family == "ledger_chain":
            return {**refusal, "entry": no.hop}
        return {**refusal, "hop": no.hop} if family == "chain" else refusal


def ed25519(file):
    for case in file["cases"]:
        admitted = wire.admit(case["key"]) is None
        message, signature = bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])
        accepted = admitted and wire.holds(case["key"], message, signature)
        yield f"{case['src']} {case['id']}", accepted, admitted and case["verify_strict"]


def contract(file):
    seed = file["test_key"]["private_key_hex"]
    yield "test key", wire.public(seed), file["test_key"]["public_key_hex"]
    strings = {
        "kyok-call": lambda i: f"funduq-kyok-call:{i['bearer']}:{i['timestamp']}:{sha256(i['body_utf8'])}",
        "provider-connect": lambda i: "funduq-connect-provider:"
        f"{i['funduq_public_key']}:{i['funduq_nonce']}:{i['provider_nonce']}",
        "funduq-connect": lambda i: f"funduq-connect-funduq:{i['funduq_nonce']}:{i['provider_nonce']}",
        "delegation": lambda i: f"funduq-delegate:{i['delegate_public_key']}:{i['expires_at']}",
        "resolution": lambda i: f"funduq-resolve:{i['run_id']}:{i['timestamp']}",
        "cancel": lambda i: f"funduq-cancel:{i['run_id']}:{i['timestamp']}",
    }
    for vector in file["vectors"]:
        made = strings[vector["kind"]](vector["inputs"])
        published = (vector["payload_utf8"], vector["signature_hex"])
        yield vector["kind"], (made, wire.sign(seed, made)), published
    for published in file["chains"]:
        tokens = []
        for key in published["inputs"]["hop_private_keys_hex"]:
            tokens.append(wire.write_hop(key, tokens[-1] if tokens else None))
        made = (tokens, wire.read_chain(tokens))
        yield published["kind"], made, (published["chain"], published["actor_public_keys"])
    frame = file["wire"][0]["frame"]
    first = wire.write_hop(seed)
    sent = wire.write_hop("b6" * 32, first, (wire.public("e1" * 32), frame["agentName"]))
    yield "delivered-run", [first, sent], frame["runInput"]["forwardedProps"]["actorChain"]


def cases():
    """Name, what we answer, what is expected."""
    for folder in sorted(path for path in ROOT.iterdir() if path.is_dir()):
        for path in sorted(folder.glob("*.json")):
            file = json.loads(path.read_text(encoding="utf-8"))
            if folder.name in ("ed25519", "contract"):
                imported = ed25519 if folder.name == "ed25519" else contract
                yield from ((f"{folder.name}/{name}", got, expect) for name, got, expect in imported(file))
            elif folder.name in FAMILIES:
                yield f"{folder.name}/{path.stem}", replay(folder.name, file["inputs"]), file["expect"]
            else:
                yield folder.name, "an unknown family", None


def main():
    passed = failed = 0
    for name, got, expect in cases():
        if got == expect and type(got) is type(expect):
            passed += 1
        else:
            failed += 1
            print(f"{name}: answers {got}, {expect} expected")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
