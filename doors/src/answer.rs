//! The one file that knows HTTP and JSON-RPC numbers. Every no of the house
//! passes through here, so one code means one thing at every door.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use wikala_certs::{ActError, CertError, PresenterError, ProofError};
use wikala_chain::{ChainError, JsonError};
use wikala_witness::{Beside, Code as Record, No};

/// One list makes the codes, their words on the wire and [`Door::ALL`], so that none
/// of the three can forget what another has.
macro_rules! codes {
    ($($name:ident = $text:literal,)+) => {
        /// Codes of the doors themselves; the witness and the chain have their own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[allow(missing_docs)] // each name is its own code in kebab-case
        pub enum Door {
            $($name,)+
        }

        impl Door {
            /// Every code there is.
            pub const ALL: &[Door] = &[$(Door::$name,)+];

            /// The code as it goes over the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Door::$name => $text,)+
                }
            }
        }
    };
}

codes! {
    BodyMalformed = "body-malformed",
    BodyDuplicateKey = "body-duplicate-key",
    ProofMalformed = "proof-malformed",
    CertificateMalformed = "certificate-malformed",
    ActSignature = "act-signature",
    CertificateSignature = "certificate-signature",
    NotAdmitted = "not-admitted",
    TooLarge = "too-large",
    MediaType = "media-type",
    RateLimited = "rate-limited",
    CannotRecord = "cannot-record",
    ShuttingDown = "shutting-down",
    RouteUnknown = "route-unknown",
    MethodNotAllowed = "method-not-allowed",
    UnknownField = "unknown-field",
    ResponseRequiredMustBeTrue = "response-required-must-be-true",
    DeadlineNotTimezoneAware = "deadline-not-timezone-aware",
    SchemaPairIncomplete = "schema-pair-incomplete",
    SchemaTooLarge = "schema-too-large",
    SchemaInvalid = "schema-invalid",
    SchemaExternalReference = "schema-external-reference",
    SchemaDialect = "schema-dialect",
    SchemaInPlaceCycle = "schema-in-place-cycle",
    SchemaTooCostly = "schema-too-costly",
    SchemaPatternRefused = "schema-pattern-refused",
    DeclineReasonRequired = "decline-reason-required",
    ReasonNotACode = "reason-not-a-code",
    LimitOutOfRange = "limit-out-of-range",
    UnknownState = "unknown-state",
}

/// A stable code, whoever coined it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// `chain-*` and `hop-*`.
    Chain(&'static str),
    /// The witness's.
    Record(Record),
    /// The doors'.
    Door(Door),
}

impl Code {
    /// The code as it goes over the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Chain(code) => code,
            Code::Record(code) => code.as_str(),
            Code::Door(door) => door.as_str(),
        }
    }

    /// The one table of statuses (wire.md, Refusals).
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            // A chain that does not verify was not proved; one that does not parse is no chain.
            Code::Chain("hop-signature") => StatusCode::UNAUTHORIZED,
            Code::Chain(_) => StatusCode::BAD_REQUEST,
            Code::Record(code) => match code {
                Record::PresenterRequired
                | Record::PresenterMismatch
                | Record::PresenterSpent
                | Record::PresenterProof
                | Record::ActRequired
                | Record::ActStale
                | Record::CertificateExpired
                | Record::CertificateRevoked
                | Record::CertificateNotSigner
                | Record::CertificateNotAccepted => StatusCode::UNAUTHORIZED,
                Record::NotAnAuthority
                | Record::NotAMember
                | Record::RequesterNotAuthor
                | Record::ExactResponsibleRequired
                | Record::ExactRequesterRequired
                | Record::EntitlementDenied
                | Record::ResponseBindingMismatch => StatusCode::FORBIDDEN,
                Record::AgentUnknown | Record::ThreadUnknown | Record::RunUnknown | Record::ObligationUnavailable => {
                    StatusCode::NOT_FOUND
                }
                Record::AlreadyAnswered
                | Record::ActSpent
                | Record::RunEnded
                | Record::RunIdReused
                | Record::AnswerForm
                | Record::AnswerTheRun
                | Record::FingerprintAmbiguous
                | Record::DelegateRebound
                | Record::CarrierTaken
                | Record::ObligationRequiresBoundThread
                | Record::IdempotencyConflict
                | Record::MessageIdReused
                | Record::RevisionConflict
                | Record::IllegalTransition
                | Record::DeclineAfterAcceptance
                | Record::DeliveryFactMissing
                | Record::ObligationTerminal
                | Record::ResponseConflict
                | Record::EnvelopeDigestMismatch => StatusCode::CONFLICT,
                Record::AnswerIncomplete
                | Record::AnswerUnknownAsk
                | Record::AnswerDuplicate
                | Record::AnswerSchema
                | Record::RunInput
                | Record::NoOpenAsk
                | Record::ResponsibleNotRecipient
                | Record::SelfObligation
                | Record::DeadlineNotFuture
                | Record::StateNotAssertable
                | Record::ResponseSchemaIdRequired
                | Record::ResponseSchemaViolation
                | Record::ResponseTooCostly => StatusCode::UNPROCESSABLE_ENTITY,
                Record::ChainTooLong | Record::RegistrationMalformed => StatusCode::BAD_REQUEST,
                Record::QueueFull => StatusCode::TOO_MANY_REQUESTS,
                Record::AgentOffline => StatusCode::SERVICE_UNAVAILABLE,
            },
            Code::Door(door) => match door {
                Door::BodyMalformed
                | Door::BodyDuplicateKey
                | Door::ProofMalformed
                | Door::CertificateMalformed
                | Door::LimitOutOfRange
                | Door::UnknownState => StatusCode::BAD_REQUEST,
                Door::UnknownField
                | Door::ResponseRequiredMustBeTrue
                | Door::DeadlineNotTimezoneAware
                | Door::SchemaPairIncomplete
                | Door::SchemaTooLarge
                | Door::SchemaInvalid
                | Door::SchemaExternalReference
                | Door::SchemaDialect
                | Door::SchemaInPlaceCycle
                | Door::SchemaTooCostly
                | Door::SchemaPatternRefused
                | Door::DeclineReasonRequired
                | Door::ReasonNotACode => StatusCode::UNPROCESSABLE_ENTITY,
                Door::ActSignature | Door::CertificateSignature => StatusCode::UNAUTHORIZED,
                Door::NotAdmitted => StatusCode::FORBIDDEN,
                Door::RouteUnknown => StatusCode::NOT_FOUND,
                Door::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
                Door::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
                Door::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
                Door::RateLimited => StatusCode::TOO_MANY_REQUESTS,
                Door::CannotRecord | Door::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            },
        }
    }
}

/// A no on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What clients compare.
    pub code: Code,
    /// *place: fact, expectation*.
    pub sentence: String,
    /// What else there is to say.
    pub beside: Option<Beside>,
}

impl Problem {
    /// A door's own no.
    pub fn door(code: Door, sentence: impl Into<String>) -> Self {
        Problem { code: Code::Door(code), sentence: sentence.into(), beside: None }
    }

    /// A no under one of the witness's codes, said by a door.
    pub fn record(code: Record, sentence: impl Into<String>) -> Self {
        Problem { code: Code::Record(code), sentence: sentence.into(), beside: None }
    }

    /// `ErrorInfo` (google.rpc) under our domain; the reason is the code in upper
    /// snake case. SDKs keep `metadata` where they drop everything else.
    #[must_use]
    pub fn error_info(&self, task: Option<&str>) -> Value {
        let mut metadata = json!({ "code": self.code.as_str() });
        if let Some(task) = task {
            metadata["taskId"] = task.into();
        }
        match &self.beside {
            None => {}
            Some(Beside::Winner(winner)) => {
                metadata["answeredBy"] = winner.authority.map_or_else(String::new, |key| key.to_hex()).into();
                metadata["answeredAt"] = winner.at_s.to_string().into();
            }
            Some(Beside::Stands { state, revision }) => {
                metadata["state"] = state.as_str().into();
                metadata["revision"] = revision.to_string().into();
            }
        }
        json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.code.as_str().replace('-', "_").to_uppercase(),
            "domain": "wikala",
            "metadata": metadata,
        })
    }

    /// Counts it on its way out.
    fn count(&self) {
        metrics::counter!("wikala_refusals_total", "code" => self.code.as_str()).increment(1);
    }

    /// Our own shape: `{"error":{"code","message", ...}}`.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut error = json!({ "code": self.code.as_str(), "message": self.sentence });
        match &self.beside {
            None => {}
            Some(Beside::Winner(winner)) => {
                error["answeredBy"] = winner.authority.map_or(Value::Null, |key| key.to_hex().into());
                error["answeredAt"] = winner.at_s.into();
            }
            Some(Beside::Stands { state, revision }) => {
                error["state"] = state.as_str().into();
                error["revision"] = (*revision).into();
            }
        }
        json!({ "error": error })
    }

    /// A JSON-RPC error object: A2A's own code where it has one, else -32600.
    #[must_use]
    pub fn jsonrpc(&self, method: Method, task: Option<&str>) -> Value {
        self.count();
        match self.own(method) {
            Some(kind) => {
                let mut error = kind.error(&self.sentence, task);
                if let Some(list) = error["data"].as_array_mut() {
                    list.push(self.error_info(task));
                }
                error
            }
            None => json!({ "code": -32600, "message": self.sentence, "data": [self.error_info(task)] }),
        }
    }

    /// The status of the HTTP+JSON binding, and its word (google.rpc.Code).
    #[must_use]
    pub fn rest_status(&self, method: Method) -> (StatusCode, &'static str) {
        if let Some(kind) = self.own(method) {
            return kind.rest_status();
        }
        let status = self.code.status();
        let word = match status {
            StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
            StatusCode::FORBIDDEN => "PERMISSION_DENIED",
            StatusCode::NOT_FOUND => "NOT_FOUND",
            StatusCode::CONFLICT => "ABORTED",
            StatusCode::TOO_MANY_REQUESTS => "RESOURCE_EXHAUSTED",
            StatusCode::SERVICE_UNAVAILABLE => "UNAVAILABLE",
            StatusCode::METHOD_NOT_ALLOWED => "UNIMPLEMENTED",
            _ => "INVALID_ARGUMENT",
        };
        (status, word)
    }

    /// The details of the HTTP+JSON binding: the protocol's own reason first, with our code
    /// in its metadata, then ours. An SDK that reads the first only must know its reason, or
    /// it drops the sentence too.
    #[must_use]
    pub fn rest_details(&self, method: Method, task: Option<&str>) -> Value {
        let ours = self.error_info(task);
        let mut first = self.own(method).unwrap_or(A2a::InvalidRequest).info(None);
        first["metadata"] = ours["metadata"].clone();
        json!([first, ours])
    }

    /// The protocol's own error for this, where it has one.
    fn own(&self, method: Method) -> Option<A2a> {
        match self.code {
            Code::Record(Record::RunUnknown) => Some(A2a::TaskNotFound),
            Code::Record(Record::RunEnded) => Some(match method {
                Method::Cancel => A2a::TaskNotCancelable,
                Method::Other => A2a::UnsupportedOperation,
            }),
            Code::Record(Record::ThreadUnknown | Record::RunInput) | Code::Door(Door::BodyMalformed) => {
                Some(A2a::InvalidParams)
            }
            Code::Door(Door::MediaType) => Some(A2a::ContentTypeNotSupported),
            _ => None,
        }
    }
}

/// What a JSON-RPC caller was doing; the same state has another name there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// CancelTask.
    Cancel,
    /// Anything else.
    Other,
}

/// The errors of JSON-RPC and A2A 1.0 (§5.4, §9.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each name is the protocol's own
pub enum A2a {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    TaskNotFound,
    TaskNotCancelable,
    PushNotificationNotSupported,
    UnsupportedOperation,
    ContentTypeNotSupported,
    ExtendedAgentCardNotConfigured,
    ExtensionSupportRequired,
    VersionNotSupported,
}

impl A2a {
    /// The status of the HTTP+JSON binding, and its word. Where 1.0.0 and 1.0.1 differ, the
    /// older: clients of both read it, and it says more (§5.4).
    #[must_use]
    pub fn rest_status(self) -> (StatusCode, &'static str) {
        match self {
            A2a::Parse | A2a::InvalidRequest | A2a::InvalidParams => (StatusCode::BAD_REQUEST, "INVALID_ARGUMENT"),
            A2a::MethodNotFound => (StatusCode::NOT_FOUND, "UNIMPLEMENTED"),
            A2a::TaskNotFound => (StatusCode::NOT_FOUND, "NOT_FOUND"),
            A2a::TaskNotCancelable => (StatusCode::CONFLICT, "FAILED_PRECONDITION"),
            A2a::ContentTypeNotSupported => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "INVALID_ARGUMENT"),
            A2a::PushNotificationNotSupported
            | A2a::UnsupportedOperation
            | A2a::ExtendedAgentCardNotConfigured
            | A2a::ExtensionSupportRequired
            | A2a::VersionNotSupported => (StatusCode::BAD_REQUEST, "FAILED_PRECONDITION"),
        }
    }

    /// Its number and its reason.
    fn names(self) -> (i32, &'static str) {
        match self {
            A2a::Parse => (-32700, "PARSE"),
            A2a::InvalidRequest => (-32600, "INVALID_REQUEST"),
            A2a::MethodNotFound => (-32601, "METHOD_NOT_FOUND"),
            A2a::InvalidParams => (-32602, "INVALID_PARAMS"),
            A2a::TaskNotFound => (-32001, "TASK_NOT_FOUND"),
            A2a::TaskNotCancelable => (-32002, "TASK_NOT_CANCELABLE"),
            A2a::PushNotificationNotSupported => (-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
            A2a::UnsupportedOperation => (-32004, "UNSUPPORTED_OPERATION"),
            A2a::ContentTypeNotSupported => (-32005, "CONTENT_TYPE_NOT_SUPPORTED"),
            A2a::ExtendedAgentCardNotConfigured => (-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"),
            A2a::ExtensionSupportRequired => (-32008, "EXTENSION_SUPPORT_REQUIRED"),
            A2a::VersionNotSupported => (-32009, "VERSION_NOT_SUPPORTED"),
        }
    }

    /// Its `ErrorInfo` (google.rpc).
    fn info(self, task: Option<&str>) -> Value {
        let mut metadata = json!({});
        if let Some(task) = task {
            metadata["taskId"] = task.into();
        }
        json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": self.names().1, "domain": "a2a-protocol.org", "metadata": metadata,
        })
    }

    /// The JSON-RPC error object with its `ErrorInfo`.
    #[must_use]
    pub fn error(self, sentence: &str, task: Option<&str>) -> Value {
        json!({ "code": self.names().0, "message": sentence, "data": [self.info(task)] })
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.count();
        let status = self.code.status();
        let mut response = (status, axum::Json(self.body())).into_response();
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

impl From<No> for Problem {
    fn from(no: No) -> Self {
        match no {
            No::Refusal(refusal) => {
                Problem { code: Code::Record(refusal.code), sentence: refusal.sentence, beside: refusal.beside }
            }
            No::Fault(fault) => {
                tracing::error!(%fault, "the record failed");
                // The details are the operator's; the caller learns that nothing happened.
                Problem::door(Door::CannotRecord, "record: cannot be read or written now, nothing happened, try again")
            }
        }
    }
}

impl From<ChainError> for Problem {
    fn from(error: ChainError) -> Self {
        Problem { code: Code::Chain(error.code()), sentence: error.to_string(), beside: None }
    }
}

impl From<ProofError> for Problem {
    fn from(error: ProofError) -> Self {
        Problem::door(Door::ProofMalformed, error.to_string())
    }
}

impl From<CertError> for Problem {
    fn from(error: CertError) -> Self {
        let door = if error.code() == "certificate-signature" {
            Door::CertificateSignature
        } else {
            Door::CertificateMalformed
        };
        Problem::door(door, error.to_string())
    }
}

impl From<ActError> for Problem {
    fn from(error: ActError) -> Self {
        Problem::door(Door::ActSignature, error.to_string())
    }
}

impl From<PresenterError> for Problem {
    fn from(error: PresenterError) -> Self {
        Problem::record(Record::PresenterProof, error.to_string())
    }
}

impl From<JsonError> for Problem {
    fn from(error: JsonError) -> Self {
        let door = match error {
            JsonError::DuplicateKey(_) => Door::BodyDuplicateKey,
            _ => Door::BodyMalformed,
        };
        Problem::door(door, format!("body: {error}"))
    }
}
