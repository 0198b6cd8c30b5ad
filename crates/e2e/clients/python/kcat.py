"""The scenarios with kcat, which produces, consumes and lists but has no admin requests.

Topics that need partitions or settings are made beforehand with confluent-kafka.
"""

import json
import re
import subprocess

import confluent
import scenarios
from scenarios import Record, Unsupported

END_OF_KEY = b"=KEY="
END_OF_RECORD = b"=RECORD="


class Kcat(scenarios.Driver):
    cannot_send = {
        "timestamp": "kcat stamps records itself",
        "zero byte in a header": "kcat takes headers as arguments of a command",
    }

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.helper = confluent.Confluent(bootstrap)

    def kcat(self, *arguments, stdin=b""):
        done = subprocess.run(["kcat", "-b", self.bootstrap, *arguments], input=stdin, capture_output=True, timeout=60)
        if done.returncode != 0:
            raise AssertionError(f"kcat {arguments}: {done.stderr.decode(errors='replace')}")
        return done.stdout

    def version(self):
        done = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True)
        kcat, librdkafka = re.search(r"Version (\S+) .*librdkafka (\S+)", done.stdout + done.stderr).groups()
        return f"{kcat} (librdkafka {librdkafka})"

    def create(self, topic, partitions, config):
        raise Unsupported("kcat has no admin requests")

    def prepare(self, topic, partitions, config):
        scenarios.say(skipped="making the topic", reason="kcat has no admin requests; confluent-kafka makes it")
        self.helper.create(topic, partitions, config)

    def arrange(self, records):
        # One run of kcat gives the same headers to all it sends.
        return sorted(records, key=lambda record: (record.partition, repr(record.headers)))

    def partitions(self, topic):
        for found in json.loads(self.kcat("-L", "-J"))["topics"]:
            if found["topic"] == topic:
                return len(found["partitions"])
        return None

    def produce(self, topic, records, codec="none", idempotent=False):
        runs = {}
        for record in records:
            runs.setdefault((record.partition, repr(record.headers)), []).append(record)
        for (partition, _), run in runs.items():
            headers = []
            for name, value in run[0].headers:
                headers += ["-H", name.encode() if value is None else name.encode() + b"=" + value]
            # -Z makes an empty key or value null.
            stdin = b"".join((r.key or b"") + END_OF_KEY + (r.value or b"") + END_OF_RECORD for r in run)
            self.kcat("-P", "-t", topic, "-p", str(partition), "-z", codec, "-Z", "-K", END_OF_KEY, "-D", END_OF_RECORD,
                      "-X", "acks=all", "-X", f"enable.idempotence={str(idempotent).lower()}", *headers, stdin=stdin)

    def read(self, topic, partition, start, until):
        found = []
        output = self.kcat("-C", "-q", "-e", "-t", topic, "-p", str(partition), "-o", str(start), "-X",
                           "check.crcs=true", "-f", "%o %T %K %S\n%k%s%h\x1e\n")
        while output:
            line, output = output.split(b"\n", 1)
            offset, timestamp, key_size, value_size = map(int, line.split())
            key, output = (None, output) if key_size < 0 else (output[:key_size], output[key_size:])
            value, output = (None, output) if value_size < 0 else (output[:value_size], output[value_size:])
            if output.startswith(b"bytes="):
                text = bytes(range(1, 256))
                if not output.startswith(b"bytes=" + text):
                    raise AssertionError(f"header at offset {offset}: {output[:300]!r}")
                headers, output = [("bytes", text)], output[len(b"bytes=") + len(text):]
            else:
                text, _, _ = output.partition(b"\x1e")
                output = output[len(text):]
                headers = [tuple(header.split(b"=")) for header in text.split(b",") if header]
                headers = [(name.decode(), None if value_ == b"NULL" else value_) for name, value_ in headers]
            if not output.startswith(b"\x1e\n"):
                raise AssertionError(f"kcat printed something else at offset {offset}: {output[:80]!r}")
            output = output[2:]
            if offset < until:
                found.append(Record(value, key, partition, timestamp, headers, offset))
        return found

    def query(self, topic, partition, timestamp):
        return int(self.kcat("-Q", "-t", f"{topic}:{partition}:{timestamp}").split()[-1])

    def bounds(self, topic, partition):
        return self.query(topic, partition, -2), self.query(topic, partition, -1)

    def at_time(self, topic, partition, timestamp):
        offset = self.query(topic, partition, timestamp)
        return offset if offset >= 0 else None

    def delete(self, topic):
        raise Unsupported("kcat has no admin requests")

    delete_records = lambda self, topic, partition, before: self.delete(topic)


if __name__ == "__main__":
    scenarios.main(Kcat)
