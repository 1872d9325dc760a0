"""Kafka's clients, as their users write it: batches of 256 KB, 5 ms of patience, acknowledged by the leader."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.clients.load import BODY, LOOK_EVERY, WARM_SENDS, WARM_WINDOW_1, Meter, key, run, window_1
from benchmarks.timing import Row, percentiles

_BATCH_BYTES = 262_144
_LINGER_MS = 5
_QUEUED = 500_000


# aiokafka


def aiokafka_many(*, address: str, topic: str, seconds: float, servers: list[int]) -> Row:
    async def main() -> Row:
        async with _aiokafka_producer(address, linger_ms=_LINGER_MS, max_batch_size=_BATCH_BYTES) as producer:
            for number in range(WARM_SENDS):
                await producer.send(topic, BODY, key(number).encode())
            await producer.flush()
            meter, number, send, future = Meter(servers), 0, producer.send, None
            while number & LOOK_EVERY or meter.elapsed < seconds:
                future = await send(topic, BODY, key(number).encode())
                number += 1
            await producer.flush()
            row = meter.describe(number)
            assert future is not None
            await future
            return row

    return run(main())


def aiokafka_one(*, address: str, topic: str, seconds: float, servers: list[int]) -> Row:
    async def main() -> Row:
        async with _aiokafka_producer(address, linger_ms=0) as producer:
            return await window_1(lambda n: producer.send_and_wait(topic, BODY, key(n).encode()), seconds, servers)

    return run(main())


def aiokafka_consume(*, address: str, topic: str, messages: int, servers: list[int]) -> Row:
    async def main() -> Row:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=f"bench-{time.time_ns()}",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_partition_fetch_bytes=8 << 20,
        )
        async with consumer:
            await consumer.getone()
            meter, seen, size = Meter(servers), 0, 0
            while seen < messages * 9 // 10:
                found = await consumer.getmany(timeout_ms=5_000, max_records=2_000)
                if not found:
                    raise RuntimeError(f"{seen} of {messages} messages came")
                for records in found.values():
                    seen += len(records)
                    for record in records:
                        size += len(record.value)
            row = meter.describe(seen)
        if size != seen * len(BODY):
            raise RuntimeError(f"{seen} messages with {size} bytes")
        return row

    return run(main())


def _aiokafka_producer(address: str, **settings: Any) -> Any:
    from aiokafka import AIOKafkaProducer

    return AIOKafkaProducer(bootstrap_servers=address, acks=1, **settings)


# confluent-kafka


def confluent_many(*, address: str, topic: str, seconds: float, servers: list[int]) -> Row:
    producer = _confluent_producer(address, linger=_LINGER_MS)
    for number in range(WARM_SENDS):
        producer.produce(topic, BODY, key(number))
    producer.flush()
    meter, number, produce = Meter(servers), 0, producer.produce
    while number & LOOK_EVERY or meter.elapsed < seconds:
        try:
            produce(topic, BODY, key(number))
        except BufferError:
            producer.poll(0.05)
            continue
        number += 1
        if not number & 1023:
            producer.poll(0)
    left = producer.flush()
    row = meter.describe(number)
    if left:
        raise RuntimeError(f"{left} messages were not acknowledged")
    return row


def confluent_fill(*, address: str, topic: str, messages: int) -> Row:
    producer = _confluent_producer(address, linger=_LINGER_MS)
    for number in range(messages):
        while True:
            try:
                producer.produce(topic, BODY, key(number))
                break
            except BufferError:
                producer.poll(0.05)
    if left := producer.flush():
        raise RuntimeError(f"{left} messages were not acknowledged")
    return {"messages": messages}


def confluent_one(*, address: str, topic: str, seconds: float, servers: list[int]) -> Row:
    producer = _confluent_producer(address, linger=0)

    def send(number: int) -> None:
        producer.produce(topic, BODY, key(number))
        producer.flush()

    for number in range(WARM_WINDOW_1):
        send(number)
    meter, taken, clock = Meter(servers), [], time.perf_counter_ns
    while meter.elapsed < seconds:
        began = clock()
        send(len(taken))
        taken.append(clock() - began)
    return meter.describe(len(taken)) | percentiles(taken)


def confluent_consume(*, address: str, topic: str, messages: int, servers: list[int]) -> Row:
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"bench-{time.time_ns()}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "queued.min.messages": 200_000,
        }
    )
    consumer.subscribe([topic])
    deadline = time.monotonic() + 30
    while consumer.poll(1) is None:
        if time.monotonic() > deadline:
            raise RuntimeError("no message in 30 s")
    meter, seen, size = Meter(servers), 0, 0
    while seen < messages * 9 // 10:
        found = consumer.consume(1_000, 5)
        if not found:
            raise RuntimeError(f"{seen} of {messages} messages came")
        for message in found:
            size += len(message.value())
        seen += len(found)
    row = meter.describe(seen)
    consumer.close()
    if size != seen * len(BODY):
        raise RuntimeError(f"{seen} messages with {size} bytes")
    return row


def _confluent_producer(address: str, *, linger: int) -> Any:
    from confluent_kafka import Producer

    settings: dict[str, Any] = {"bootstrap.servers": address, "acks": 1, "linger.ms": linger}
    if linger:
        settings |= {"batch.size": _BATCH_BYTES, "queue.buffering.max.messages": _QUEUED}
        settings["queue.buffering.max.kbytes"] = 1 << 20
    return Producer(settings)
