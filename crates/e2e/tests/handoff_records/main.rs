//! Records through handoffs: consumers with state on a real broker, whose partitions an assigner moves while records
//! come all the time.
//!
//! `KOHORT_HANDOFFS` says how many moves there are to be (unless told otherwise as many as a minute and a half allows),
//! `KOHORT_HANDOFFS_SEED` repeats the order of what is done, `KOHORT_PAUSES` how many rounds are measured. Consumers are
//! processes of the example `word-counters`, as `WORD_COUNTERS_BIN` names it, or else built first.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test ends where something is not as it should be"
)]

mod churn;
mod counter;
mod history;
mod load;
mod world;

mod figures;
mod ordinary;
mod pauses;
mod station;
mod warm;
