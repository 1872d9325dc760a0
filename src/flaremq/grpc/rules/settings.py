"""Settings: what a client is told when it has told what it is."""

from __future__ import annotations

from typing import Any, Final

from flaremq.grpc.messages.enums import ClientType
from flaremq.grpc.rules.limits import CallLimits
from flaremq.grpc.rules.times import duration
from flaremq.protocol.bodies.group import SubscriptionGroupConfig

PRODUCERS: Final = frozenset((ClientType.PRODUCER,))
PUSH: Final = frozenset((ClientType.PUSH_CONSUMER, ClientType.LITE_PUSH_CONSUMER))
CONSUMERS: Final = PUSH | {ClientType.SIMPLE_CONSUMER, ClientType.PULL_CONSUMER, ClientType.LITE_SIMPLE_CONSUMER}

_MINUTE: Final = 60_000
# After which times a group without a policy of its own is given a message again: RocketMQ's.
RETRY_STEPS_MS: Final = (
    1_000,
    5_000,
    10_000,
    30_000,
    *(minutes * _MINUTE for minutes in range(1, 11)),
    20 * _MINUTE,
    30 * _MINUTE,
    60 * _MINUTE,
    120 * _MINUTE,
)
_STEPS_MAX: Final = 64
_DAY_MS: Final = 24 * 3600_000


def max_attempts(group: SubscriptionGroupConfig) -> int:
    """How often a message is given to the group: once, and its retries."""
    return max(0, group.retry_max_times) + 1


def completed(settings: Any, limits: CallLimits, group: SubscriptionGroupConfig | None) -> Any:
    """A client's settings with the server's word in them. ``group`` is that of a consumer."""
    result = type(settings)()
    result.CopyFrom(settings)
    result.metric.Clear()
    result.metric.on = False
    if settings.WhichOneof("pub_sub") == "subscription":
        assert group is not None
        _complete_subscription(result, limits, group)
    else:
        _complete_publishing(result, limits)
    return result


def _complete_publishing(result: Any, limits: CallLimits) -> None:
    policy = result.backoff_policy
    policy.Clear()
    policy.max_attempts = limits.producer_max_attempts
    policy.exponential_backoff.initial.CopyFrom(duration(limits.producer_backoff_initial_ms))
    policy.exponential_backoff.max.CopyFrom(duration(limits.producer_backoff_max_ms))
    policy.exponential_backoff.multiplier = limits.producer_backoff_multiplier
    result.publishing.max_body_size = limits.max_message_size
    result.publishing.validate_message_type = limits.enable_topic_message_type_check


def _complete_subscription(result: Any, limits: CallLimits, group: SubscriptionGroupConfig) -> None:
    subscription = result.subscription
    subscription.fifo = group.consume_message_orderly
    subscription.receive_batch_size = limits.receive_batch_size
    subscription.long_polling_timeout.CopyFrom(duration(limits.max_long_polling_ms))
    policy = result.backoff_policy
    policy.Clear()
    policy.max_attempts = max_attempts(group)
    exponential = _exponential(group)
    if exponential is not None:
        initial, longest, multiplier = exponential
        policy.exponential_backoff.initial.CopyFrom(duration(initial))
        policy.exponential_backoff.max.CopyFrom(duration(longest))
        policy.exponential_backoff.multiplier = multiplier
    else:
        policy.customized_backoff.next.extend(map(duration, _steps(group)))


def retry_delay_ms(group: SubscriptionGroupConfig | None, reconsume_times: int) -> int:
    """How long the group waits for a message that it did not settle after so many retries."""
    if group is None:
        group = SubscriptionGroupConfig()
    exponential = _exponential(group)
    if exponential is not None:
        initial, longest, multiplier = exponential
        return int(min(initial * multiplier ** min(reconsume_times, 32), longest))
    steps = _steps(group)
    return steps[min(max(0, reconsume_times) + 2, len(steps) - 1)]


def _exponential(group: SubscriptionGroupConfig) -> tuple[int, int, float] | None:
    """First wait, longest wait and factor of a group whose waits grow by themselves."""
    policy = group.group_retry_policy or {}
    if policy.get("type") != "EXPONENTIAL":
        return None
    own = policy.get("exponentialRetryPolicy")
    own = own if isinstance(own, dict) else {}
    initial = _number(own.get("initial"), 5_000)
    longest = _number(own.get("max"), 120 * _MINUTE)
    multiplier = own.get("multiplier", 2)
    if not isinstance(multiplier, int | float) or not 1 <= multiplier <= 1000:
        multiplier = 2
    return initial, longest, float(multiplier)


def _steps(group: SubscriptionGroupConfig) -> tuple[int, ...]:
    policy = group.group_retry_policy or {}
    own = policy.get("customizedRetryPolicy")
    steps = own.get("next") if isinstance(own, dict) else None
    if not isinstance(steps, list) or not steps:
        return RETRY_STEPS_MS
    return tuple(_number(step, _MINUTE) for step in steps[:_STEPS_MAX])


def _number(value: object, default: int) -> int:
    """Milliseconds from a file that anybody may have written."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _DAY_MS:
        return value
    return default
