// Replays every published vector against wire.mjs, which was written from WIRE.md.
//
//     node replay.mjs [VECTORS]          exit 1 if a case fails

import crypto from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import util from "node:util";

import * as gate from "./gate.mjs";
import * as wire from "./wire.mjs";
import { No, sha256 } from "./wire.mjs";

const here = path.dirname(new URL(import.meta.url).pathname);
const root = process.argv[2] ?? path.join(here, "../../../vectors");

function chain({ chain: tokens }) {
  const signers = wire.readChain(tokens);
  return { head: signers && signers[0], presenter: signers && signers.at(-1) };
}

function keys({ key }) {
  const code = wire.admit(key);
  if (code) throw new No(code);
  return { fingerprint: wire.fingerprint(key) };
}

const STRINGS = {
  "connect-provider": (i) => `funduq-connect-provider:${i.witness}:${i.ticket}:${i.nonce}`,
  "connect-witness": (i) => `funduq-connect-funduq:${i.ticket}:${i.nonce}`,
  delegate: (i) => `funduq-delegate:${i.delegate}:${i.expiresAt}`,
  accept: (i) => `wikala-accept:${wire.certificateId(i.authority, i.delegate, i.expiresAt)}`,
  resolve: (i) => `funduq-resolve:${i.run}:${i.timestamp}`,
  cancel: (i) => `funduq-cancel:${i.run}:${i.timestamp}`,
  answer: (i) => wire.answer(i.run, i.asks, i.answer, i.timestamp),
  present: (i) => wire.present(i.witness, i.provider, i.name, i.tip, i.nonce, i.timestamp),
  "revoke-certificate": (i) => `wikala-revoke:certificate/${i.certificate}:${i.timestamp}`,
  "revoke-authority": (i) => `wikala-revoke:authority/${i.authority}:${i.timestamp}`,
  consent: (i) => `wikala-consent:${i.witness}:${i.name}:${sha256(i.url)}`,
};

function payloads(i) {
  const payload = STRINGS[i.string](i);
  return { payload, sha256: sha256(payload), signature: wire.sign(i.seed, payload) };
}

function window({ now, timestamp }) {
  if (!wire.fresh(now, timestamp)) throw new No("act-stale");
  return {};
}

function json(i) {
  if (i.integer !== undefined) {
    const value = wire.integer(i.integer);
    if (value === undefined) throw new No("body-malformed");
    return { value };
  }
  try {
    wire.readJson(i.text);
  } catch (error) {
    throw new No(error instanceof wire.Twice ? "body-duplicate-key" : "body-malformed");
  }
  return {};
}

function live(certificate, now, signer) {
  if (now > certificate.expiresAt) throw new No("certificate-expired");
  if (certificate.delegate !== signer) throw new No("certificate-not-signer");
}

function acts(i) {
  const proof = wire.readProof(i.proof);
  const certificate = i.certificate ? wire.readCertificate(i.certificate) : null;
  const { publicKey: signer, timestamp } = proof;
  const signed = STRINGS[i.act]({ ...i, timestamp });
  if (proof.nonce !== null || !wire.covers(proof, signed)) throw new No("act-signature");
  if (certificate) live(certificate, i.now, signer);
  const candidates = certificate ? [signer, certificate.authority] : [signer];
  const authority =
    i.authorities === null ? candidates.at(-1) : candidates.find((key) => i.authorities.includes(key));
  if (authority === undefined) throw new No("not-an-authority");
  if (!wire.fresh(i.now, timestamp)) throw new No("act-stale");
  return { authority, signer, digest: sha256(signed) };
}

function presenter(i) {
  const proof = wire.readProof(i.proof);
  const signers = wire.readChain(i.chain);
  const tip = signers ? sha256(i.chain.at(-1)) : null;
  const signed = wire.present(i.witness, i.provider, i.name, tip, proof.nonce, proof.timestamp);
  if (proof.nonce === null || !wire.covers(proof, signed)) throw new No("presenter-proof");
  if (signers && signers.at(-1) !== proof.publicKey) throw new No("presenter-mismatch");
  if (!wire.fresh(i.now, proof.timestamp)) throw new No("presenter-proof");
  return { signer: proof.publicKey, digest: sha256(signed) };
}

function certificates(i) {
  const certificate = wire.readCertificate(i.certificate);
  live(certificate, i.now, i.signer);
  if (i.beside === "chain" && !certificate.accepted) throw new No("certificate-not-accepted");
  return certificate;
}

function links(i) {
  try {
    return i.side === "witness" ? hello(i) : welcome(i);
  } catch {
    throw new No("handshake");
  }
}

function ensure(held) {
  if (!held) throw new No("handshake");
}

function hello(i) {
  const names = ["type", "version", "publicKey", "ticket", "nonce", "proof", "maxConcurrentRuns"];
  const frame = wire.closed(i.hello, names, "handshake");
  const [type, version, key, ticket, nonce, proof, declared] = names.map((name) => frame.get(name));
  const maxConcurrentRuns = declared === undefined || declared === null ? null : wire.number(declared);
  ensure(type === "hello" && wire.number(version) === 4 && maxConcurrentRuns !== undefined);
  ensure(wire.isKey(key) && wire.isHex(ticket, 32) && wire.isHex(nonce, 32) && wire.isHex(proof, 128));
  const raw = Buffer.from(ticket, "hex");
  const mac = crypto.createHmac("sha256", Buffer.from(i.ticketSecret, "hex"));
  const seal = mac.update(Buffer.from(key, "hex")).update(raw.subarray(0, 8)).digest();
  const age = i.now - raw.readUInt32BE(0);
  ensure(seal.subarray(0, 8).equals(raw.subarray(8)) && age >= 0 && age <= 60);
  const witness = wire.publicOf(i.witnessSeed);
  ensure(wire.holdsHex(key, STRINGS["connect-provider"]({ witness, ticket, nonce }), proof));
  const answer = wire.sign(i.witnessSeed, STRINGS["connect-witness"]({ ticket, nonce }));
  const reply = JSON.stringify({ type: "welcome", funduqPublicKey: witness, answer });
  return { provider: key, maxConcurrentRuns, welcome: reply };
}

function welcome(i) {
  const frame = wire.readJson(i.welcome);
  ensure(frame.get("type") === "welcome" && frame.get("funduqPublicKey") === i.witness);
  ensure(wire.isHex(frame.get("answer"), 128));
  ensure(wire.holdsHex(i.witness, STRINGS["connect-witness"](i), frame.get("answer")));
  return {};
}

// The part of RFC 9651 that Signature-Input, Signature and Content-Digest use.
const KEY = "[a-z*][a-z0-9_.*-]*";
const BARE = String.raw`"(?:[^"\\]|\\["\\])*"|:[A-Za-z0-9+/=]*:|-?[0-9]+(?:\.[0-9]+)?|\?[01]|[A-Za-z*][A-Za-z0-9:/_.*-]*`;
const PARAMS = `(?:;${KEY}(?:=(?:${BARE}))?)*`;
const MEMBER = new RegExp(String.raw`(${KEY})=(\((?:(?:${BARE})${PARAMS} ?)*\)|${BARE})(${PARAMS})`, "y");

function dictionary(text) {
  const read = new Map();
  for (let at = 0; at < text.length; ) {
    MEMBER.lastIndex = at;
    const member = MEMBER.exec(text);
    if (!member) throw new No("presenter-proof");
    read.set(member[1], { item: member[2], params: member[3] });
    const comma = /[ \t]*,[ \t]*(?=.)/y;
    comma.lastIndex = at = MEMBER.lastIndex;
    if (comma.test(text)) at = comma.lastIndex;
    else if (at < text.length) throw new No("presenter-proof");
  }
  return read;
}

const parameters = (text) =>
  new Map([...text.matchAll(new RegExp(`;(${KEY})(?:=(${BARE}))?`, "g"))].map((found) => [found[1], found[2]]));
const binary = (member) => Buffer.from(member?.item.startsWith(":") ? member.item.slice(1, -1) : "", "base64");

function rfc9421(i) {
  const demand = (held) => {
    if (!held) throw new No("presenter-proof");
  };
  const field = (name) => {
    const lines = i.headers.filter(([known]) => known.toLowerCase() === name).map(([, value]) => value.trim());
    return lines.length ? lines.join(", ") : undefined;
  };
  const inputs = dictionary(field("signature-input") ?? "");
  const ours = [...inputs].filter(([, { params }]) => parameters(params).get("tag") === '"wikala"');
  if (!ours.length) throw new No("presenter-required");
  demand(ours.length === 1 && field("signature") !== undefined);
  const [label, { item, params }] = ours[0];
  const told = parameters(params);
  const said = (name) => (told.get(name) ?? "").slice(1, -1);
  const [key, nonce, created] = [said("keyid"), said("nonce"), told.get("created") ?? ""];
  demand((told.get("alg") ?? '"ed25519"') === '"ed25519"' && wire.isKey(key) && /^[0-9]+$/.test(created));
  demand(nonce.length >= 1 && nonce.length <= 128);
  const covered = item.slice(1, -1).split(" ");
  demand(covered.every((name) => /^"[a-z0-9@-]+"$/.test(name)));
  const names = covered.map((name) => name.slice(1, -1));
  demand(new Set(names).size === names.length && names.includes("@method") && names.includes("@target-uri"));
  demand(names.includes("content-digest") || i.body === "");
  const derived = { "@method": i.method, "@target-uri": i.targetUri };
  let base = "";
  for (const name of names) {
    const value = name.startsWith("@") ? derived[name] : field(name);
    demand(value !== undefined);
    base += `"${name}": ${value}\n`;
  }
  if (names.includes("content-digest")) {
    const digest = binary(dictionary(field("content-digest")).get("sha-256"));
    demand(digest.toString("hex") === sha256(i.body));
  }
  base += `"@signature-params": ${item}${params}`;
  const signature = binary(dictionary(field("signature")).get(label));
  demand(wire.holds(key, base, signature) && wire.fresh(i.now, Number(created)));
  return { signer: key, created: Number(created), base, digest: sha256(base) };
}

const proofs = ({ proof }) => wire.readProof(proof);

function obligation_acts(i) {
  const proof = wire.readProof(i.proof);
  const signed = wire.obligationAct(i, proof.timestamp);
  if (proof.nonce !== null || !wire.covers(proof, signed)) throw new No("act-signature");
  if (!wire.fresh(i.now, proof.timestamp)) throw new No("act-stale");
  return { signer: proof.publicKey, digest: sha256(signed) };
}

function request_digest({ parts, obligation, thread, kind, messageId, role }) {
  const read = (text) => {
    try {
      return wire.readJson(text);
    } catch (error) {
      throw new No(error instanceof wire.Twice ? "body-duplicate-key" : "body-malformed");
    }
  };
  const request = { v: 1, thread, kind, messageId, role, parts: read(parts), obligation: read(obligation) };
  const canonical = wire.canonical(request);
  return { digest: sha256(canonical), canonical };
}

const state_table = ({ from, event, to }) => ({ state: wire.nextState(from, event, to) });
const ledger_chain = ({ lines }) => ({ entries: wire.readLedger(lines) });
const FAMILIES = {
  acts, certificates, chain, json, keys, ledger_chain, links, obligation_acts, payloads, presenter, proofs,
  request_digest, rfc9421, schema_gate: gate.replay, state_table, window,
};

function replay(family, inputs) {
  try {
    return { ok: true, ...FAMILIES[family](inputs) };
  } catch (error) {
    if (!(error instanceof No)) throw error;
    const refusal = { ok: false, code: error.code };
    if (error.code === "response-schema-violation") return { ...refusal, places: error.hop };
    if (family === "ledger_chain") return { ...refusal, entry: error.hop };
    return family === "chain" ? { ...refusal, hop: error.hop } : refusal;
  }
}

function* ed25519({ cases }) {
  for (const { src, id, key, msg, sig, verify_strict: strict } of cases) {
    const admitted = wire.admit(key) === null;
    const accepted = admitted && wire.holds(key, Buffer.from(msg, "hex"), Buffer.from(sig, "hex"));
    yield [`${src} ${id}`, accepted, admitted && strict];
  }
}

function* contract(file) {
  const seed = file.test_key.private_key_hex;
  yield ["test key", wire.publicOf(seed), file.test_key.public_key_hex];
  const strings = {
    "kyok-call": (i) => `funduq-kyok-call:${i.bearer}:${i.timestamp}:${sha256(i.body_utf8)}`,
    "provider-connect": (i) => `funduq-connect-provider:${i.funduq_public_key}:${i.funduq_nonce}:${i.provider_nonce}`,
    "funduq-connect": (i) => `funduq-connect-funduq:${i.funduq_nonce}:${i.provider_nonce}`,
    delegation: (i) => `funduq-delegate:${i.delegate_public_key}:${i.expires_at}`,
    resolution: (i) => `funduq-resolve:${i.run_id}:${i.timestamp}`,
    cancel: (i) => `funduq-cancel:${i.run_id}:${i.timestamp}`,
  };
  for (const vector of file.vectors) {
    const made = strings[vector.kind](vector.inputs);
    yield [vector.kind, [made, wire.sign(seed, made)], [vector.payload_utf8, vector.signature_hex]];
  }
  for (const published of file.chains) {
    const tokens = [];
    for (const key of published.inputs.hop_private_keys_hex) tokens.push(wire.writeHop(key, tokens.at(-1)));
    const made = [tokens, wire.readChain(tokens)];
    yield [published.kind, made, [published.chain, published.actor_public_keys]];
  }
  const { frame } = file.wire[0];
  const first = wire.writeHop(seed);
  const sent = wire.writeHop("b6".repeat(32), first, [wire.publicOf("e1".repeat(32)), frame.agentName]);
  yield ["delivered-run", [first, sent], frame.runInput.forwardedProps.actorChain];
}

/** Name, what we answer, what is expected. */
function* cases() {
  const imported = { ed25519, contract };
  for (const folder of fs.readdirSync(root, { withFileTypes: true })) {
    if (!folder.isDirectory()) continue;
    const family = folder.name;
    for (const name of fs.readdirSync(path.join(root, family))) {
      const file = JSON.parse(fs.readFileSync(path.join(root, family, name), "utf8"));
      if (imported[family]) {
        for (const [what, got, expect] of imported[family](file)) yield [`${family}/${what}`, got, expect];
      } else if (FAMILIES[family]) {
        yield [`${family}/${name}`, replay(family, file.inputs), file.expect];
      } else {
        yield [family, "an unknown family", null];
      }
    }
  }
}

let [passed, failed] = [0, 0];
for (const [name, got, expect] of cases()) {
  if (util.isDeepStrictEqual(got, expect)) {
    passed += 1;
  } else {
    failed += 1;
    console.log(`${name}: answers ${JSON.stringify(got)}, ${JSON.stringify(expect)} expected`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed || !passed ? 1 : 0;
