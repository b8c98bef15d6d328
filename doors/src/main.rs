//! `wikala`: one binary for the witness, its keys, and the tools around it.

use std::process::ExitCode;

use clap::Parser;
use wikala_doors::cli::{self, Wikala};

fn main() -> ExitCode {
    // clap ends with 2 for wrong usage and 0 for help, as we do.
    let command = Wikala::parse();
    match cli::run(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.sentence.is_empty() {
                // What a stranger said may be in it, and a terminal obeys what it is shown.
                eprintln!("wikala: {}", cli::visible(&failure.sentence).replace('\n', "\\u000a"));
            }
            ExitCode::from(failure.code)
        }
    }
}
