//! Who may do what: ACLs as Kafka's standard authorizer reads them.
//!
//! [`Rules`] are the ACLs of one organisation. A [`Judge`] asks them for one user at one address. [`screen`] takes out
//! of an op what its user may not do, and says how the reply is mended so that the client sees what Kafka would tell.

mod acl;
mod change;
mod judge;
mod mend;
mod operations;
mod rules;
mod screen;

pub use acl::{Acl, Operation, PatternType, Permission, Resource, ResourceType};
pub use change::AclChange;
pub use judge::Judge;
pub use mend::Mend;
pub use operations::Operations;
pub use rules::Rules;
pub use screen::{Screened, Topics, screen};
