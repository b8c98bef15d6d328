//! The words a task is told in: its states, what an entry of the record tells, the lines of
//! its history.

use std::sync::Arc;

use wikala_witness::Status;

/// A task's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Submitted,
    Working,
    InputRequired,
    Completed,
    Failed,
    Canceled,
}

impl State {
    /// Its name on the wire.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            State::Submitted => "TASK_STATE_SUBMITTED",
            State::Working => "TASK_STATE_WORKING",
            State::InputRequired => "TASK_STATE_INPUT_REQUIRED",
            State::Completed => "TASK_STATE_COMPLETED",
            State::Failed => "TASK_STATE_FAILED",
            State::Canceled => "TASK_STATE_CANCELED",
        }
    }

    /// No state follows.
    pub(super) fn is_terminal(self) -> bool {
        matches!(self, State::Completed | State::Failed | State::Canceled)
    }

    /// What a run's status is called here.
    pub(super) fn of(status: Status) -> Self {
        match status {
            Status::Queued | Status::Offering => State::Submitted,
            Status::Running | Status::Cancelling => State::Working,
            Status::InputRequired => State::InputRequired,
            Status::Completed => State::Completed,
            Status::Failed => State::Failed,
            Status::Cancelled => State::Canceled,
        }
    }
}

/// What one entry tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Told {
    /// Work began, or goes on; or it was asked to stop.
    Working,
    /// A piece of an artifact.
    Text { artifact: String, text: String, append: bool, last: bool },
    /// An event the protocol has no word for, as received.
    Event(Arc<str>),
    /// An event of the same protocol, as received.
    Relayed(Arc<str>),
    /// It waits for answers.
    Paused,
    /// It ended.
    Ended,
}

/// One line of a task's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// The caller's opening message.
    Opening,
    /// A text message of the agent: the artifact at this index.
    Text(usize),
    /// The question of a pause that is over, by its ordinal.
    Question(u64),
    /// The answer to it.
    Answer(u64),
}

/// A call of a tool, as announced.
#[derive(Debug, Default, Clone)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) args: String,
}
