//! The vectors on the command line.

use super::{VectorsCommand, io};
use crate::exit::Failure;
use crate::vectors::{VectorsError, check, generate};

/// `vectors check|generate [DIR]`.
pub(super) fn run(command: VectorsCommand) -> Result<(), Failure> {
    let done = match &command {
        VectorsCommand::Check { dir } => check(dir),
        VectorsCommand::Generate { dir } => generate(dir),
    };
    match done {
        Ok(summary) => io::say(summary),
        Err(error @ VectorsError::Differ(_)) => Err(Failure::refused(error.to_string())),
        Err(error @ VectorsError::File { .. }) => Err(Failure::environment(error.to_string())),
    }
}
