//! placeholder until the branch is merged
use wikala_certs::SignedPresenter;
use wikala_chain::PublicKey;
#[derive(Debug)]
pub struct HttpSigner {
    pub signed: SignedPresenter,
    pub covers_body: bool,
    pub key: PublicKey,
}
pub fn verify(_: &str, _: &str, _: &axum::http::HeaderMap, _: &[u8]) -> Result<Option<HttpSigner>, String> {
    Ok(None)
}
