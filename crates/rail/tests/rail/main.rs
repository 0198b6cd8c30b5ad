//! The rail between processes: what travels, byte by byte, and links between real endpoints.

mod broker;
mod golden;
mod hostile_format;
mod hostile_peer;
mod kept_records;
mod lanes;
mod links;
mod pressure;
mod random;
mod round_trip;
mod together;
mod versions;
