//! The vectors on the command line.

use super::VectorsCommand;
use crate::exit::Failure;

/// `vectors check|generate [DIR]`.
pub(super) fn run(command: VectorsCommand) -> Result<(), Failure> {
    let (VectorsCommand::Check { dir } | VectorsCommand::Generate { dir }) = command;
    Err(Failure::environment(format!("vectors: {} is left alone, this build has no generator", dir.display())))
}
