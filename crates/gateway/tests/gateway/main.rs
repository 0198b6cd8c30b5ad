//! Real sockets in front, a scripted broker behind.

mod addresses;
mod apart;
mod certificates;
mod connections;
mod crowd;
mod draining;
mod entering;
mod hostile;
mod logins;
mod order;
mod passwords;
mod script;
mod sessions;
mod strangers;
mod throttling;
mod tls;
mod tokens;
