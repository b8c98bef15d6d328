//! The state machine of an obligation, alone: which state follows which event, or why not.
//! It knows no keys, no clock and no record.

use crate::refusal::Code;

/// Where an obligation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Asked, and nobody has it yet.
    Created,
    /// The recipient's side has it: mirrored from the delivery, never claimed.
    RecipientCommitted,
    /// The responsible party owns it.
    Acknowledged,
    /// It works on it.
    InProgress,
    /// It waits for a human.
    PendingHuman,
    /// It cannot go on, and still owns it.
    Blocked,
    /// Answered.
    Completed,
    /// Answered: it could not be done.
    Failed,
    /// Not taken.
    Declined,
    /// Withdrawn by who asked.
    Canceled,
    /// Its deadline passed.
    Expired,
}

impl State {
    /// Every state, open ones first.
    pub const ALL: [State; 11] = [
        State::Created,
        State::RecipientCommitted,
        State::Acknowledged,
        State::InProgress,
        State::PendingHuman,
        State::Blocked,
        State::Completed,
        State::Failed,
        State::Declined,
        State::Canceled,
        State::Expired,
    ];

    /// Its name on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            State::Created => "created",
            State::RecipientCommitted => "recipient_committed",
            State::Acknowledged => "acknowledged",
            State::InProgress => "in_progress",
            State::PendingHuman => "pending_human",
            State::Blocked => "blocked",
            State::Completed => "completed",
            State::Failed => "failed",
            State::Declined => "declined",
            State::Canceled => "canceled",
            State::Expired => "expired",
        }
    }

    /// The state of this name.
    #[must_use]
    pub fn parse(text: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Nothing follows.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        use State::{Canceled, Completed, Declined, Expired, Failed};
        matches!(self, Completed | Failed | Declined | Canceled | Expired)
    }
}

/// What happens to an obligation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The delivery shows that the recipient's side has it.
    Committed,
    /// The responsible party takes it.
    Accepted,
    /// It does not.
    Declined,
    /// It says where it stands.
    Progressed(State),
    /// Its run stopped to ask a human.
    Paused,
    /// That pause is over; where it stood before.
    Resumed(State),
    /// A typed response: completed, or not.
    Responded {
        /// With what it was asked for.
        completed: bool,
    },
    /// The requester withdrew it.
    Withdrawn,
    /// Its deadline passed.
    Overdue,
}

/// Whether anything leads from one state to another.
#[must_use]
pub fn leads(from: State, to: State) -> bool {
    let events = [Event::Committed, Event::Accepted, Event::Declined, Event::Paused, Event::Withdrawn, Event::Overdue]
        .into_iter()
        .chain([true, false].map(|completed| Event::Responded { completed }))
        .chain([Event::Progressed(to), Event::Resumed(to)]);
    events.into_iter().any(|event| next(from, event) == Ok(to))
}

/// The state after an event.
///
/// # Errors
/// The refusal's code.
pub fn next(from: State, event: Event) -> Result<State, Code> {
    use State::RecipientCommitted;
    use State::{
        Acknowledged, Blocked, Canceled, Completed, Created, Declined, Expired, Failed, InProgress, PendingHuman,
    };
    if let Event::Progressed(to) = event
        && !matches!(to, RecipientCommitted | Acknowledged | InProgress | PendingHuman | Blocked)
    {
        // Whatever it stands at: these are reached by acts of their own, or not by a word.
        return Err(Code::StateNotAssertable);
    }
    if from.is_terminal() {
        return Err(Code::ObligationTerminal);
    }
    let to = match (from, event) {
        (Created, Event::Committed | Event::Progressed(RecipientCommitted)) => RecipientCommitted,
        (Created | RecipientCommitted, Event::Accepted) => Acknowledged,
        (Created | RecipientCommitted, Event::Declined) => Declined,
        // After it was taken the honest no is a response that says so.
        (_, Event::Declined) => return Err(Code::DeclineAfterAcceptance),
        (Acknowledged, Event::Progressed(InProgress)) => InProgress,
        (Acknowledged | InProgress, Event::Progressed(PendingHuman) | Event::Paused) => PendingHuman,
        (Acknowledged | InProgress, Event::Progressed(Blocked)) => Blocked,
        (PendingHuman | Blocked, Event::Progressed(to @ (Acknowledged | InProgress))) => to,
        (PendingHuman, Event::Resumed(to @ (Acknowledged | InProgress))) => to,
        (_, Event::Responded { completed }) => {
            if completed {
                Completed
            } else {
                Failed
            }
        }
        (_, Event::Withdrawn) => Canceled,
        (_, Event::Overdue) => Expired,
        _ => return Err(Code::IllegalTransition),
    };
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All 121 cells of "stands at, says it stands at", one letter each: `y` yes, `i` illegal,
    /// `n` not to be claimed, `t` terminal. Rows and columns in the order of `State::ALL`.
    #[test]
    fn every_cell_of_the_table() {
        const TABLE: [&str; 11] = [
            "nyiiiinnnnn",
            "niiiiinnnnn",
            "niiyyynnnnn",
            "niiiyynnnnn",
            "niyyiinnnnn",
            "niyyiinnnnn",
            "ntttttnnnnn",
            "ntttttnnnnn",
            "ntttttnnnnn",
            "ntttttnnnnn",
            "ntttttnnnnn",
        ];
        for (from, row) in State::ALL.into_iter().zip(TABLE) {
            for (to, cell) in State::ALL.into_iter().zip(row.bytes()) {
                let expect = match cell {
                    b'y' => Ok(to),
                    b'i' => Err(Code::IllegalTransition),
                    b'n' => Err(Code::StateNotAssertable),
                    _ => Err(Code::ObligationTerminal),
                };
                assert_eq!(next(from, Event::Progressed(to)), expect, "{} to {}", from.as_str(), to.as_str());
            }
        }
    }

    #[test]
    fn the_other_events_from_every_state() {
        for from in State::ALL {
            let early = matches!(from, State::Created | State::RecipientCommitted);
            let working = matches!(from, State::Acknowledged | State::InProgress);
            let open = !from.is_terminal();
            for (event, good, to) in [
                (Event::Committed, from == State::Created, State::RecipientCommitted),
                (Event::Accepted, early, State::Acknowledged),
                (Event::Declined, early, State::Declined),
                (Event::Paused, working, State::PendingHuman),
                (Event::Resumed(State::InProgress), from == State::PendingHuman, State::InProgress),
                (Event::Responded { completed: true }, open, State::Completed),
                (Event::Responded { completed: false }, open, State::Failed),
                (Event::Withdrawn, open, State::Canceled),
                (Event::Overdue, open, State::Expired),
            ] {
                let got = next(from, event);
                assert_eq!(got.ok(), good.then_some(to), "{} {event:?}", from.as_str());
                if !open {
                    assert_eq!(got, Err(Code::ObligationTerminal), "{} {event:?}", from.as_str());
                }
            }
        }
        assert_eq!(next(State::Blocked, Event::Declined), Err(Code::DeclineAfterAcceptance));
        assert_eq!(State::ALL.map(|state| State::parse(state.as_str())), State::ALL.map(Some));
    }
}
