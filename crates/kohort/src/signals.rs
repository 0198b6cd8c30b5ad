//! SIGTERM and SIGINT, and one that must not end the process.

use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{self, SignalKind};

/// The signals that end the process.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    /// A write beyond the limit of file sizes (`ulimit -f`) raises SIGXFSZ, which would end the process. Caught, it
    /// leaves the write to fail like one to a full disk, and producers are told.
    _file_size_exceeded: unix::Signal,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGTERM, from a supervisor.
    Terminate,
    /// SIGINT, from a keyboard.
    Interrupt,
}

impl Signals {
    /// From now on the signals no longer end the process by themselves.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            _file_size_exceeded: unix::signal(SignalKind::from_raw(Number::XFSZ.as_raw()))?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Interrupt,
        }
    }
}

impl Signal {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        }
    }

    /// What a shell shows for a process that the signal ended.
    pub(crate) fn exit_code(self) -> i32 {
        match self {
            Self::Terminate => 143,
            Self::Interrupt => 130,
        }
    }
}
