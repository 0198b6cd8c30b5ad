"""Logs in with confluent-kafka, over a librdkafka with OpenSSL."""

import time

from confluent_kafka import Consumer, KafkaError, Producer

import login
from login import RECORDS, WITHIN, setting


def security(errors):
    """What is configured, and where it is written down why nobody is let in."""
    names = {
        "security.protocol": "PROTOCOL", "sasl.mechanism": "MECHANISM", "sasl.username": "USER",
        "sasl.password": "PASSWORD", "ssl.ca.location": "CA", "ssl.certificate.location": "CERTIFICATE",
        "ssl.key.location": "KEY",
    }
    config = {name: setting(variable) for name, variable in names.items() if setting(variable)}
    if setting("TOKEN"):
        config["oauth_cb"] = lambda _: (setting("TOKEN"), time.time() + 300)

    def failed(error):
        if error.code() in (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._ALL_BROKERS_DOWN):
            errors.append(error)

    return config | {"error_cb": failed}


def refused(errors):
    """The most telling of them."""
    known = [error for error in errors if error.code() != KafkaError._ALL_BROKERS_DOWN]
    return RuntimeError("; ".join(str(error) for error in known or errors))


def send(bootstrap, topic):
    errors, failures = [], []
    producer = Producer(security(errors) | {"bootstrap.servers": bootstrap, "message.timeout.ms": WITHIN * 1000})
    for value in RECORDS:
        producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    deadline = time.monotonic() + WITHIN
    while producer.flush(0.2):
        known = [error for error in errors if error.code() != KafkaError._ALL_BROKERS_DOWN]
        if known or time.monotonic() > deadline:
            raise refused(errors)
    if failures:
        raise RuntimeError(f"{failures[0]} {errors}")


def read(bootstrap, topic, group):
    errors, found = [], []
    consumer = Consumer(security(errors) | {
        "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
    })
    consumer.subscribe([topic])
    deadline = time.monotonic() + WITHIN
    while not login.is_all(found) and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error():
            raise RuntimeError(str(message.error()))
        if message is not None:
            found.append(message.value())
    consumer.close()
    return found


login.run(send, read)
