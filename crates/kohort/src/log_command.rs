//! `kohort log`: reads a data directory while no broker runs on it.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use batch::RecordCursor;
use serde::Serialize;
use serde_json::json;
use store::{Disk, DumpedBatch, Finding, RealDisk, TopicId, Verified};

use crate::cli::{DumpArgs, Format, LogCommand};
use crate::failure::{Failure, Kind};
use crate::output::{Table, bytes, count, show};

/// Runs `kohort log …`.
pub(crate) fn run(command: &LogCommand) -> anyhow::Result<()> {
    match command {
        LogCommand::Verify { directory, output } => verify(&directory.data_dir, output.output),
        LogCommand::Dump(args) => dump(args),
    }
}

/// What `kohort log verify` says.
#[derive(Serialize)]
struct Report {
    sound: bool,
    files: u64,
    batches: u64,
    records: u64,
    bytes: u64,
    findings: Vec<Found>,
}

#[derive(Serialize)]
struct Found {
    file: String,
    position: u64,
    what: String,
    harmless: bool,
}

impl From<Finding> for Found {
    fn from(finding: Finding) -> Self {
        let Finding { file, position, what, harmless } = finding;
        Self { file: file.display().to_string(), position, what, harmless }
    }
}

impl From<Verified> for Report {
    fn from(verified: Verified) -> Self {
        Self {
            sound: verified.findings.iter().all(|finding| finding.harmless),
            files: verified.files,
            batches: verified.batches,
            records: verified.records,
            bytes: verified.bytes,
            findings: verified.findings.into_iter().map(Found::from).collect(),
        }
    }
}

fn verify(data_dir: &Path, format: Format) -> anyhow::Result<()> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let verified =
        store::verify(&disk, data_dir).with_context(|| format!("verify {}", data_dir.display()))?;
    let report = Report::from(verified);
    show(format, &report, render)?;
    if report.sound {
        return Ok(());
    }
    Err(Failure::new(Kind::Failed, format!("{} is damaged", data_dir.display())).into())
}

fn render(report: &Report) -> String {
    let mut text = String::new();
    if !report.findings.is_empty() {
        let mut table = Table::new(&["FILE", "POSITION", "DAMAGE", "WHAT"]);
        for finding in &report.findings {
            let damage = if finding.harmless { "no, a start mends it" } else { "yes" };
            let position = finding.position.to_string();
            table.row([finding.file.clone(), position, damage.to_owned(), finding.what.clone()]);
        }
        text.push_str(&table.render());
    }
    let number = |number: u64, thing| count(usize::try_from(number).unwrap_or(usize::MAX), thing);
    let batches =
        if report.batches == 1 { "1 batch".to_owned() } else { format!("{} batches", report.batches) };
    text.push_str(&format!(
        "{}: {batches} with {} ({}) in {}\n",
        if report.sound { "sound" } else { "damaged" },
        number(report.records, "record"),
        bytes(report.bytes),
        number(report.files, "file"),
    ));
    text
}

fn dump(args: &DumpArgs) -> anyhow::Result<()> {
    let wanted: Option<TopicId> = match &args.topic {
        None => None,
        Some(id) => Some(id.parse().map_err(|_| {
            let message =
                format!("--topic {id}: expected an id like top_01…, as `kohort topic list` shows it");
            Failure::new(Kind::Usage, message)
        })?),
    };
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    let verified = store::dump(&disk, &args.directory.data_dir, &mut |batch| {
        // The walk cannot be stopped, but nothing needs to be written once nobody reads.
        if written.is_ok() && wanted.is_none_or(|topic| topic == batch.key.topic) {
            written = match args.output.output {
                Format::Table => write_text(&mut out, batch, args.records),
                Format::Json => write_json(&mut out, batch, args.records),
            };
        }
    });
    let verified = verified.with_context(|| format!("dump {}", args.directory.data_dir.display()))?;
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(error).context("write the dump");
        }
        _ => {}
    }
    if let Some(finding) = verified.findings.iter().find(|finding| !finding.harmless) {
        let message = format!("{} at {}: {}", finding.file.display(), finding.position, finding.what);
        return Err(Failure::new(Kind::Failed, format!("{message}; see `kohort log verify`")).into());
    }
    Ok(())
}

fn codec(batch: &DumpedBatch) -> String {
    batch.header.codec().map_or_else(|_| "unknown".to_owned(), |codec| format!("{codec:?}").to_lowercase())
}

/// One line a batch, and one a record if these are wanted.
fn write_text(out: &mut impl Write, batch: &DumpedBatch, records: bool) -> io::Result<()> {
    let header = &batch.header;
    write!(
        out,
        "{}-{} offsets {}..={} records {} bytes {} codec {} timestamp {}",
        batch.key.topic,
        batch.key.partition,
        header.base_offset,
        header.last_offset(),
        header.records_count,
        header.size(),
        codec(batch),
        header.max_timestamp,
    )?;
    if header.has_producer() {
        let (id, epoch, sequence) = (header.producer_id, header.producer_epoch, header.base_sequence);
        write!(out, " producer {id} epoch {epoch} sequence {sequence}")?;
    }
    writeln!(out, " at {}:{}", batch.file.display(), batch.position)?;
    if records {
        let text = |bytes: Option<&[u8]>| match bytes {
            None => "null".to_owned(),
            Some(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
        };
        each_record(batch, |record| match record {
            Ok(record) => {
                let (offset, timestamp) = (record.offset, record.timestamp);
                let (key, value) = (text(record.key), text(record.value));
                writeln!(out, "  {offset} timestamp {timestamp} key {key} value {value}")
            }
            Err(error) => writeln!(out, "  unreadable: {error}"),
        })?;
    }
    Ok(())
}

/// One JSON object a batch, on a line of its own: a dump may be larger than memory.
fn write_json(out: &mut impl Write, batch: &DumpedBatch, records: bool) -> io::Result<()> {
    let header = &batch.header;
    let mut object = json!({
        "topic_id": batch.key.topic.to_string(),
        "partition": batch.key.partition,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset(),
        "records_count": header.records_count,
        "bytes": header.size(),
        "codec": codec(batch),
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "file": batch.file.display().to_string(),
        "position": batch.position,
    });
    if records {
        let mut list = Vec::new();
        let text = |bytes: Option<&[u8]>| bytes.map(String::from_utf8_lossy).map(String::from);
        each_record(batch, |record| {
            list.push(match record {
                Ok(record) => json!({
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": text(record.key),
                    "value": text(record.value),
                }),
                Err(error) => json!({ "error": error.to_string() }),
            });
            Ok(())
        })?;
        object["records"] = list.into();
    }
    writeln!(out, "{object}")
}

fn each_record(
    batch: &DumpedBatch,
    mut each: impl FnMut(Result<batch::RecordView<'_>, batch::BatchError>) -> io::Result<()>,
) -> io::Result<()> {
    match RecordCursor::new(&batch.batch) {
        Err(error) => each(Err(error)),
        Ok(mut cursor) => {
            while let Some(record) = cursor.next_record() {
                each(record)?;
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_report_names_every_finding_and_says_whether_it_matters() {
        let finding = |file: &str, harmless| Finding {
            file: file.into(),
            position: 64,
            what: "a batch is torn".to_owned(),
            harmless,
        };
        let mut verified = Verified { files: 2, batches: 1, records: 3, bytes: 2048, ..Verified::default() };
        expect![[r#"
            sound: 1 batch with 3 records (2.0 KiB) in 2 files
        "#]]
        .assert_eq(&render(&verified.clone().into()));
        verified.findings = vec![finding("log/1", true), finding("topics/x", false)];
        expect![[r#"
            FILE      POSITION  DAMAGE                WHAT
            log/1     64        no, a start mends it  a batch is torn
            topics/x  64        yes                   a batch is torn
            damaged: 1 batch with 3 records (2.0 KiB) in 2 files
        "#]]
        .assert_eq(&render(&verified.into()));
    }
}
