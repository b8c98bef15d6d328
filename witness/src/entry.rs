//! The lines of a run's record: a provider's words, and the witness's marks between them.

use crate::model::Words;

/// What the witness itself puts between the words of a run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "mark", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Mark {
    /// The run was opened and, if it carried a chain, dispatched.
    Opened,
    /// A provider took it.
    Claimed,
    /// The provider paused and asked.
    Paused {
        /// Which pause of the run, from 1.
        ordinal: u64,
        /// The open items.
        asks: Vec<String>,
    },
    /// A question wanted to be owed an answer and is owed none; it is asked all the same.
    NotOwed {
        /// The question.
        ask: String,
        /// The refusal's code.
        code: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// An ask was answered; the run goes on.
    Answered {
        /// Which pause.
        ordinal: u64,
        /// Under whose authority; `None` for an open ask without a signature.
        authority: Option<PublicKeyText>,
        /// The provider went on by itself.
        by_provider: bool,
    },
    /// Somebody entitled asked it to stop.
    CancelRequested {
        /// Under whose authority; `None` where nobody needs to be asked.
        authority: Option<PublicKeyText>,
    },
    /// Sequence numbers of the link jumped: something the provider sent is missing.
    LinkGap {
        /// The number expected.
        expected: u64,
        /// The number that came.
        received: u64,
    },
    /// The run ended.
    Ended {
        /// `completed`, `failed` or `cancelled`.
        status: String,
        /// Why, where it was not completed.
        reason: Option<String>,
        /// The provider's own terminal words stand before this mark.
        in_words: bool,
        /// The reason is the provider's: it may spell one of ours and is none.
        #[serde(default)]
        by_provider: bool,
    },
}

/// 64 lower-case hex in a stored mark.
pub type PublicKeyText = String;

/// Why a run did not complete, and whose words that is: a provider must not speak in
/// the witness's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why<'a> {
    /// The witness's.
    Ours(&'a str),
    /// The provider's.
    Theirs(&'a str),
}

impl<'a> Why<'a> {
    pub(crate) fn text(self) -> &'a str {
        match self {
            Why::Ours(text) | Why::Theirs(text) => text,
        }
    }
}

/// Who wrote an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The provider.
    Words(Words),
    /// The witness.
    Mark(Mark),
}

impl Entry {
    /// What it is, in a word: `words`, or the mark's name.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Entry::Words(_) => "words",
            Entry::Mark(mark) => match mark {
                Mark::Opened => "opened",
                Mark::Claimed => "claimed",
                Mark::Paused { .. } => "paused",
                Mark::NotOwed { .. } => "not-owed",
                Mark::Answered { .. } => "answered",
                Mark::CancelRequested { .. } => "cancel-requested",
                Mark::LinkGap { .. } => "link-gap",
                Mark::Ended { status, .. } => match status.as_str() {
                    "completed" => "completed",
                    "cancelled" => "cancelled",
                    _ => "failed",
                },
            },
        }
    }
}

/// One line of a run's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// From 1, without gaps, in the order of the record.
    pub seq: u64,
    /// When, unix seconds.
    pub at_s: u64,
    /// What.
    pub entry: Entry,
}
