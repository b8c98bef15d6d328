// The wire, written from vectors/WIRE.md and nothing else: encodings, keys, hops, chains,
// signed strings, proofs, certificates. Only node:crypto.

import crypto from "node:crypto";

/** A refusal: its code, and the hop if it is one's. */
export class No extends Error {
  constructor(code, hop = null) {
    super(code);
    Object.assign(this, { code, hop });
  }
}

export const sha256 = (data) => crypto.createHash("sha256").update(data).digest("hex");
export const isHex = (value, digits) =>
  typeof value === "string" && value.length === digits && /^[0-9a-f]*$/.test(value);
const bytes = (hex) => Buffer.from(hex, "hex");

/** Canonical base64url, or undefined. */
export function unb64(text) {
  const data = Buffer.from(text, "base64url");
  return data.toString("base64url") === text ? data : undefined;
}

// JSON: objects become Maps, numbers keep their text.

export class Num {
  constructor(raw) {
    this.raw = raw;
  }
}
export class NotJson extends Error {}
export class Twice extends Error {}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORDS = { true: true, false: false, null: null };

/** One strict value. Syntax and depth are told before a repeated key. */
export function readJson(text) {
  let at = 0;
  let twice = false;
  const fail = () => {
    throw new NotJson();
  };
  const space = () => {
    while (" \t\n\r".includes(text[at] ?? "x")) at++;
  };
  const match = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) fail();
    at = pattern.lastIndex;
    return found[0];
  };
  const take = (char) => {
    if (text[at] !== char) return false;
    at++;
    return true;
  };
  const list = (close, element) => {
    space();
    if (take(close)) return;
    do {
      space();
      element();
      space();
    } while (take(","));
    if (!take(close)) fail();
  };
  const value = (level) => {
    if (level > 64 && "[{".includes(text[at] ?? "x")) fail();
    if (take("[")) {
      const elements = [];
      list("]", () => elements.push(value(level + 1)));
      return elements;
    }
    if (take("{")) {
      const members = new Map();
      list("}", () => {
        const name = JSON.parse(match(STRING));
        if (!name.isWellFormed()) fail();
        space();
        if (!take(":")) fail();
        space();
        twice ||= members.has(name);
        members.set(name, value(level + 1));
      });
      return members;
    }
    if (text[at] === '"') return JSON.parse(match(STRING));
    for (const word in WORDS) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return WORDS[word];
      }
    }
    return new Num(match(NUMBER));
  };
  space();
  const whole = value(1);
  space();
  if (at !== text.length) fail();
  if (twice) throw new Twice();
  return whole;
}

/** N or N.0 of 0..2^53-1; undefined for anything else. */
export function integer(raw) {
  if (!/^(0|[1-9][0-9]*)(\.0)?$/.test(raw)) return undefined;
  const value = BigInt(raw.replace(".0", ""));
  return value < 2n ** 53n ? Number(value) : undefined;
}

export const number = (value) => (value instanceof Num ? integer(value.raw) : undefined);
/** A JSON string; undefined for anything else, half a surrogate pair included. */
export const textOf = (value) => (typeof value === "string" && value.isWellFormed() ? value : undefined);

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The members of an object with no others than these. */
export function closed(raw, names, code) {
  let value;
  try {
    value = readJson(raw);
  } catch {
    throw new No(code);
  }
  if (!(value instanceof Map) || [...value.keys()].some((name) => !names.includes(name))) throw new No(code);
  return value;
}

// Keys and signatures.

const P = 2n ** 255n - 19n;
const L = 2n ** 252n + 27742317777372353535851937790883648493n;
const mod = (n) => ((n % P) + P) % P;
function power(base, exponent) {
  let result = 1n;
  for (; exponent; exponent >>= 1n) {
    if (exponent & 1n) result = (result * base) % P;
    base = (base * base) % P;
  }
  return result;
}
const invert = (n) => power(mod(n), P - 2n);
const D = mod(-121665n * invert(121666n));
const ROOT = power(2n, (P - 1n) / 4n);
const little = (data) => BigInt("0x" + Buffer.from(data).reverse().toString("hex"));

/** An extended point from its canonical encoding, or undefined. */
function decodePoint(data) {
  const encoded = little(data);
  const [y, sign] = [encoded & (2n ** 255n - 1n), encoded >> 255n];
  if (y >= P) return undefined;
  const square = mod((y * y - 1n) * invert(D * y * y + 1n));
  let x = power(square, (P + 3n) / 8n);
  if (mod(x * x - square)) x = mod(x * ROOT);
  if (mod(x * x - square) || (x === 0n && sign)) return undefined;
  if ((x & 1n) !== sign) x = P - x;
  return [x, y, 1n, mod(x * y)];
}

function add([x1, y1, z1, t1], [x2, y2, z2, t2]) {
  const [i, j] = [mod((y1 - x1) * (y2 - x2)), mod((y1 + x1) * (y2 + x2))];
  const [k, m] = [mod(2n * D * t1 * t2), mod(2n * z1 * z2)];
  const [e, f, g, h] = [j - i, m - k, m + k, j + i];
  return [mod(e * f), mod(g * h), mod(f * g), mod(e * h)];
}

function times(n, point) {
  let result = [0n, 1n, 1n, 0n];
  for (; n; n >>= 1n) {
    if (n & 1n) result = add(result, point);
    point = add(point, point);
  }
  return result;
}

const isIdentity = ([x, y, z]) => mod(x) === 0n && mod(y - z) === 0n;
const admitted = new Map();

/** null if the key is admitted, else its code. */
export function admit(text) {
  if (!admitted.has(text)) admitted.set(text, judge(text));
  return admitted.get(text);
}

function judge(text) {
  const point = isHex(text, 64) ? decodePoint(bytes(text)) : undefined;
  if (!point) return "hop-key";
  return isIdentity(times(8n, point)) || !isIdentity(times(L, point)) ? "hop-weak-key" : null;
}

export const isKey = (value) => typeof value === "string" && admit(value) === null;
export const fingerprint = (key) => sha256(bytes(key)).slice(0, 16);

const jwk = (key) => ({ kty: "OKP", crv: "Ed25519", x: bytes(key).toString("base64url") });

/** A strict verdict for an admitted key. */
export function holds(key, message, signature) {
  if (signature.length !== 64 || little(signature.subarray(32)) >= L) return false;
  const r = decodePoint(signature.subarray(0, 32));
  if (!r || isIdentity(times(8n, r))) return false;
  return crypto.verify(null, Buffer.from(message), { key: jwk(key), format: "jwk" }, signature);
}
export const holdsHex = (key, message, signature) => holds(key, message, bytes(signature));

const PKCS8 = bytes("302e020100300506032b657004220420");
const secret = (seed) =>
  crypto.createPrivateKey({ key: Buffer.concat([PKCS8, bytes(seed)]), format: "der", type: "pkcs8" });
export const sign = (seed, message) => crypto.sign(null, Buffer.from(message), secret(seed)).toString("hex");
export const publicOf = (seed) =>
  Buffer.from(crypto.createPublicKey(secret(seed)).export({ format: "jwk" }).x, "base64url").toString("hex");

// Hops and chains.

const REGISTERED = ["iss", "sub", "aud", "exp", "nbf", "iat", "jti"];

function isName(value) {
  const name = textOf(value);
  if (name === undefined) return false;
  const points = [...name];
  return points.length >= 1 && points.length <= 128 && !/[\u0000-\u001f\u007f-\u009f]/.test(name);
}

/** What `read` gives; a code in place of each of its faults. */
function told(read, malformed, twice = malformed) {
  try {
    return read();
  } catch (error) {
    throw new No(error instanceof Twice ? twice : malformed);
  }
}

/** Every check of one hop that needs no other. */
function readHop(token) {
  const segments = token.split(".");
  if (segments.length !== 3) throw new No("hop-not-jws");
  const [header, claims, signature] = segments.map((segment) => {
    const data = unb64(segment);
    if (!data) throw new No("hop-base64");
    return data;
  });
  const head = told(() => readJson(utf8.decode(header)), "hop-header");
  const typ = head instanceof Map && head.has("typ");
  if (!(head instanceof Map) || head.get("alg") !== "EdDSA" || head.size !== (typ ? 2 : 1)) throw new No("hop-header");
  if (typ && head.get("typ") !== "JWT") throw new No("hop-header");

  const said = told(() => readJson(utf8.decode(claims)), "hop-json", "hop-duplicate-key");
  if (!(said instanceof Map)) throw new No("hop-json");
  const names = [...said.keys()];
  if (names.some((name) => REGISTERED.includes(name))) throw new No("hop-registered-claim");
  if (names.some((name) => !["actorPublicKey", "prevHash", "dispatchedTo"].includes(name))) throw new No("hop-claims");
  const [actor, prev] = [textOf(said.get("actorPublicKey")), said.get("prevHash")];
  if (actor === undefined || !(prev === null || isHex(prev, 64))) throw new No("hop-claims");
  let target = null;
  if (said.has("dispatchedTo")) {
    const to = said.get("dispatchedTo");
    if (!(to instanceof Map) || to.size !== 2) throw new No("hop-claims");
    if (!isKey(to.get("providerKey")) || !isName(to.get("name"))) throw new No("hop-claims");
    target = to.get("providerKey");
  }
  if (admit(actor)) throw new No(admit(actor));
  if (!holds(actor, token.slice(0, token.lastIndexOf(".")), signature)) throw new No("hop-signature");
  return { actor, prev, target };
}

/** The signers in order; null for null. */
export function readChain(tokens) {
  if (tokens === null) return null;
  if (!Array.isArray(tokens)) throw new No("chain-not-a-list");
  if (tokens.length === 0) throw new No("chain-empty");
  if (tokens.length > 64) throw new No("chain-too-long");
  const first = (wrong) => tokens.findIndex(wrong);
  const other = first((token) => typeof token !== "string");
  if (other >= 0) throw new No("hop-not-a-string", other);
  const large = first((token) => Buffer.byteLength(token) > 2048);
  if (large >= 0) throw new No("hop-too-large", large);
  const hops = [];
  for (const [n, token] of tokens.entries()) {
    try {
      hops.push(follow(hops.at(-1), readHop(token), n ? sha256(tokens[n - 1]) : null));
    } catch (error) {
      throw error instanceof No ? new No(error.code, n) : error;
    }
  }
  return hops.map((hop) => hop.actor);
}

function follow(before, hop, expected) {
  if (hop.prev !== expected) throw new No("hop-broken-link");
  if (before?.target && hop.actor !== before.target) {
    if (hop.actor !== before.actor) throw new No("hop-wrong-successor");
    if (!hop.target) throw new No("hop-witness-as-party");
  }
  return hop;
}

export function writeHop(seed, before, to) {
  const claims = { actorPublicKey: publicOf(seed), prevHash: before ? sha256(before) : null };
  if (to) claims.dispatchedTo = { providerKey: to[0], name: to[1] };
  const compact = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const signed = `${compact({ alg: "EdDSA", typ: "JWT" })}.${compact(claims)}`;
  return `${signed}.${bytes(sign(seed, signed)).toString("base64url")}`;
}

// Signed strings.

export const certificateId = (authority, delegate, expiresAt) =>
  sha256(`wikala-certificate:${authority}:${delegate}:${expiresAt}`);

export function asksHash(asks) {
  const ids = asks.map((ask) => Buffer.from(ask)).sort(Buffer.compare);
  const length = (id) => {
    const prefix = Buffer.alloc(4);
    prefix.writeUInt32BE(id.length);
    return prefix;
  };
  return sha256(Buffer.concat(ids.flatMap((id) => [length(id), id])));
}

export const present = (witness, provider, name, tip, nonce, at) =>
  `wikala-present:${witness}:${provider}:${name}:${tip ?? "0".repeat(64)}:${nonce}:${at}`;
export const answer = (run, asks, text, at) => `wikala-answer:${run}:${asksHash(asks)}:${sha256(text)}:${at}`;

// Proofs and certificates.

export function readProof(raw) {
  const proof = closed(raw, ["publicKey", "timestamp", "signature", "nonce"], "proof-malformed");
  const [publicKey, timestamp, signature] = [proof.get("publicKey"), number(proof.get("timestamp")), proof.get("signature")];
  const shaped = isKey(publicKey) && timestamp !== undefined && isHex(signature, 128);
  if (!shaped || (proof.has("nonce") && !isHex(proof.get("nonce"), 32))) throw new No("proof-malformed");
  return { publicKey, timestamp, signature, nonce: proof.get("nonce") ?? null };
}

export const covers = (proof, signed) => holdsHex(proof.publicKey, signed, proof.signature);

export function readCertificate(raw) {
  const names = ["authorityPublicKey", "delegatePublicKey", "expiresAt", "signature", "acceptance"];
  const read = closed(raw, names, "certificate-malformed");
  const [authority, delegate, until, signature, acceptance] = names.map((name) => read.get(name));
  const accepted = read.has("acceptance");
  const expiresAt = number(until);
  const shaped = isKey(authority) && isKey(delegate) && expiresAt !== undefined && isHex(signature, 128);
  if (!shaped || (accepted && !isHex(acceptance, 128))) throw new No("certificate-malformed");
  const id = certificateId(authority, delegate, expiresAt);
  const signed = holdsHex(authority, `funduq-delegate:${delegate}:${expiresAt}`, signature);
  if (!signed || (accepted && !holdsHex(delegate, `wikala-accept:${id}`, acceptance))) {
    throw new No("certificate-signature");
  }
  return { authority, delegate, expiresAt, id, accepted };
}

export const fresh = (now, at) => Math.abs(now - at) <= 60;

// Obligations

/** The signed bytes of an act on an obligation. */
export function obligationAct(i, at) {
  const said = {
    create: () => [i.thread, i.request],
    accept: () => [i.obligation, i.revision],
    decline: () => [i.obligation, i.revision, sha256(i.reason)],
    progress: () => [i.obligation, i.revision, i.to, i.reason],
    respond: () => [i.obligation, i.event, i.request, i.response],
    cancel: () => [i.obligation, i.revision, i.reason],
    ack: () => [i.event, i.envelope],
  }[i.act]();
  const tag = i.act === "ack" ? "wikala-mailbox-ack" : `wikala-obligation-${i.act}`;
  return [tag, ...said, at].join(":");
}

/** RFC 8785 of a value as readJson gives it, or of a plain one. */
export function canonical(value) {
  if (value instanceof Num || typeof value === "number") {
    const number = value instanceof Num ? Number(value.raw) : value;
    const exact = !Number.isInteger(number) || Number.isSafeInteger(number);
    if (!Number.isFinite(number) || !exact) throw new No("body-malformed");
    return JSON.stringify(number);
  }
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new No("body-malformed");
    return JSON.stringify(value);
  }
  if (value === null || typeof value === "boolean") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const members = value instanceof Map ? value : new Map(Object.entries(value));
  const names = [...members.keys()].sort(); // by UTF-16 code units, as it must be
  return `{${names.map((name) => `${canonical(name)}:${canonical(members.get(name))}`).join(",")}}`;
}

const OPEN = ["created", "recipient_committed", "acknowledged", "in_progress", "pending_human", "blocked"];
const CLAIMS = {
  created: ["recipient_committed"],
  acknowledged: ["in_progress", "pending_human", "blocked"],
  in_progress: ["pending_human", "blocked"],
  pending_human: ["acknowledged", "in_progress"],
  blocked: ["acknowledged", "in_progress"],
};

export function nextState(state, event, to) {
  if (event === "transition" && !OPEN.slice(1).includes(to)) throw new No("state-not-assertable");
  if (!OPEN.includes(state)) throw new No("obligation-terminal");
  const early = OPEN.indexOf(state) < 2;
  if (event === "decline" && !early) throw new No("decline-after-acceptance");
  const follows = {
    transition: CLAIMS[state]?.includes(to) && to,
    committed: state === "created" && "recipient_committed",
    accept: early && "acknowledged",
    decline: "declined",
    paused: ["acknowledged", "in_progress"].includes(state) && "pending_human",
    completed: "completed",
    failed: "failed",
    cancel: "canceled",
    overdue: "expired",
  }[event];
  if (!follows) throw new No("illegal-transition");
  return follows;
}

/** How many entries verify; each has the digest of what it says and of the one before. */
export function readLedger(lines) {
  let [before, previous] = [undefined, "0".repeat(64)];
  for (const [at, line] of lines.entries()) {
    const broken = new No("ledger-broken", at + 1);
    let entry;
    try {
      entry = JSON.parse(line);
    } catch {
      throw broken;
    }
    const { entryDigest, ...said } = entry;
    const digest = sha256(canonical(said));
    const follows = !before || (said.from === before.to && said.obligationId === before.obligationId);
    if (entryDigest !== digest || said.prevDigest !== previous || said.revision !== at + 1 || !follows) throw broken;
    [before, previous] = [said, digest];
  }
  if (!before) throw new No("ledger-broken", 0);
  return lines.length;
}
