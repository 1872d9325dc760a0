"""A real broker inside a test: in-process, on free ports, with a temporary store and a clock that the test moves.

::

    def test_reminder_arrives_after_an_hour():
        with ephemeral_broker() as broker:
            with flaremq.sync.Producer(broker.name_server, group="g") as producer:
                producer.send_delayed(Message("reminders", b"..."), level=17)
            broker.advance(hours=1)
            ...

``async with ephemeral_broker() as broker`` runs it on the test's own event loop instead; ``await broker.advanced(...)``
is the asynchronous ``advance``. Delays, timers, retries and check-backs of transactions follow the broker's clock;
sockets, long polls and whatever the clients do follow the real one. Pytest users have the fixture ``flaremq_broker``.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flaremq.testing.broker import EphemeralBroker, ephemeral_broker

__all__ = ["EphemeralBroker", "ephemeral_broker"]


def __getattr__(name: str) -> Any:
    """On demand: pytest loads the plugin beside it in every project that has FlareMQ installed."""
    if name not in __all__:
        raise AttributeError(f"module 'flaremq.testing' has no attribute {name!r}")
    from flaremq.testing import broker

    return getattr(broker, name)
