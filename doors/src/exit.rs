//! How a command ends: 0 ok, 1 refused or a negative verdict, 2 usage, 3 environment.

use std::fmt;
use std::path::Path;

use wikala_witness::OpenFault;

/// Why a command did not end with 0: one sentence with a way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// *place: fact, expectation*.
    pub sentence: String,
}

impl Failure {
    /// 1: refused, or the verdict is negative.
    pub fn refused(sentence: impl Into<String>) -> Self {
        Failure { code: 1, sentence: sentence.into() }
    }

    /// 2: the command was called wrongly.
    pub fn usage(sentence: impl Into<String>) -> Self {
        Failure { code: 2, sentence: sentence.into() }
    }

    /// 3: a record that cannot be opened, with the way out where its own sentence has none.
    pub fn record(data: &Path, fault: &OpenFault) -> Self {
        let way_out = match fault {
            OpenFault::Version { .. } | OpenFault::OtherWitness { .. } => "",
            OpenFault::Database(_) => ", make the file readable or restore a backup",
        };
        Self::environment(format!("data: {} cannot be opened ({fault}){way_out}", data.display()))
    }

    /// 3: a file, a port or a peer is not as it must be.
    pub fn environment(sentence: impl Into<String>) -> Self {
        Failure { code: 3, sentence: sentence.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Failure {}
