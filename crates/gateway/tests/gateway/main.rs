//! Real sockets in front, a scripted broker behind.

mod addresses;
mod connections;
mod crowd;
mod draining;
mod hostile;
mod order;
mod script;
