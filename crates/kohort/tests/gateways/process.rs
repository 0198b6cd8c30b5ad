//! Our binary as a process, and what it says.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that runs until it is told to end, and at the latest until the test ends.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    /// Its lines, and whether a test has waited for them.
    said: Vec<(String, bool)>,
}

impl Process {
    /// Starts `kohort` with these words.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        read_lines(child.stdout.take().unwrap(), sender.clone());
        read_lines(child.stderr.take().unwrap(), sender);
        Self { child, lines, said: Vec::new() }
    }

    /// Waits for a line with `mark` in it that has not been waited for, and returns it. The two outputs of a process
    /// arrive in any order.
    pub(crate) fn until(&mut self, mark: &str) -> String {
        let mut next = 0;
        loop {
            if next == self.said.len() {
                let line = self.lines.recv_timeout(PATIENCE);
                let line = line.unwrap_or_else(|_| panic!("it did not say {mark:?} but\n{}", self.all()));
                self.said.push((line, false));
            }
            let (line, was_waited_for) = &mut self.said[next];
            if !*was_waited_for && line.contains(mark) {
                *was_waited_for = true;
                return line.clone();
            }
            next += 1;
        }
    }

    /// The word after `label` in what it has said.
    pub(crate) fn word_after(&self, label: &str) -> String {
        let mut after =
            self.said.iter().filter_map(|(line, _)| line.split_once(label)).map(|(_, rest)| rest.trim());
        let rest = after.next().unwrap_or_else(|| panic!("no {label:?} in\n{}", self.all()));
        rest.split([' ', '/']).next().unwrap_or_default().to_owned()
    }

    fn all(&self) -> String {
        self.said.iter().map(|(line, _)| format!("{line}\n")).collect()
    }

    /// Asks the process to end and waits for it.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.said.push((line, false));
        }
        (self.child.wait().unwrap(), self.all())
    }

    /// Ends the process at once.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only when it has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(stream: impl Read + Send + 'static, sender: Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
}

/// A broker that only gateways reach, and its gateways.
pub(crate) struct Broker {
    pub(crate) process: Process,
    pub(crate) endpoint: String,
    pub(crate) rail: String,
    pub(crate) admin: String,
    data_dir: String,
}

impl Broker {
    /// Starts one on free ports and waits until it is ready.
    pub(crate) fn start(data_dir: &Path, args: &[&str]) -> Self {
        Self::start_at(data_dir, "127.0.0.1:0", args)
    }

    /// The same where gateways look for it already.
    pub(crate) fn start_at(data_dir: &Path, rail: &str, args: &[&str]) -> Self {
        let mut command = kohort();
        command.args(["broker", "--rail-listen", rail, "--admin", "127.0.0.1:0", "--data-dir"]);
        let mut process = Process::start(command.arg(data_dir).args(args));
        process.until("ready in ");
        let (endpoint, rail) = (process.word_after("  endpoint "), process.word_after("  rail "));
        let (admin, data_dir) = (process.word_after("http://"), data_dir.to_str().unwrap().to_owned());
        Self { process, endpoint, rail, admin, data_dir }
    }

    /// Runs `kohort broker …` about it.
    pub(crate) fn command(&self, args: &[&str]) -> Output {
        let place = ["--admin", &self.admin, "--data-dir", &self.data_dir];
        kohort().arg("broker").args(args).args(place).output().unwrap()
    }

    /// The command that starts a gateway of this broker on any free port.
    pub(crate) fn gateway(&self, key_file: &Path) -> Command {
        let mut command = kohort();
        let broker = format!("{}@{}", self.endpoint, self.rail);
        command.args(["gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--broker", &broker]);
        command.arg("--key-file").arg(key_file);
        command
    }

    /// Starts a gateway that is let in, and waits until it is linked; returns where clients find it, too.
    pub(crate) fn linked_gateway(&self, key_file: &Path, args: &[&str]) -> (Process, String) {
        text(&self.command(&["allow", &gateway_id(key_file)]));
        let mut gateway = Process::start(self.gateway(key_file).args(args));
        gateway.until("bootstrap.servers=");
        gateway.until("linked to the broker");
        let bootstrap = gateway.word_after("bootstrap.servers=");
        (gateway, bootstrap)
    }
}

/// Who a gateway with this key is; the key is made.
pub(crate) fn gateway_id(key_file: &Path) -> String {
    let id = text(&kohort().args(["gateway", "id", "--key-file"]).arg(key_file).output().unwrap());
    id.trim().to_owned()
}

/// The command in an environment that nobody has touched.
pub(crate) fn kohort() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kohort"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("KOHORT_")) {
        command.env_remove(name);
    }
    command
}

/// What a command that did what it should printed.
pub(crate) fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command that failed said.
pub(crate) fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}
