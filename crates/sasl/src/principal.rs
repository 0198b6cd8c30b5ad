//! Who a certificate is for: its subject as text, and the rules that make a name of it.

mod der;
mod mapping;
mod subject;
mod validity;

pub use mapping::{MappingRules, RulesError};
pub use subject::{NotACertificate, subject};
pub use validity::Validity;
