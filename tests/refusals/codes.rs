//! Which code is met at which door, and if not, why not. Exhaustive: a new code does
//! not compile before it stands here, and does not pass before it has its cases.

use std::path::Path;

use wikala_chain::ChainError;
use wikala_doors::answer::{Code, Door};
use wikala_witness::Code as Record;

/// Every code of the house, whoever coined it. `chain-too-long` has two parents: the
/// chain that came, and the one that would be too long with our hop.
pub fn all() -> Vec<Code> {
    let chain = ChainError::CODES.iter().map(|code| Code::Chain(code));
    let record = Record::ALL.iter().map(|code| Code::Record(*code));
    let door = Door::ALL.iter().map(|code| Code::Door(*code));
    let twice = |code: &Code| *code != Code::Record(Record::ChainTooLong);
    chain.chain(record.filter(twice)).chain(door).collect()
}

/// At A2A, AG-UI and our own routes: met there, or why not.
type Met = [Option<&'static str>; 3];

const HERE: Option<&str> = None;
const EVERYWHERE: Met = [HERE, HERE, HERE];
/// Where agents are spoken to.
const CHAINS: Met = [HERE, HERE, Some("none of our routes takes a chain")];
const SPEAKING: Met = [HERE, HERE, Some("nothing is said to an agent on our routes")];

const ACTS: Option<&str> = Some("acts on obligations and their reads have routes of their own");
const OURS: Met = [ACTS, ACTS, HERE];

/// Where a code is met: A2A's second binding has every door of its first.
pub fn met(code: Code) -> [Option<&'static str>; 4] {
    let [a2a, agui, ours] = named(code);
    [a2a, a2a, agui, ours]
}

fn named(code: Code) -> Met {
    match code {
        Code::Chain(_) => CHAINS,
        Code::Record(code) => record(code),
        Code::Door(code) => door(code),
    }
}

fn record(code: Record) -> Met {
    match code {
        Record::PresenterRequired
        | Record::PresenterSpent
        | Record::PresenterProof
        | Record::ActRequired
        | Record::ActStale
        | Record::ActSpent
        | Record::CertificateExpired
        | Record::CertificateRevoked
        | Record::CertificateNotSigner
        | Record::DelegateRebound
        | Record::NotAnAuthority
        | Record::AgentUnknown
        | Record::ThreadUnknown
        | Record::AlreadyAnswered
        | Record::AnswerForm
        | Record::AnswerIncomplete
        | Record::AnswerUnknownAsk
        | Record::AnswerDuplicate
        | Record::AnswerSchema
        | Record::NoOpenAsk
        | Record::FingerprintAmbiguous
        | Record::AgentOffline => EVERYWHERE,
        Record::PresenterMismatch | Record::ChainTooLong => CHAINS,
        Record::CertificateNotAccepted => [
            HERE,
            HERE,
            Some(
                "beside an act a certificate counts for that act alone, and at /v1/certificates the signature consents",
            ),
        ],
        Record::NotAMember | Record::RunInput | Record::QueueFull => SPEAKING,
        Record::RunUnknown => {
            [HERE, Some("it names threads, not runs: one that is not there is no-open-ask or run-input"), HERE]
        }
        Record::RunEnded => {
            [HERE, Some("it has no cancel, and an answer finds its run by what is open: no-open-ask"), HERE]
        }
        Record::RunIdReused => {
            [Some("its callers give runs no ids"), HERE, Some("nothing is said to an agent on our routes")]
        }
        Record::ObligationRequiresBoundThread
        | Record::RequesterNotAuthor
        | Record::ResponsibleNotRecipient
        | Record::SelfObligation
        | Record::DeadlineNotFuture
        | Record::EntitlementDenied
        | Record::IdempotencyConflict
        | Record::MessageIdReused => EVERYWHERE,
        Record::ObligationUnavailable
        | Record::AnswerTheRun
        | Record::ExactResponsibleRequired
        | Record::ExactRequesterRequired
        | Record::RevisionConflict
        | Record::IllegalTransition
        | Record::StateNotAssertable
        | Record::DeclineAfterAcceptance
        | Record::DeliveryFactMissing
        | Record::ResponseBindingMismatch
        | Record::ResponseSchemaIdRequired
        | Record::ResponseSchemaViolation
        | Record::ResponseTooCostly
        | Record::ObligationTerminal
        | Record::ResponseConflict
        | Record::EnvelopeDigestMismatch => OURS,
        Record::RegistrationMalformed | Record::CarrierTaken => {
            const LINK: Option<&str> = Some("said to a provider on its link, see tests/link/handshake.rs");
            [LINK, LINK, LINK]
        }
    }
}

fn door(code: Door) -> Met {
    match code {
        Door::BodyMalformed
        | Door::BodyDuplicateKey
        | Door::ProofMalformed
        | Door::CertificateMalformed
        | Door::ActSignature
        | Door::CertificateSignature
        | Door::TooLarge
        | Door::MediaType
        | Door::RateLimited
        | Door::CannotRecord
        | Door::ShuttingDown
        | Door::RouteUnknown
        | Door::MethodNotAllowed
        | Door::UnknownField
        | Door::ResponseRequiredMustBeTrue
        | Door::DeadlineNotTimezoneAware
        | Door::SchemaPairIncomplete
        | Door::SchemaTooLarge
        | Door::SchemaInvalid
        | Door::SchemaExternalReference
        | Door::SchemaDialect
        | Door::SchemaInPlaceCycle
        | Door::SchemaTooCostly
        | Door::SchemaPatternRefused => EVERYWHERE,
        Door::DeclineReasonRequired | Door::ReasonNotACode | Door::LimitOutOfRange | Door::UnknownState => OURS,
        Door::NotAdmitted => {
            const CALLERS: Option<&str> = Some("providers are admitted, callers need not be");
            [CALLERS, CALLERS, HERE]
        }
    }
}

/// Said before any door is reached, so by HTTP alone, whatever is spoken behind it.
pub fn of_the_router(code: &str) -> bool {
    matches!(code, "route-unknown" | "method-not-allowed")
}

/// The members of an error of ours, in their order: who was first, and where an obligation stands.
pub fn members(code: &str) -> &'static [&'static str] {
    match code {
        "already-answered" => &["code", "message", "answeredBy", "answeredAt"],
        "revision-conflict"
        | "illegal-transition"
        | "state-not-assertable"
        | "decline-after-acceptance"
        | "obligation-terminal"
        | "response-conflict" => &["code", "message", "state", "revision"],
        _ => &["code", "message"],
    }
}

/// The JSON-RPC number: the protocol's own where it has one (A2A 1.0 §9.5).
pub fn number(code: &str, method: &str) -> i64 {
    match (code, method) {
        ("run-unknown", _) => -32001,
        ("run-ended", "CancelTask") => -32002,
        ("run-ended", _) => -32004,
        ("media-type", _) => -32005,
        ("thread-unknown" | "run-input" | "body-malformed", _) => -32602,
        _ => -32600,
    }
}

/// The status of the HTTP+JSON binding: the protocol's own where it has one (A2A 1.0 §5.4).
pub fn rest_status(code: &str, asked: &str) -> u16 {
    match (code, asked) {
        ("run-ended", "cancel") => 409,
        ("run-ended" | "thread-unknown" | "run-input", _) => 400,
        _ => status(code),
    }
}

/// The HTTP status, as the published table has it.
pub fn status(code: &str) -> u16 {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors/WIRE.md")).expect("text");
    let (_, table) = text.split_once("## Refusals").expect("a chapter");
    let (table, _) = table.split_once("\n## ").expect("a next chapter");
    let mut families = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| ")).filter(|line| line.contains('`')) {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let (statuses, groups) = (cells.next().unwrap_or(""), cells.next().unwrap_or(""));
        for (status, group) in statuses.split(", ").zip(groups.split(", ")) {
            let status: u16 = status.parse().expect("a status");
            for name in group.split(' ').map(|word| word.trim_matches('`')) {
                match name.strip_suffix('*') {
                    Some(family) => families.push((family.to_owned(), status)),
                    None if name == code => return status,
                    None => {}
                }
            }
        }
    }
    let family = families.iter().find(|(family, _)| code.starts_with(family.as_str()));
    family.unwrap_or_else(|| panic!("{code} is not in WIRE.md")).1
}
