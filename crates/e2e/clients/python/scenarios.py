"""The scenarios every client runs, over a small driver that each client fills in.

    <driver>.py BOOTSTRAP SCENARIO PREFIX

Prints one line of JSON for each check and exits 0; exits 1 with the reason on stderr. What the client itself cannot
do is printed as {"unsupported": reason} when it concerns the whole scenario and as {"skipped": what, "reason": why}
when it concerns a part. The other languages follow the same script, so that one harness reads them all.
"""

import json
import sys
import time
import traceback
from dataclasses import dataclass, field

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
FIRST_TIMESTAMP = 1_700_000_000_000
# Timestamps lie in the past, where the default retention would delete them.
KEEP = {"retention.ms": "-1"}
READ_WITHIN = 20.0
COMPACT_WITHIN = 60.0


class Unsupported(Exception):
    """The client has no such feature; says why."""


@dataclass
class Record:
    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp: int | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    offset: int | None = None


class Driver:
    """What a scenario asks of a client. Everything returns only when the broker has answered."""

    # Parts of the record shape that the client cannot send, with the reason.
    cannot_send: dict[str, str] = {}
    # How many records the idempotent scenario sends.
    many = 3000

    def version(self) -> str: raise NotImplementedError
    def create(self, topic, partitions, config): raise NotImplementedError
    def prepare(self, topic, partitions, config): self.create(topic, partitions, config)
    def arrange(self, records): return records
    def partitions(self, topic): raise NotImplementedError
    def config(self, topic): raise NotImplementedError
    def produce(self, topic, records, codec="none", idempotent=False): raise NotImplementedError
    def read(self, topic, partition, start, until): raise NotImplementedError
    def bounds(self, topic, partition): raise NotImplementedError
    def at_time(self, topic, partition, timestamp): raise NotImplementedError
    def delete_records(self, topic, partition, before): raise NotImplementedError
    def delete(self, topic): raise NotImplementedError
    def close(self): pass


def say(**line):
    print(json.dumps(line), flush=True)


def check(name, found, wanted):
    if found != wanted:
        raise AssertionError(f"{name}: found {found!r}, wanted {wanted!r}")
    say(check=name)


def eventually(name, seconds, probe):
    """Calls `probe` until it returns None; what it returns otherwise says what is still missing."""
    deadline = time.monotonic() + seconds
    while True:
        missing = probe()
        if missing is None:
            say(check=name)
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"{name}: after {seconds} s still {missing}")
        time.sleep(0.1)


def mixed_records(driver):
    """Sixty records over two partitions with every shape of key, value, header and timestamp."""
    records = []
    for i in range(60):
        headers = []
        if "headers" not in driver.cannot_send:
            if i % 3 == 0:
                headers = [("a", b"1"), ("a", b"2"), ("empty", b"")]
                if "null header" not in driver.cannot_send:
                    headers.append(("null", None))
            elif i % 3 == 2:
                headers = [("bytes", bytes(range("zero byte in a header" in driver.cannot_send, 256)))]
        no_key = i % 5 == 0 and not (i % 7 == 3 and "null key with null value" in driver.cannot_send)
        records.append(Record(
            partition=i % 2,
            key=None if no_key else b"key-%d\x00\xff" % i,
            value=None if i % 7 == 3 else b"value-%d-" % i + bytes([i * 37 % 256]) * (i * 13 % 300),
            timestamp=None if "timestamp" in driver.cannot_send else FIRST_TIMESTAMP + i * 1000,
            headers=headers,
        ))
    for part, reason in driver.cannot_send.items():
        say(skipped=part, reason=reason)
    return records


def compare(driver, topic, records):
    """The partitions hold exactly `records`, byte for byte, from offset 0."""
    for partition in sorted({record.partition for record in records}):
        wanted = [record for record in records if record.partition == partition]
        found = driver.read(topic, partition, 0, len(wanted))
        check(f"partition {partition} count", len(found), len(wanted))
        for offset, (a, b) in enumerate(zip(found, wanted)):
            where = f"partition {partition} offset {offset}"
            if a.offset != offset: raise AssertionError(f"{where}: has offset {a.offset}")
            if a.key != b.key: raise AssertionError(f"{where}: key {a.key!r} wanted {b.key!r}")
            if a.value != b.value: raise AssertionError(f"{where}: value {a.value!r} wanted {b.value!r}")
            if b.timestamp is not None and a.timestamp != b.timestamp:
                raise AssertionError(f"{where}: timestamp {a.timestamp} wanted {b.timestamp}")
            if a.headers != b.headers: raise AssertionError(f"{where}: headers {a.headers!r} wanted {b.headers!r}")
        say(check=f"partition {partition} byte for byte")


def scenario_create(driver, topic):
    try:
        driver.create(topic, 3, {"retention.ms": "123456789", "cleanup.policy": "delete"})
    except Unsupported as reason:
        driver.produce(topic, [Record(value=b"first")])
        check("created by its first record", driver.partitions(topic), 1)
        raise Unsupported(f"{reason}; a topic is created by its first record") from reason
    check("partitions in metadata", driver.partitions(topic), 3)
    config = driver.config(topic)
    check("retention.ms", config.get("retention.ms"), "123456789")
    check("cleanup.policy", config.get("cleanup.policy"), "delete")
    try:
        driver.create(topic, 3, {})
    except Exception as error:
        if "exist" not in (str(error) + type(error).__name__).lower():
            raise AssertionError(f"creating again: {error!r}") from error
        say(check="creating it again is refused")
    else:
        raise AssertionError("creating the topic again was not refused")


def scenario_produce(driver, topic, codec):
    driver.prepare(topic, 2, KEEP)
    records = driver.arrange(mixed_records(driver))
    driver.produce(topic, records, codec=codec)
    compare(driver, topic, records)


def numbered(count, **more):
    return [Record(value=b"%d" % i, key=b"k%d" % i, timestamp=FIRST_TIMESTAMP + i * 1000, **more) for i in range(count)]


def scenario_from_offset(driver, topic):
    driver.prepare(topic, 1, KEEP)
    driver.produce(topic, numbered(100))
    check("bounds", driver.bounds(topic, 0), (0, 100))
    for start in (37, 99):
        found = driver.read(topic, 0, start, 100)
        check(f"from offset {start}", [(r.offset, r.value) for r in found], [(i, b"%d" % i) for i in range(start, 100)])


def scenario_by_time(driver, topic):
    driver.prepare(topic, 1, KEEP)
    if "timestamp" in driver.cannot_send:
        say(skipped="timestamp", reason=driver.cannot_send["timestamp"])
        driver.produce(topic, numbered(50))
        first = driver.read(topic, 0, 0, 50)
        while time.time() * 1000 <= first[-1].timestamp + 2:
            time.sleep(0.001)
        driver.produce(topic, numbered(50))
        times = [r.timestamp for r in driver.read(topic, 0, 0, 100)]
        for asked in (times[0], times[60]):
            wanted = next(i for i, t in enumerate(times) if t >= asked)
            check(f"offset at record time {asked - times[0]}", driver.at_time(topic, 0, asked), wanted)
        start = driver.at_time(topic, 0, times[49] + 1)
        check("offset between the two", start, 50)
    else:
        records = numbered(100)
        for i in range(0, 100, 25):
            driver.produce(topic, records[i:i + 25])
        for asked, wanted in ((0, 0), (41_500, 42), (42_000, 42), (50_000, 50), (99_000, 99)):
            check(f"offset at +{asked} ms", driver.at_time(topic, 0, FIRST_TIMESTAMP + asked), wanted)
        check("no offset after the last", driver.at_time(topic, 0, FIRST_TIMESTAMP + 99_001), None)
        start = 42
    found = driver.read(topic, 0, start, 100)
    check("consumed from there", [(r.offset) for r in found], list(range(start, 100)))


def scenario_idempotent(driver, topic):
    driver.prepare(topic, 3, {})
    records = [Record(value=b"%d" % i, key=b"k%d" % i, partition=i % 3) for i in range(driver.many)]
    driver.produce(topic, records, idempotent=True)
    for partition in range(3):
        wanted = [r.value for r in records if r.partition == partition]
        check(f"end of partition {partition}", driver.bounds(topic, partition), (0, len(wanted)))
        found = driver.read(topic, partition, 0, len(wanted))
        check(f"partition {partition} none lost, none doubled, in order", [r.value for r in found] == wanted, True)


def scenario_compaction(driver, topic):
    driver.prepare(topic, 1, {
        "cleanup.policy": "compact", "segment.ms": "300", "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100",
    })
    keys = [b"key-%d" % k for k in range(10)]
    for round_ in range(5):
        driver.produce(topic, [
            Record(key=key, value=b"round %d version %d" % (round_, version)) for version in range(4) for key in keys
        ] + [Record(key=b"gone", value=b"round %d" % round_)])
    driver.produce(topic, [Record(key=b"gone", value=None)])
    wanted = {key: b"round 4 version 3" for key in keys}

    def probe():
        # A record that comes after segment.ms closes the segment before it; only closed segments are compacted.
        driver.produce(topic, [Record(key=b"tick", value=b"tick")])
        begin, end = driver.bounds(topic, 0)
        left = [r for r in driver.read(topic, 0, begin, end) if r.key != b"tick"]
        latest = {}
        for record in left:
            latest[record.key] = record.value
        if latest.pop(b"gone", None) is not None:
            raise AssertionError("the deleted key came back")
        if latest != wanted:
            raise AssertionError(f"the last value of a key is lost: {latest!r}")
        offsets = [r.offset for r in left]
        if offsets != sorted(offsets):
            raise AssertionError("compaction changed the order")
        values = [r for r in left if r.value is not None]
        return None if len(values) == len(keys) else f"{len(values)} values for {len(keys)} keys"

    eventually("one value for each key", COMPACT_WITHIN, probe)


def scenario_delete(driver, topic):
    driver.prepare(topic, 1, KEEP)
    driver.produce(topic, numbered(10))
    try:
        driver.delete_records(topic, 0, 5)
        check("bounds after deleting records", driver.bounds(topic, 0), (5, 10))
        found = driver.read(topic, 0, 5, 10)
        check("what is left", [r.value for r in found], [b"%d" % i for i in range(5, 10)])
    except Unsupported as reason:
        say(skipped="delete records", reason=str(reason))
    driver.delete(topic)
    eventually("gone from metadata", 15, lambda: None if driver.partitions(topic) is None else "there")


def main(make_driver):
    bootstrap, scenario, prefix = (sys.argv[1:] + ["", "", ""])[:3]
    driver = make_driver(bootstrap)
    topic = f"{prefix}-{scenario}"
    code = 0
    try:
        if scenario == "version":
            say(version=driver.version())
        elif scenario.startswith("produce-"):
            scenario_produce(driver, topic, scenario.removeprefix("produce-"))
        else:
            {
                "create": scenario_create, "from-offset": scenario_from_offset, "by-time": scenario_by_time,
                "idempotent": scenario_idempotent, "compaction": scenario_compaction, "delete": scenario_delete,
            }[scenario](driver, topic)
    except Unsupported as reason:
        say(unsupported=str(reason))
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        driver.close()
    except Exception:
        traceback.print_exc()
        code = code or 1
    sys.exit(code)
