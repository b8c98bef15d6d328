//! placeholder
use crate::{cli::ProviderArgs, exit::Failure};
/// Runs.
pub async fn run(_args: ProviderArgs) -> Result<(), Failure> {
    Ok(())
}
