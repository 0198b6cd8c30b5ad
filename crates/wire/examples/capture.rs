//! Stands between a client and a broker and writes down what they say, as golden frames.
//!
//! ```text
//! cargo run -p wire --example capture -- --listen 127.0.0.1:19092 --to 127.0.0.1:9092 \
//!     --out crates/wire/tests/golden --client kcat-1.7.1
//! ```
//!
//! The addresses in answers are changed to the one listened on, so that the client stays here; what is
//! written down is what the broker really said. For each API and version a few exchanges are kept.

#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a tool, not a part of the crate")]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a person")]

use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::Bytes;
use wire::{AnyResponse, ApiKey, decode_any_request, decode_any_response, encode_any_response};

/// Exchanges kept of one API and version.
const KEPT: usize = 3;

/// Longer frames say nothing that shorter ones do not.
const LONGEST: usize = 6 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse()?;
    let listener = TcpListener::bind(options.listen)?;
    let capture = Arc::new(Capture {
        listen: listener.local_addr()?,
        to: options.to,
        directory: options.out,
        client: options.client,
        seen: Mutex::default(),
    });
    println!("listening on {}", capture.listen);
    for client in listener.incoming() {
        let (client, capture) = (client?, Arc::clone(&capture));
        thread::spawn(move || {
            if let Err(error) = capture.carry(client) {
                eprintln!("connection ended: {error}");
            }
        });
    }
    Ok(())
}

struct Options {
    listen: SocketAddr,
    to: SocketAddr,
    out: PathBuf,
    client: String,
}

impl Options {
    fn parse() -> Result<Self, Box<dyn Error>> {
        let mut given = BTreeMap::new();
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            given.insert(name, value);
        }
        let mut take = |name: &str| given.remove(name).ok_or_else(|| format!("{name} is missing"));
        Ok(Self {
            listen: take("--listen")?.parse()?,
            to: take("--to")?.parse()?,
            out: take("--out")?.into(),
            client: take("--client")?,
        })
    }
}

struct Capture {
    listen: SocketAddr,
    to: SocketAddr,
    directory: PathBuf,
    client: String,
    seen: Mutex<BTreeMap<(ApiKey, i16), Vec<String>>>,
}

/// A request whose answer is awaited.
struct Asked {
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    frame: Bytes,
}

impl Capture {
    fn carry(self: Arc<Self>, mut client: TcpStream) -> io::Result<()> {
        let mut broker = TcpStream::connect(self.to)?;
        client.set_nodelay(true)?;
        broker.set_nodelay(true)?;
        let asked = Arc::new(Mutex::new(VecDeque::new()));
        let back = {
            let (mut broker, mut client) = (broker.try_clone()?, client.try_clone()?);
            let (capture, asked) = (Arc::clone(&self), Arc::clone(&asked));
            thread::spawn(move || -> io::Result<()> {
                while let Some(frame) = read_frame(&mut broker)? {
                    write_frame(&mut client, &capture.answered(&asked, frame))?;
                }
                client.shutdown(std::net::Shutdown::Both)
            })
        };
        while let Some(frame) = read_frame(&mut client)? {
            if let Ok((header, _)) = decode_any_request(frame.clone()) {
                let (api, version, correlation_id) = (header.api, header.version, header.correlation_id);
                lock(&asked).push_back(Asked { api, version, correlation_id, frame: frame.clone() });
            }
            write_frame(&mut broker, &frame)?;
        }
        broker.shutdown(std::net::Shutdown::Both)?;
        let _ = back.join();
        Ok(())
    }

    /// Writes the exchange down and returns the answer with addresses that lead here.
    fn answered(&self, asked: &Mutex<VecDeque<Asked>>, frame: Bytes) -> Bytes {
        let Some(correlation_id) = frame.first_chunk().copied().map(i32::from_be_bytes) else { return frame };
        let request = {
            let mut asked = lock(asked);
            // Requests without an answer (acks=0) or of other APIs have left gaps.
            let Some(position) = asked.iter().position(|asked| asked.correlation_id == correlation_id) else {
                return frame;
            };
            asked.drain(..=position).next_back()
        };
        let Some(Asked { api, version, frame: request, .. }) = request else { return frame };
        if let Err(error) = self.keep(api, version, &request, &frame) {
            eprintln!("cannot write down {} v{version}: {error}", api.name());
        }
        let Ok((_, mut response)) = decode_any_response(frame.clone(), api, version) else { return frame };
        let (host, port) = (self.listen.ip().to_string(), i32::from(self.listen.port()));
        match &mut response {
            AnyResponse::Metadata(metadata) => {
                for broker in &mut metadata.brokers {
                    (broker.host, broker.port) = (host.clone(), port);
                }
            }
            AnyResponse::DescribeCluster(cluster) => {
                for broker in &mut cluster.brokers {
                    (broker.host, broker.port) = (host.clone(), port);
                }
            }
            AnyResponse::FindCoordinator(found) => {
                if found.error_code == 0 {
                    (found.host, found.port) = (host.clone(), port);
                }
                for found in found.coordinators.iter_mut().filter(|found| found.error_code == 0) {
                    (found.host, found.port) = (host.clone(), port);
                }
            }
            _ => return frame,
        }
        encode_any_response(version, correlation_id, &response).into_content()
    }

    fn keep(&self, api: ApiKey, version: i16, request: &Bytes, response: &Bytes) -> io::Result<()> {
        if request.len().max(response.len()) > LONGEST {
            return Ok(());
        }
        let exchange = format!("> {}\n< {}\n", hex(request), hex(response));
        let mut seen = lock(&self.seen);
        let kept = seen.entry((api, version)).or_default();
        // What differs only in its correlation id, the bytes 4 to 7, is not worth keeping.
        let same = |kept: &String| kept.get(18..).is_some_and(|kept| exchange.get(18..) == Some(kept));
        if kept.len() >= KEPT || kept.iter().any(same) {
            return Ok(());
        }
        kept.push(exchange);
        let name = format!("{}-{}-v{version}.hex", self.client, api.name());
        let comment = format!("# {} says {} version {version} to a broker.\n", self.client, api.name());
        std::fs::write(self.directory.join(name), comment + &kept.concat())
    }
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Option<Bytes>> {
    let mut size = [0; 4];
    match stream.read_exact(&mut size) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let size = usize::try_from(i32::from_be_bytes(size)).map_err(io::Error::other)?;
    let mut frame = vec![0; size];
    stream.read_exact(&mut frame)?;
    Ok(Some(frame.into()))
}

fn write_frame(stream: &mut TcpStream, frame: &[u8]) -> io::Result<()> {
    let size = i32::try_from(frame.len()).map_err(io::Error::other)?;
    stream.write_all(&[&size.to_be_bytes(), frame].concat())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
