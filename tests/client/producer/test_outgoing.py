"""What is made of messages before they are sent: the compiled way against the plain one."""

from __future__ import annotations

import asyncio
import pickle
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flaremq.client.client_id import unique_keys
from flaremq.client.options import ProducerOptions
from flaremq.client.producer.line import Line, tell, tell_failure
from flaremq.client.producer.outgoing import Outgoing, encode_items, item_bytes, prepare, prepare_batch
from flaremq.client.producer.send_result import SendResult, SendStatus, results_of_batch
from flaremq.clock import ManualClock, SystemClock
from flaremq.errors import InvalidArgumentError, UnavailableError
from flaremq.message.batch import encode_batch_item
from flaremq.message.message import Message
from flaremq.message.message_id import UniqueKeyFactory
from flaremq.message.properties import UNIQUE_KEY, parse_properties
from flaremq.protocol.bodies.queue import MessageQueue

OPTIONS = ProducerOptions()
QUEUE = MessageQueue("T", "broker-a", 0)
KEYS = unique_keys("127.0.0.1", SystemClock())

words = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\x01\x02"), min_size=1, max_size=9)
messages = st.builds(
    Message,
    st.just("T"),
    st.binary(min_size=1, max_size=200),
    tags=st.none() | st.sampled_from(["a", "é中"]),
    keys=st.none() | words,
    properties=st.none() | st.dictionaries(words, words, max_size=3),
    flag=st.integers(-(2**31), 2**31 - 1),
)


@given(st.lists(messages, max_size=20))
def test_batch_holds_the_bytes_of_its_messages_one_after_the_other(given_messages: list[Message]) -> None:
    batch = prepare_batch(given_messages, KEYS, OPTIONS)
    plain = b"".join(encode_batch_item(one.flag, one.body, one.properties) for one in batch)
    assert encode_items(batch) == plain
    assert item_bytes(batch) == len(plain)


@given(messages, words)
def test_prepared_message_has_its_own_properties_and_the_key(message: Message, key: str) -> None:
    outgoing = prepare(message, key, OPTIONS)
    given_key = (message.properties or {}).get(UNIQUE_KEY, key)
    assert outgoing.properties == message.encoded_properties() + f"UNIQ_KEY\x01{given_key}\x02".encode()
    assert parse_properties(outgoing.properties)[UNIQUE_KEY] == outgoing.unique_key == given_key
    assert (outgoing.topic, outgoing.body, outgoing.flag) == ("T", message.body, message.flag)
    assert not outgoing.is_alone


@pytest.mark.parametrize("flag", [2**31, -(2**31) - 1])
def test_flag_that_fits_no_record_is_refused_in_a_batch(flag: int) -> None:
    batch = prepare_batch([Message("T", b"x", flag=flag)], KEYS, OPTIONS)
    with pytest.raises(InvalidArgumentError, match="flag"):
        encode_items(batch)


@pytest.mark.parametrize("wrong", [None, 3, "text", object()])
def test_what_is_no_message_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError, match="is a Message"):
        prepare(wrong, "key", OPTIONS)  # type: ignore[arg-type]


@pytest.mark.parametrize("topic", [None, 3, ["T"], "", "a b"])
def test_what_is_no_topic_is_refused_each_time(topic: object) -> None:
    for _ in range(2):
        with pytest.raises(InvalidArgumentError):
            prepare(Message(topic, b"x"), "key", OPTIONS)  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["10.1.2.3", "2001:db8::1"])
def test_keys_are_those_of_the_factory_and_each_is_made_once(address: str) -> None:
    clock = ManualClock()
    keys = unique_keys(address, clock)
    made = []
    for _ in range(3):
        made += [keys.make() for _ in range(300)]
        clock.advance(1)
    assert len(set(made)) == len(made)
    packed = bytes(4 if "." in address else 16)
    pattern = UniqueKeyFactory(address=packed, process_id=0, instance_hash=0).make(clock.now_ms())
    assert {len(key) for key in made} == {len(pattern)}
    assert all(set(key) <= set("0123456789ABCDEF") for key in made)
    assert [key[-12:-4] for key in made[::300]] == sorted({key[-12:-4] for key in made})  # the time, by milliseconds


def test_counter_of_keys_starts_over_after_its_last_value() -> None:
    keys = unique_keys("127.0.0.1", ManualClock())
    made = [keys.make() for _ in range(1 << 16)]
    assert len(set(made)) == 1 << 16
    assert made[-2].endswith("FFFF") and made[-1].endswith("0000")
    assert keys.make() == made[0]


@given(st.lists(st.tuples(st.integers(1, 400), st.booleans()), max_size=80), st.data())
def test_line_gives_what_fits_in_the_order_it_came(sizes: list[tuple[int, bool]], data: st.DataObject) -> None:
    numbers = iter(range(1000))
    line = Line(lambda: next(numbers))  # type: ignore[arg-type, return-value]  # numbers stand for futures
    plain: deque[tuple[Outgoing, int]] = deque()
    waiting = [Outgoing("T", bytes(size), b"k\x01v\x02", "key", 0) for size, _ in sizes]
    for message, (_, is_alone) in zip(waiting, sizes, strict=True):
        message.is_alone = is_alone
    while waiting or plain:
        for message in waiting[: (count := data.draw(st.integers(0 if plain else 1, 30)))]:
            plain.append((message, line.put(message)))  # type: ignore[arg-type]
        waiting = waiting[count:]
        assert len(line) == len(plain) and line.first is plain[0][0]
        count_max = data.draw(st.sampled_from([1, 3, 1024]))
        taken = [plain.popleft()]
        room = 500 - len(taken[0][0].body)
        while not taken[0][0].is_alone and plain and len(taken) < count_max:
            room -= len(plain[0][0].body) + len(plain[0][0].properties)
            if plain[0][0].is_alone or room < 0:
                break
            taken.append(plain.popleft())
        assert line.take(500, count_max) == ([one for one, _ in taken], [number for _, number in taken])
    assert not line and line.clear() == []


def test_those_who_gave_up_are_told_nothing() -> None:
    async def run() -> None:
        line = Line(asyncio.get_running_loop().create_future)
        futures = [line.put(Outgoing("T", b"x", b"", str(number), 0)) for number in range(4)]
        sent, rest = line.take(1, 1)[1] + line.take(100, 1)[1], line.clear()
        assert sent + rest == futures and not line
        futures[0].cancel()
        futures[2].cancel()
        results = results_of_batch(SendStatus.SEND_OK, [Outgoing("T", b"x", b"", "k", 0)] * 2, "a,b", QUEUE, 7)
        tell(sent, results)
        tell_failure(rest, UnavailableError("closed"))
        assert futures[1].result() is results[1]
        assert isinstance(futures[3].exception(), UnavailableError)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("ids", "expected"), [("a,bb,c", ["a", "bb", "c"]), ("a", ["a", "a", "a"]), ("", ["", "", ""])]
)
def test_results_of_a_batch_have_their_own_ids_and_offsets(ids: str, expected: list[str]) -> None:
    batch = [Outgoing("T", b"x", b"", f"key-{number}", 0) for number in range(3)]
    results = results_of_batch(SendStatus.FLUSH_DISK_TIMEOUT, batch, ids, QUEUE, 40)
    assert [(one.message_id, one.offset_message_id, one.queue_offset) for one in results] == [
        (f"key-{number}", expected[number], 40 + number) for number in range(3)
    ]
    assert {(one.status, one.queue, one.ok, one.transaction_id) for one in results} == {
        (SendStatus.FLUSH_DISK_TIMEOUT, QUEUE, False, None)
    }


def test_result_can_be_pickled_and_says_what_it_is() -> None:
    result = SendResult(SendStatus.SEND_OK, "id", "place", QUEUE, 5, transaction_id="t", recall_handle="h")
    again = pickle.loads(pickle.dumps(result))
    names = ("status", "message_id", "offset_message_id", "queue", "queue_offset", "transaction_id", "recall_handle")
    assert [getattr(again, name) for name in names] == [getattr(result, name) for name in names]
    assert repr(again) == repr(result)
    assert "queue_offset=5" in repr(result) and result.queue_id == 0
