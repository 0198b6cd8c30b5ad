"""The scenarios with aiokafka."""

import asyncio
import time

import aiokafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import for_code

import scenarios
from scenarios import Record


class Aio(scenarios.Driver):
    cannot_send = {"null key with null value": "aiokafka refuses a record with neither"}

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.loop = asyncio.new_event_loop()
        self.admin_client = None

    def version(self):
        return aiokafka.__version__

    def run(self, awaitable):
        return self.loop.run_until_complete(awaitable)

    async def admin(self):
        if self.admin_client is None:
            self.admin_client = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await self.admin_client.start()
        return self.admin_client

    def create(self, topic, partitions, config):
        async def create():
            admin = await self.admin()
            response = await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=config)])
            for _name, code, *message in response.topic_errors:
                if code:
                    raise for_code(code)(*message)
        self.run(create())

    def partitions(self, topic):
        async def partitions():
            for found in await (await self.admin()).describe_topics():
                if found["topic"] == topic:
                    return len(found["partitions"])
            return None
        return self.run(partitions())

    def config(self, topic):
        async def config():
            admin = await self.admin()
            [response] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            [(code, message, _kind, _name, entries)] = response.resources
            if code:
                raise for_code(code)(message)
            return {entry[0]: entry[1] for entry in entries}
        return self.run(config())

    def produce(self, topic, records, codec="none", idempotent=False):
        async def produce():
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap, compression_type=None if codec == "none" else codec, acks="all",
                linger_ms=5, enable_idempotence=idempotent,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(topic, value=record.value, key=record.key, partition=record.partition,
                                        headers=record.headers, timestamp_ms=record.timestamp)
                    for record in records
                ]
                await asyncio.gather(*futures)
            finally:
                await producer.stop()
        self.run(produce())

    async def consumer(self):
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, group_id=None, enable_auto_commit=False, auto_offset_reset="none",
            check_crcs=True, fetch_max_wait_ms=100,
        )
        await consumer.start()
        return consumer

    def read(self, topic, partition, start, until):
        async def read(start):
            consumer = await self.consumer()
            found = []
            deadline = time.monotonic() + scenarios.READ_WITHIN
            try:
                where = TopicPartition(topic, partition)
                consumer.assign([where])
                consumer.seek(where, start)
                while start < until:
                    for record in (await consumer.getmany(where, timeout_ms=500)).get(where, []):
                        if record.offset >= until:
                            return found
                        start = record.offset + 1
                        found.append(Record(record.value, record.key, partition, record.timestamp,
                                            [(k, v) for k, v in record.headers], record.offset))
                    if time.monotonic() > deadline:
                        raise AssertionError(f"read to {start} of {until}")
            finally:
                await consumer.stop()
            return found
        return self.run(read(start))

    def bounds(self, topic, partition):
        async def bounds():
            consumer = await self.consumer()
            try:
                where = TopicPartition(topic, partition)
                consumer.assign([where])
                return (await consumer.beginning_offsets([where]))[where], (await consumer.end_offsets([where]))[where]
            finally:
                await consumer.stop()
        return self.run(bounds())

    def at_time(self, topic, partition, timestamp):
        async def at_time():
            consumer = await self.consumer()
            try:
                where = TopicPartition(topic, partition)
                consumer.assign([where])
                found = (await consumer.offsets_for_times({where: timestamp}))[where]
                return None if found is None else found.offset
            finally:
                await consumer.stop()
        return self.run(at_time())

    def delete_records(self, topic, partition, before):
        async def delete_records():
            admin = await self.admin()
            await admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(before_offset=before)})
        self.run(delete_records())

    def delete(self, topic):
        async def delete():
            response = await (await self.admin()).delete_topics([topic])
            for _name, code, *_message in response.topic_error_codes:
                if code:
                    raise for_code(code)()
        self.run(delete())

    def close(self):
        if self.admin_client is not None:
            self.run(self.admin_client.close())
        self.loop.close()


if __name__ == "__main__":
    scenarios.main(Aio)
