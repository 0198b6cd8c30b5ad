"""What the programs that log in share: `PROGRAM BOOTSTRAP TOPIC`, and who they are in the environment.

They send ten records to the topic, read them back as a group and exit 0; or say on standard error what was refused and
exit 1. E2E_PROTOCOL is one of Kafka's security protocols; E2E_MECHANISM, E2E_USER and E2E_PASSWORD or E2E_TOKEN are for
SASL; E2E_CA, E2E_CERTIFICATE and E2E_KEY name PEM files.
"""

import os
import sys
import time

RECORDS = [str(number).encode() for number in range(10)]
WITHIN = 25


def setting(name):
    return os.environ.get(f"E2E_{name}")


def is_all(found):
    """Whether everything that was sent is there; others may use the topic, too."""
    return set(RECORDS) <= set(found)


def run(send, read):
    """Calls send(bootstrap, topic) and read(bootstrap, topic, group), which returns the values it found."""
    bootstrap, topic = sys.argv[1:]
    try:
        send(bootstrap, topic)
        found = read(bootstrap, topic, f"{topic}-readers-{time.time_ns()}")
        if not is_all(found):
            raise AssertionError(f"read {found}")
    except Exception as refused:
        print(f"{type(refused).__name__}: {refused}", file=sys.stderr)
        # Some clients have threads that would go on trying.
        sys.stderr.flush()
        os._exit(1)
    print('{"login": true}')
