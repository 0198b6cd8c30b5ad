//! What stands between a client and the broker until the client is let in, and sometimes after.

use tokio::time::Instant;

use crate::authentication::{Session, Showing, Visitor};

/// How far a client has come.
pub(crate) struct Guard {
    pub(crate) stage: Stage,
    /// By when it must have come further.
    pub(crate) deadline: Option<Instant>,
}

pub(crate) enum Stage {
    /// The client is let in with its first request that is about something.
    Door(Visitor),
    /// The client has to choose how it shows who it is.
    Choosing,
    /// The client is about to show who it is.
    Showing(Showing),
    /// A step is under way. Nothing else begins meanwhile.
    Busy,
    /// The client has been let in for some time.
    Inside(Session),
}
