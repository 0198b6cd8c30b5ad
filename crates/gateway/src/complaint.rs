//! Complaints that a crowd of clients could cause many times a second, logged now and then.

use std::time::Instant;

use parking_lot::Mutex;

use crate::limits::COMPLAINT_INTERVAL;

/// One kind of complaint.
#[derive(Debug, Default)]
pub(crate) struct Complaint {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    unsaid: u64,
}

impl Complaint {
    /// Whether to log it now; if so, how often it was not logged since the last time.
    pub(crate) fn is_due(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        match state.last {
            Some(last) if now.saturating_duration_since(last) < COMPLAINT_INTERVAL => {
                state.unsaid += 1;
                None
            }
            _ => {
                state.last = Some(now);
                Some(std::mem::take(&mut state.unsaid))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_complaint_is_counted_until_it_is_due_again() {
        let complaint = Complaint::default();
        let start = Instant::now();
        assert_eq!(complaint.is_due(start), Some(0));
        assert_eq!(complaint.is_due(start), None);
        assert_eq!(complaint.is_due(start), None);
        assert_eq!(complaint.is_due(start + COMPLAINT_INTERVAL), Some(2));
    }
}
