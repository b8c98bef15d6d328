//! Session certificates on the command line.

use std::path::Path;

use axum::http::Method;
use serde_json::json;
use wikala_certs::{CertError, Certificate, Revoked, SignedCertificate};

use super::{CertCommand, io, operator, serve};
use crate::client::Client;
use crate::exit::Failure;

pub(super) fn run(command: CertCommand) -> Result<(), Failure> {
    match command {
        CertCommand::Issue { key, delegate, ttl, expires_at } => {
            let key = io::key(&key)?;
            let delegate = io::public("--delegate", &delegate)?;
            if delegate == key.public() {
                return Err(Failure::usage(
                    "--delegate: the durable key itself, name the session key that acts for it",
                ));
            }
            let now = io::moment(None).as_secs();
            let until = match expires_at {
                // What is over at birth helps nobody, and is a typing error.
                Some(at) if at <= now => {
                    return Err(Failure::usage(format!("--expires-at: {at} is past, it is {now} now")));
                }
                Some(at) => at,
                None => now + ttl_s(&ttl)?,
            };
            io::say(SignedCertificate::issue(&key, &delegate, until).to_json())
        }
        CertCommand::Accept { key, file } => {
            io::one_stdin([Some(&key), Some(&file)])?;
            let key = io::key(&key)?;
            let accepted = read(&io::read(&file)?)?.accept(&key).map_err(refused)?;
            io::say(accepted.to_json())
        }
        CertCommand::Revoke { key, witness, file, .. } => revoke(&key, &witness, file.as_deref()),
        CertCommand::Verify { file, at, json } => {
            let text = io::read(&file)?;
            let verdict = read_certificate(&text).and_then(|certificate| {
                certificate.live(io::moment(at))?;
                Ok(certificate)
            });
            match verdict {
                Ok(certificate) if json => io::say(json!({
                    "ok": true,
                    "authority": certificate.authority().to_hex(),
                    "delegate": certificate.delegate().to_hex(),
                    "expiresAt": certificate.expires_at(),
                    "certificateId": certificate.id().to_hex(),
                    "accepted": certificate.accepted(),
                })),
                Ok(certificate) => io::say(format!(
                    "{} acts for {} until {}{}",
                    certificate.delegate().fingerprint(),
                    certificate.authority().fingerprint(),
                    certificate.expires_at(),
                    if certificate.accepted() { "" } else { " (not accepted: add consent with `wikala cert accept`)" }
                )),
                Err(error) if json => {
                    io::say(json!({ "ok": false, "code": error.code(), "message": error.to_string() }))?;
                    Err(Failure::refused(""))
                }
                Err(error) => Err(refused(error)),
            }
        }
    }
}

/// Of one certificate, or of all that the key gave.
fn revoke(key: &Path, witness: &str, file: Option<&Path>) -> Result<(), Failure> {
    let (key, witness) = (io::key(key)?, io::witness_url(witness)?);
    let (target, mut body) = match file {
        Some(file) => {
            let certificate = read(&io::read(file)?)?;
            let raw: serde_json::Value = serde_json::from_str(certificate.raw()).unwrap_or_default();
            (Revoked::Certificate(certificate.id()), json!({ "certificate": raw }))
        }
        None => (Revoked::Authority(key.public()), json!({ "authority": key.public().to_hex() })),
    };
    let proof = target.sign(&key, io::moment(None)).to_json();
    body["revocation"] = serde_json::from_str(&proof).unwrap_or_default();
    serve::block_on(async move {
        let url = format!("{witness}/v1/revocations");
        let answered = Client::new().answer(Method::POST, &url, Some(&body), &[], None).await;
        let (status, words) = answered.map_err(Failure::environment)?;
        let words = words.filter(serde_json::Value::is_object).ok_or_else(|| operator::no_witness(&url, status))?;
        match (words["error"]["code"].as_str(), words["error"]["message"].as_str()) {
            (Some(code), Some(message)) => Err(Failure::refused(format!("{code}: {message}"))),
            _ if status.is_success() => operator::print(&words),
            _ => Err(operator::no_witness(&url, status)),
        }
    })
}

fn refused(error: CertError) -> Failure {
    Failure::refused(format!("{}: {error}", error.code()))
}

fn read_certificate(text: &str) -> Result<SignedCertificate, CertError> {
    Certificate::parse(text.trim())?.verify()
}

fn read(text: &str) -> Result<SignedCertificate, Failure> {
    read_certificate(text).map_err(refused)
}

/// `8h`, `30m`, `90s`, in seconds.
fn ttl_s(text: &str) -> Result<u64, Failure> {
    let wrong = || Failure::usage("--ttl: not a span, write 8h, 30m or 90s");
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let scale = match unit {
        "h" => 3600,
        "m" => 60,
        "s" => 1,
        _ => return Err(wrong()),
    };
    match digits.parse::<u32>() {
        Ok(0) => Err(Failure::usage("--ttl: no length at all, write 8h, 30m or 90s")),
        Ok(n) => Ok(u64::from(n) * scale),
        Err(_) => Err(wrong()),
    }
}
