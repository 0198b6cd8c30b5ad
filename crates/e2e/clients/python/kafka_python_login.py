"""Logs in with kafka-python."""

import time

from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

import login
from login import RECORDS, WITHIN, setting


class Token(AbstractTokenProvider):
    def token(self):
        return setting("TOKEN")


def security():
    names = {
        "security_protocol": "PROTOCOL", "sasl_mechanism": "MECHANISM", "sasl_plain_username": "USER",
        "sasl_plain_password": "PASSWORD", "ssl_cafile": "CA", "ssl_certfile": "CERTIFICATE", "ssl_keyfile": "KEY",
    }
    config = {name: setting(variable) for name, variable in names.items() if setting(variable)}
    if setting("TOKEN"):
        config["sasl_oauth_token_provider"] = Token()
    return config


# It tries for all of this time to get in, without a word why it is not let in.
MAX_BLOCK_MS = 8_000


def send(bootstrap, topic):
    producer = KafkaProducer(bootstrap_servers=bootstrap, max_block_ms=MAX_BLOCK_MS, **security())
    for sent in [producer.send(topic, value) for value in RECORDS]:
        sent.get(WITHIN)
    producer.close()


def read(bootstrap, topic, group):
    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", **security(),
    )
    found = []
    deadline = time.monotonic() + WITHIN
    while not login.is_all(found) and time.monotonic() < deadline:
        for records in consumer.poll(200).values():
            found.extend(record.value for record in records)
    consumer.close()
    return found


login.run(send, read)
