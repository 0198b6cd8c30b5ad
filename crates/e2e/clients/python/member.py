"""What the members of a group do, whatever client they use.

    <client>_member.py BOOTSTRAP GROUP TOPIC ASSIGNOR SESSION_MS [INSTANCE]

Prints a line for everything that happens to it, each with the time of CLOCK_MONOTONIC in nanoseconds, which is the
same clock for all processes of a machine:

    TIME assigned P,P            partitions that it owns from now on, beside those it has
    TIME revoked P,P             partitions that it gave up in good order
    TIME lost P,P                partitions that were taken from it
    TIME record P OFFSET VALUE   a record is processed; printed before its offset is committed
    TIME committed P:OFFSET,…    the broker has acknowledged these offsets
    TIME trouble TEXT            something that a person may want to know
    TIME left                    it left the group and ends

It leaves the group when its standard input ends, so that no member outlives the test that started it. The other
languages follow the same script.
"""

import os
import sys
import threading
import time

# A commit is sent when so many records or so many seconds have passed since the last one.
COMMIT_RECORDS = 20
COMMIT_SECONDS = 0.1


class Arguments:
    def __init__(self):
        words = sys.argv[1:]
        self.bootstrap, self.group, self.topic, self.assignor = words[:4]
        self.session_ms = int(words[4])
        self.heartbeat_ms = self.session_ms // 12
        self.instance = words[5] if len(words) > 5 else None


def say(event, *words):
    # One write for each line, so that a kill leaves whole lines.
    sys.stdout.write(" ".join([str(time.monotonic_ns()), event, *map(str, words)]) + "\n")
    sys.stdout.flush()


def partitions(numbers):
    return ",".join(map(str, sorted(numbers)))


def leave_when_told():
    """An event that is set when standard input ends."""
    told = threading.Event()

    def wait():
        # Below Python's own file, whose lock would be missed when the program ends for another reason.
        while os.read(0, 1024):
            pass
        told.set()

    threading.Thread(target=wait, daemon=True).start()
    return told


def when_the_broker_is_there(start, errors):
    """What `start` makes, which may need a few attempts while the broker starts itself."""
    while True:
        try:
            return start()
        except errors as error:
            say("trouble", "start:", repr(error))
            time.sleep(0.05)


class Progress:
    """What was processed and is not committed yet, as the next offset of each partition."""

    def __init__(self):
        self.next = {}
        self.waiting = 0
        self.since = time.monotonic()

    def record(self, partition, offset, value):
        say("record", partition, offset, value.decode())
        if not self.next:
            self.since = time.monotonic()
        self.next[partition] = offset + 1
        self.waiting += 1

    def is_due(self):
        return self.next and (
            self.waiting >= COMMIT_RECORDS or time.monotonic() - self.since > COMMIT_SECONDS
        )

    def of(self, numbers):
        return {partition: self.next[partition] for partition in numbers if partition in self.next}

    def committed(self, offsets):
        if offsets:
            say("committed", ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items())))
        for partition, offset in offsets.items():
            if self.next.get(partition) == offset:
                del self.next[partition]
        if not self.next:
            self.waiting = 0

    def not_committed(self):
        """Waits a while before the next attempt."""
        self.waiting = 0
        self.since = time.monotonic()

    def forget(self, numbers):
        for partition in numbers:
            self.next.pop(partition, None)
