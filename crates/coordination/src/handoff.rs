//! The assigner's decisions: who shall own which partition, and how a partition moves without ever having two owners.
//!
//! [`State`] is what etcd holds of one group, each value with the revision at which it was written. [`plan`] says what
//! the leader writes next, [`settle`] what of it cannot wait; [`ready`], [`released`], [`progress`], [`cancel`], [`register`], [`deregister`], [`gone`] and
//! [`predecessors_gone`] say what an answer of a consumer writes; [`commands`] says what a consumer has to be told.
//! Nobody here writes anything: a [`Step`] is handed out whose guards must hold in the transaction that carries it. A
//! step whose guards fail is not tried again; read the state anew and ask again.
//!
//! A handoff in the exclusive mode: the target warms up while the owner works (`Warming`); it says that it is ready,
//! and the owner is told to let go (`Ready`); the owner says that it has, and in one transaction the assignment moves
//! and the handoff is gone. In the overlap mode the target is assigned as soon as it is ready (`Complete`), and the
//! owner lets go after that; for a moment both work, so records of that moment may be worked on twice.

mod key;
mod names;
mod value;

mod state;

mod desired;
mod plan;
mod reason;

mod acknowledge;
mod bounds;
mod membership;

mod command;

pub use acknowledge::{Ack, Refusal, cancel, progress, ready, released};
pub use bounds::{BoundError, check_consumer, check_topic};
pub use command::{Assigned, Command, View, commands, views};
pub use desired::{Because, Choice, Desired, desired};
pub use key::{Key, KeyError};
pub use membership::{Deregistered, Registered, deregister, gone, predecessors_gone, register};
pub use names::{ConsumerName, Epoch, GroupName, HandoffId, NameError, SessionId, TopicName, TopicPartition};
pub use plan::{Newcomers, Plan, Settings, plan, settle};
pub use reason::{Action, Cause, Reason};
pub use state::{Change, Guard, State, Step, Stored, Write, transactions};
pub use value::{
    Assignment, Consumer, ConsumerState, Entry, Handoff, Mode, Phase, Progress, Topic, VALUE_VERSION,
    ValueError,
};
